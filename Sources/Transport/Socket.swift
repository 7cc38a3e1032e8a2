import CLinux
import Glibc
package import System
package import Wire

/// A non-blocking stream socket: a descriptor that is copied freely and closed once, by its owner.
package struct Socket: Sendable, Equatable {
    package let descriptor: Int32

    /// `descriptor` must be a non-blocking stream socket.
    package init(descriptor: Int32) { self.descriptor = descriptor }

    /// Appends available bytes to `buffer`, at most `limit`. One system call.
    ///
    /// Fewer bytes than `limit` mean that no more were available: wait before the next call.
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

    /// Whether a read would return anything but `.wouldBlock`: bytes, end of stream or an error. One system call (MSG_PEEK).
    package var isReadable: Bool {
        var byte: UInt8 = 0
        let result = unsafe recv(descriptor, &byte, 1, Int32(MSG_PEEK))
        return result >= 0 || IOOutcome.failure(errno) != .wouldBlock
    }

    /// Sends as much as the kernel accepts. One system call.
    package func send(_ bytes: RawSpan) -> IOOutcome {
        let count = bytes.byteCount
        let sent = unsafe bytes.withUnsafeBytes { unsafe clinux_send(descriptor, $0.baseAddress, count) }
        return sent >= 0 ? .done(sent) : .failure(errno)
    }

    /// Sends the end of stream; reading continues.
    package func shutdownWrite() {
        _ = shutdown(descriptor, Int32(SHUT_WR))
    }

    /// Closes the connection and frees the descriptor, which may then become another socket's.
    package func close() {
        _ = Glibc.close(descriptor)
    }

    /// A second descriptor of the same socket, with an owner of its own.
    package func duplicate() throws(SystemFault) -> Socket {
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw SystemFault("duplicate a socket") }
        return Socket(descriptor: copy)
    }

    /// Makes `close` send a reset (SO_LINGER 0): the peer sees an error instead of an end.
    package func resetOnClose() {
        var option = linger(l_onoff: 1, l_linger: 0)
        _ = unsafe setsockopt(
            descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Closes with a reset: unsent bytes are dropped and the peer sees an error.
    package func abort() {
        resetOnClose()
        close()
    }

    /// Returns and clears the pending error, 0 for none.
    package func takeError() -> Int32 {
        var number: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &length) == 0 ? number : errno
    }

    /// The local address: shows the port chosen for port 0.
    package func localAddress() throws(SystemFault) -> SocketAddress {
        let address = unsafe SocketAddress { unsafe getsockname(descriptor, $0, $1) == 0 }
        guard let address else { throw SystemFault("read a socket's address") }
        return address
    }

    /// Whether other sockets may listen on the same address (SO_REUSEPORT).
    package var sharesPort: Bool {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return unsafe getsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &value, &length) == 0 && value != 0
    }

    /// Disables Nagle's algorithm. Sockets of `accept` and `connect` have it disabled already.
    package func setNoDelay() {
        set(Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    }

    /// Has the kernel find out within two minutes that the peer of a silent connection is gone.
    package func keepAlive() {
        set(SOL_SOCKET, SO_KEEPALIVE, 1)
        set(Int32(IPPROTO_TCP), TCP_KEEPIDLE, 60)
        set(Int32(IPPROTO_TCP), TCP_KEEPINTVL, 15)
        set(Int32(IPPROTO_TCP), TCP_KEEPCNT, 4)
    }

    /// Selects Reno congestion control, if allowed: loopback has no congestion, and a system default that paces (BBR) sets a
    /// timer per send.
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
    /// Maps an errno of a read or write.
    static func failure(_ number: Int32) -> IOOutcome {
        number == EAGAIN || number == EINTR ? .wouldBlock : .failed(number)
    }
}
