import CLinux
import Glibc
package import Wire

package enum AcceptOutcome: Sendable {
    case accepted(Socket, SocketAddress)
    case wouldBlock
    /// Nothing can be accepted for now; `EMFILE` and `ENFILE`: too many open files, stop watching for a while.
    case failed(Int32)
}

package enum ConnectOutcome: Sendable {
    case connected(Socket)
    /// Watch for writing; then `takeError()` tells how it went.
    case inProgress(Socket)
    case failed(SystemFault)
}

/// A non-blocking stream socket: a descriptor, copied freely, closed once by whoever owns it.
package struct Socket: Sendable, Equatable {
    package let descriptor: Int32
    package init(descriptor: Int32) { self.descriptor = descriptor }

    package static func listen(on address: SocketAddress, reusePort: Bool = true, backlog: Int32 = 4096) throws(SystemFault) -> Socket {
        throw SystemFault("listen", errno: ENOSYS)
    }
    package func accept() -> AcceptOutcome { .failed(ENOSYS) }
    package static func connect(to address: SocketAddress) -> ConnectOutcome { .failed(SystemFault("connect", errno: ENOSYS)) }
    /// Reads what is there, up to `limit` bytes, behind the readable bytes of `buffer`.
    package func receive(into buffer: inout ByteBuffer, upTo limit: Int) -> IOOutcome { .failed(ENOSYS) }
    package func send(_ bytes: RawSpan) -> IOOutcome { .failed(ENOSYS) }
    /// Both spans with one system call.
    package func send(_ first: RawSpan, _ second: RawSpan) -> IOOutcome { .failed(ENOSYS) }
    package func shutdownWrite() {}
    package func close() {}
    /// Closes with a reset: what was not sent is dropped and the peer sees an error.
    package func abort() {}
    /// The socket's pending error, 0 if none; forgets it.
    package func takeError() -> Int32 { 0 }
    package func setNoDelay() {}
    package func localAddress() throws(SystemFault) -> SocketAddress { throw SystemFault("", errno: ENOSYS) }
}

/// A pipe for moving bytes between two sockets without copying them into the process.
package struct Splice: ~Copyable {
    package init() throws(SystemFault) { throw SystemFault("", errno: ENOSYS) }
    /// Bytes taken from a source and not yet given to a destination.
    package var waiting: Int { 0 }
    package mutating func fill(from socket: Socket, upTo limit: Int) -> IOOutcome { .failed(ENOSYS) }
    package mutating func drain(to socket: Socket, hasMore: Bool = false) -> IOOutcome { .failed(ENOSYS) }
}
