import CLinux
import Glibc

/// A pipe of the kernel's, through which bytes go from one socket to another without coming into this process: for large
/// bodies that nobody here looks at, a third of what receiving and sending them costs. One thread at a time.
package struct KernelPipe: ~Copyable {
    private let readEnd: Int32
    private let writeEnd: Int32
    /// Bytes that wait in it.
    package private(set) var count = 0

    /// Enough pages for the largest piece that is received at once.
    private static let size: Int32 = 256 * 1_024

    /// Done once in a process: a socket that has gone answers with an error, and splice has no flag that says so.
    private static let ignoresSignal: Bool = {
        _ = signal(SIGPIPE, SIG_IGN)
        return true
    }()

    /// nil if the system gives no descriptors.
    package init?() {
        _ = Self.ignoresSignal
        var ends: (Int32, Int32) = (-1, -1)
        guard unsafe clinux_pipe(&ends.0, &ends.1, Self.size) == 0 else { return nil }
        (readEnd, writeEnd) = ends
    }

    deinit {
        close(readEnd)
        close(writeEnd)
    }

    /// Takes in what has arrived at `socket`, at most `room` bytes. The pipe must be empty, or a full one could not be told from
    /// a socket that has nothing.
    package mutating func fill(from socket: Socket, upTo room: Int) -> IOOutcome {
        precondition(count == 0 && room > 0)
        let moved = clinux_splice(socket.descriptor, writeEnd, room)
        if moved == 0 { return .closed }
        guard moved > 0 else { return .failure(errno) }
        count = moved
        return .done(moved)
    }

    /// Gives `socket` what it takes of what is there, which must be something.
    package mutating func drain(into socket: Socket) -> IOOutcome {
        precondition(count > 0)
        let moved = clinux_splice(readEnd, socket.descriptor, count)
        guard moved >= 0 else { return .failure(errno) }
        count -= moved
        return .done(moved)
    }
}

extension IOOutcome {
    /// Whether the system cannot do what was asked with such descriptors, whatever their state.
    package var isUnsupported: Bool { self == .failed(EINVAL) || self == .failed(ENOSYS) }
}
