import CLinux
import Glibc

/// A pipe that moves bytes from one socket to another without copying them into the process.
package struct Splice: ~Copyable {
    /// Bytes taken from a source and not yet given to a destination.
    package private(set) var waiting = 0
    private let reading: Int32
    private let writing: Int32

    /// `capacity` bytes of room, if the system grants it (unprivileged: 1 MiB at most), else 64 KiB.
    package init(capacity: Int = 65536) throws(SystemFault) {
        var ends: (Int32, Int32) = (-1, -1)
        let made = unsafe withUnsafeMutableBytes(of: &ends) {
            unsafe clinux_pipe($0.baseAddress!.assumingMemoryBound(to: Int32.self))
        }
        guard made == 0 else { throw SystemFault("create a pipe") }
        (reading, writing) = ends
        if capacity != 65536 { _ = clinux_set_pipe_size(writing, Int32(clamping: capacity)) }
    }

    deinit {
        close(reading)
        close(writing)
    }

    /// Takes up to `limit` bytes from `socket`. Only with nothing `waiting`: a full pipe looks like an empty socket.
    package mutating func fill(from socket: Socket, upTo limit: Int) -> IOOutcome {
        let moved = clinux_splice(socket.descriptor, writing, limit, 0)
        if moved > 0 {
            waiting += moved
            return .done(moved)
        }
        if moved == 0 { return limit == 0 ? .done(0) : .closed }
        return .failure(errno)
    }

    /// Gives what waits to `socket`; `hasMore` holds back a last short packet for what follows soon.
    package mutating func drain(to socket: Socket, hasMore: Bool = false) -> IOOutcome {
        guard waiting > 0 else { return .done(0) }
        let moved = clinux_splice(reading, socket.descriptor, waiting, hasMore ? 1 : 0)
        guard moved > 0 else { return moved == 0 ? .wouldBlock : .failure(errno) }
        waiting -= moved
        return .done(moved)
    }
}
