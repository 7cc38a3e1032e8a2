import CLinux
import Glibc
package import System
package import Threads
package import Wire

/// Events to watch a descriptor for. Errors and full hang-ups are always reported.
@frozen
public struct Interest: OptionSet, Sendable {
    public let rawValue: UInt8
    @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

    @inlinable public static var read: Interest { Interest(rawValue: 1) }
    @inlinable public static var write: Interest { Interest(rawValue: 2) }
}

/// One readiness event.
package struct Ready: Sendable {
    /// The token of `add`; `EventLoop.wakeToken` for a wake-up.
    package let token: UInt64
    let events: UInt32

    /// Bytes, end of stream or an error can be read.
    package var readable: Bool { events & UInt32(CLINUX_READABLE) != 0 }
    package var writable: Bool { events & UInt32(CLINUX_WRITABLE) != 0 }
    /// Both directions are shut down.
    package var hangup: Bool { events & UInt32(CLINUX_HANGUP) != 0 }
    /// The socket has an error: `Socket.takeError()`.
    package var error: Bool { events & UInt32(CLINUX_ERROR) != 0 }
}

/// One thread's epoll instance, level-triggered: an event repeats until its bytes are read or written.
@safe
package struct EventLoop: ~Copyable {
    /// Token of a wake-up by `waker`.
    package static let wakeToken = UInt64.max

    /// Wakes this loop from any thread; pass it to the mailboxes that the loop reads.
    package let waker: Waker
    private let epoll: Int32
    private let events: UnsafeMutablePointer<clinux_ready>
    private let capacity = 512

    package init() throws(SystemFault) {
        try self.init(waker: Waker())
    }

    /// A loop woken by `waker`, which others may have before the loop's thread runs.
    package init(waker: Waker) throws(SystemFault) {
        let epoll = clinux_epoll_create()
        guard epoll >= 0 else { throw SystemFault("create an event loop") }
        guard clinux_epoll_ctl(epoll, Int32(CLINUX_ADD), waker.descriptor, UInt32(CLINUX_READABLE), Self.wakeToken) == 0
        else {
            let fault = SystemFault("watch the wake-up of an event loop")
            Glibc.close(epoll)
            throw fault
        }
        self.waker = waker
        self.epoll = epoll
        unsafe events = .allocate(capacity: capacity)
    }

    deinit {
        Glibc.close(epoll)
        unsafe events.deallocate()
    }

    /// Waits for events, at most `milliseconds` (-1: no limit); returns their number. 0 if interrupted.
    package mutating func wait(milliseconds: Int32) -> Int {
        max(0, Int(unsafe clinux_epoll_wait(epoll, events, Int32(capacity), milliseconds)))
    }

    /// Whether there may be more events than the `count` that the last `wait` returned, a wake-up among them.
    package func mayHaveMore(than count: Int) -> Bool { count == capacity }

    /// Event `index` of the last `wait`, below its result.
    package func ready(_ index: Int) -> Ready {
        precondition(index >= 0 && index < capacity)
        return unsafe Ready(
            token: events[index].token, events: events[index].events)
    }

    /// Watches `socket` until it is closed; its events carry `token`.
    package func add(_ socket: Socket, token: UInt64, _ interest: Interest) throws(SystemFault) {
        try control(Int32(CLINUX_ADD), socket, token, interest)
    }

    /// Changes the interest and token of a watched socket.
    package func modify(_ socket: Socket, token: UInt64, _ interest: Interest) throws(SystemFault) {
        try control(Int32(CLINUX_MODIFY), socket, token, interest)
    }

    /// Stops watching `socket`. Needed before a close that leaves the socket open elsewhere, in another descriptor or process: its events
    /// would go on, with the token of a descriptor that may be another socket's by then (epoll(7)).
    package func remove(_ socket: Socket) {
        // The kernel has no reason to refuse this for a socket that it watches.
        _ = clinux_epoll_ctl(epoll, Int32(CLINUX_REMOVE), socket.descriptor, 0, 0)
    }

    private func control(
        _ operation: Int32, _ socket: Socket, _ token: UInt64, _ interest: Interest
    )
        throws(SystemFault)
    {
        var events: UInt32 = 0
        if interest.contains(.read) { events |= UInt32(CLINUX_READABLE) }
        if interest.contains(.write) { events |= UInt32(CLINUX_WRITABLE) }
        guard clinux_epoll_ctl(epoll, operation, socket.descriptor, events, token) == 0 else {
            throw SystemFault("watch a socket")
        }
    }

    /// Both clocks, without a system call.
    package static func now() -> Moment { SystemClock.now() }
}
