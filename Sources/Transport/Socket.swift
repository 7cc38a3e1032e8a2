import CLinux
import Glibc
package import Wire

/// A non-blocking stream socket: a descriptor, copied freely, closed once by whoever owns it.
package struct Socket: Sendable, Equatable {
    package let descriptor: Int32

    /// Takes a descriptor that is a stream socket and does not block.
    package init(descriptor: Int32) { self.descriptor = descriptor }

    /// Reads what is there, up to `limit` bytes, behind the readable bytes of `buffer`. One system call.
    ///
    /// Fewer bytes than `limit` mean that nothing more was there: no second call is needed before waiting.
    package func receive(into buffer: inout ByteBuffer, upTo limit: Int) -> IOOutcome {
        guard limit > 0 else { return .done(0) }
        var result = 0
        unsafe buffer.withUnsafeRoom(limit) { room in
            result = unsafe clinux_receive(descriptor, room.baseAddress, limit)
            return max(0, result)
        }
        if result > 0 { return .done(result) }
        if result == 0 { return .closed }
        return .failure(errno)
    }

    /// Whether a read would answer anything but `.wouldBlock`: bytes, the end or an error. One system call, which takes
    /// nothing.
    package var isReadable: Bool {
        var byte: UInt8 = 0
        let result = unsafe recv(descriptor, &byte, 1, Int32(MSG_PEEK))
        return result >= 0 || IOOutcome.failure(errno) != .wouldBlock
    }

    /// Sends what the system takes, with one system call.
    package func send(_ bytes: RawSpan) -> IOOutcome {
        let count = bytes.byteCount
        let sent = unsafe bytes.withUnsafeBytes { unsafe clinux_send(descriptor, $0.baseAddress, count) }
        return sent >= 0 ? .done(sent) : .failure(errno)
    }

    /// Sends the end of stream; reading goes on.
    package func shutdownWrite() {
        _ = shutdown(descriptor, Int32(SHUT_WR))
    }

    /// Ends the connection and frees the descriptor, which then may be any other socket's.
    package func close() {
        _ = Glibc.close(descriptor)
    }

    /// A second descriptor of the same socket, to be closed by another owner.
    package func duplicate() throws(SystemFault) -> Socket {
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw SystemFault("duplicate a socket") }
        return Socket(descriptor: copy)
    }

    /// Makes the coming `close` a reset: the peer sees an error and not an end.
    package func resetOnClose() {
        var option = linger(l_onoff: 1, l_linger: 0)
        _ = unsafe setsockopt(
            descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Closes with a reset: what was not sent is dropped and the peer sees an error.
    package func abort() {
        resetOnClose()
        close()
    }

    /// The socket's pending error, 0 if none; forgets it.
    package func takeError() -> Int32 {
        var number: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &length) == 0 ? number : errno
    }

    /// Where this end is: the port that was chosen for port 0.
    package func localAddress() throws(SystemFault) -> SocketAddress {
        let address = unsafe SocketAddress { unsafe getsockname(descriptor, $0, $1) == 0 }
        guard let address else { throw SystemFault("read a socket's address") }
        return address
    }

    /// Small writes leave at once. Sockets of `accept` and `connect` have it already.
    package func setNoDelay() {
        set(Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    }

    /// Takes the plainest congestion control there is, where the system lets it: what never leaves the machine meets no
    /// congestion, and a system-wide default that paces (BBR) would set a timer for every send.
    func setUnpaced() {
        _ = unsafe "reno".withCString { name in
            unsafe setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_CONGESTION, name, 4)
        }
    }

    @discardableResult
    func set(_ level: Int32, _ option: Int32, _ value: Int32) -> Bool {
        var value = value
        return unsafe setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0
    }
}

extension IOOutcome {
    /// What an error number of a read or write means.
    static func failure(_ number: Int32) -> IOOutcome {
        number == EAGAIN || number == EINTR ? .wouldBlock : .failed(number)
    }
}
