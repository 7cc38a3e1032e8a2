import CLinux
import Glibc
package import Wire

/// What one `accept` came to.
package enum AcceptOutcome: Sendable {
    /// A new connection and its peer; not blocking, small writes leave at once.
    case accepted(Socket, SocketAddress)
    case wouldBlock
    /// Nothing can be accepted for now. `EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`: the listener stays readable, so stop
    /// watching it for a while.
    case failed(Int32)
}

/// What one `connect` came to.
package enum ConnectOutcome: Sendable {
    case connected(Socket)
    /// Watch for writing; then `takeError()` tells how it went (0: connected).
    case inProgress(Socket)
    case failed(SystemFault)
}

extension Socket {
    /// A listener. With `reusePort`, one per worker on the same address and the system spreads connections over them;
    /// a unix listener has no such thing and is shared.
    ///
    /// An IPv6 listener takes IPv6 only. A unix socket's file gets mode 0660 and replaces a file on which nobody
    /// listens any more.
    package static func listen(
        on address: SocketAddress, reusePort: Bool = true, backlog: Int32 = 4096
    ) throws(SystemFault) -> Socket {
        let operation = "listen on \(address)"
        if case .unix(let path) = address, path.hasPrefix("/") { try removeStale(path, address, operation) }
        let socket = try open(address, operation)
        do throws(SystemFault) {
            try socket.prepare(address, reusePort: reusePort, operation)
            guard unsafe address.withSystemAddress({ unsafe bind(socket.descriptor, $0, $1) }) == 0 else {
                throw SystemFault(operation)
            }
            if case .unix(let path) = address, path.hasPrefix("/"), unsafe chmod(path, 0o660) != 0 {
                throw SystemFault(operation)
            }
            guard Glibc.listen(socket.descriptor, backlog) == 0 else { throw SystemFault(operation) }
        } catch {
            socket.close()
            throw error
        }
        return socket
    }

    /// The next waiting connection. Connections that ended while they waited are passed over.
    package func accept() -> AcceptOutcome {
        var descriptor: Int32 = -1
        for _ in 0..<16 {
            let peer = unsafe SocketAddress {
                descriptor = unsafe clinux_accept(self.descriptor, $0, $1)
                return descriptor >= 0
            }
            if let peer { return .accepted(Socket(descriptor: descriptor), peer) }
            switch errno {
            case EAGAIN: return .wouldBlock
            case ECONNABORTED, EINTR, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, ENETUNREACH:
                continue
            case let number: return .failed(number)
            }
        }
        return .wouldBlock
    }

    /// Begins a connection.
    package static func connect(to address: SocketAddress) -> ConnectOutcome {
        let operation = "connect to \(address)"
        do throws(SystemFault) {
            let socket = try open(address, operation)
            if address.port != nil { socket.setNoDelay() }
            if address.isLoopback { socket.setUnpaced() }
            if unsafe address.withSystemAddress({ unsafe Glibc.connect(socket.descriptor, $0, $1) }) == 0 {
                return .connected(socket)
            }
            if errno == EINPROGRESS { return .inProgress(socket) }
            let fault = SystemFault(operation)
            socket.close()
            return .failed(fault)
        } catch {
            return .failed(error)
        }
    }

    private static func open(_ address: SocketAddress, _ operation: String) throws(SystemFault) -> Socket {
        let descriptor = clinux_socket(address.family)
        guard descriptor >= 0 else { throw SystemFault(operation) }
        return Socket(descriptor: descriptor)
    }

    private func prepare(_ address: SocketAddress, reusePort: Bool, _ operation: String) throws(SystemFault) {
        guard address.port != nil else {
            // Before the file appears: nobody connects who could not later.
            _ = fchmod(descriptor, 0o660)
            return
        }
        var works = set(SOL_SOCKET, SO_REUSEADDR, 1)
        if reusePort { works = set(SOL_SOCKET, SO_REUSEPORT, 1) && works }
        if address.family == AF_INET6 { works = set(Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1) && works }
        // Accepted sockets inherit it, which spares a call each.
        works = set(Int32(IPPROTO_TCP), TCP_NODELAY, 1) && works
        guard works else { throw SystemFault(operation) }
        if address.isLoopback { setUnpaced() }
    }

    /// Removes a socket's file if nobody listens there; any other file stays and `bind` reports it.
    private static func removeStale(_ path: String, _ address: SocketAddress, _ operation: String) throws(SystemFault) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return }
        switch connect(to: address) {
        case .connected(let socket), .inProgress(let socket):
            socket.close()
            throw SystemFault(operation, errno: EADDRINUSE)
        case .failed(let fault):
            // A full backlog is somebody listening.
            if fault.errno == EAGAIN { throw SystemFault(operation, errno: EADDRINUSE) }
            if fault.errno == ECONNREFUSED { _ = unsafe unlink(path) }
        }
    }
}
