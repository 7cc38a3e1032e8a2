import CLinux
import Glibc

/// A pipe for splice(2): moves bytes between sockets without copying them to user space, at a third of the cost of receive
/// and send. For large bodies that are not read here. One thread at a time.
package struct KernelPipe: ~Copyable {
    private let readEnd: Int32
    private let writeEnd: Int32
    /// Bytes in the pipe.
    package private(set) var count = 0

    /// Enough for the largest piece that is received at once.
    private static let size: Int32 = 256 * 1_024

    /// Ignores SIGPIPE, once per process: splice has no flag for it.
    private static let ignoresSignal: Bool = {
        _ = signal(SIGPIPE, SIG_IGN)
        return true
    }()

    /// nil if no descriptors are left.
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

    /// Moves available bytes from `socket` into the pipe, at most `room`. The pipe must be empty, because a full one could
    /// not be told from an idle socket.
    package mutating func fill(from socket: Socket, upTo room: Int) -> IOOutcome {
        precondition(count == 0 && room > 0)
        let moved = clinux_splice(socket.descriptor, writeEnd, room)
        if moved == 0 { return .closed }
        guard moved > 0 else { return .failure(errno) }
        count = moved
        return .done(moved)
    }

    /// Moves bytes from the pipe, which must not be empty, to `socket`.
    package mutating func drain(into socket: Socket) -> IOOutcome {
        precondition(count > 0)
        let moved = clinux_splice(readEnd, socket.descriptor, count)
        guard moved >= 0 else { return .failure(errno) }
        count -= moved
        return .done(moved)
    }
}

extension IOOutcome {
    /// Whether splice does not support such descriptors, whatever their state.
    package var isUnsupported: Bool { self == .failed(EINVAL) || self == .failed(ENOSYS) }
}
