import CLinux
import Glibc
package import System
package import Wire

/// Result of `accept`.
package enum AcceptOutcome: Sendable {
    /// A new non-blocking connection, without Nagle's algorithm, and its peer.
    case accepted(Socket, SocketAddress)
    case wouldBlock
    /// `EMFILE`, `ENFILE`, `ENOBUFS` or `ENOMEM`: the listener stays readable, so stop watching it for a while.
    case failed(Int32)
}

/// Result of `connect`.
package enum ConnectOutcome: Sendable {
    case connected(Socket)
    /// Watch for writing; then `takeError()` returns the result (0: connected).
    case inProgress(Socket)
    case failed(SystemFault)
}

extension Socket {
    /// Opens a listener. Refused if another socket listens on the address or one that overlaps it, also one of another process that
    /// would share it. With `joining`, it shares the address with a listener of this process: each worker has one, and the kernel spreads
    /// connections over them (SO_REUSEPORT). Unix listeners are shared by their descriptor instead.
    ///
    /// IPv6 listeners accept IPv6 only. The file of a unix socket has mode 0660 and replaces one without a listener.
    package static func listen(
        on address: SocketAddress, joining isJoining: Bool = false, backlog: Int32 = 4096
    ) throws(SystemFault) -> Socket {
        let operation = "listen on \(address)"
        // Held until the socket listens: two processes that find the file of one that has ended must not both replace it.
        let turn = FolderTurn(address)
        defer { turn.end() }
        if case .unix(let path) = address, path.hasPrefix("/") { try removeStale(path, address, operation) }
        let socket = try open(address, operation)
        do throws(SystemFault) {
            try socket.prepare(address, isJoining: isJoining, operation)
            guard unsafe address.withSystemAddress({ unsafe bind(socket.descriptor, $0, $1) }) == 0 else {
                throw SystemFault(operation)
            }
            if case .unix(let path) = address, path.hasPrefix("/"), unsafe chmod(path, 0o660) != 0 {
                throw SystemFault(operation)
            }
            guard Glibc.listen(socket.descriptor, backlog) == 0 else { throw SystemFault(operation) }
            // Only now: the kernel has checked that nothing else listens there, and a listener that joins finds it open to that.
            if address.port != nil, !isJoining, !socket.set(SOL_SOCKET, SO_REUSEPORT, 1) { throw SystemFault(operation) }
        } catch {
            socket.close()
            throw error
        }
        return socket
    }

    /// Accepts the next connection. Skips connections that ended while they waited.
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

    /// Starts a connection.
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

    private func prepare(_ address: SocketAddress, isJoining: Bool, _ operation: String) throws(SystemFault) {
        guard address.port != nil else {
            // Before the file exists, so that no client connects without permission.
            _ = fchmod(descriptor, 0o660)
            return
        }
        var works = set(SOL_SOCKET, SO_REUSEADDR, 1)
        if isJoining { works = set(SOL_SOCKET, SO_REUSEPORT, 1) && works }
        if address.family == AF_INET6 { works = set(Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1) && works }
        // Inherited by accepted sockets, which saves a call each.
        works = set(Int32(IPPROTO_TCP), TCP_NODELAY, 1) && works
        guard works else { throw SystemFault(operation) }
        if address.isLoopback { setUnpaced() }
    }

    /// Removes a socket file without a listener; `bind` reports any other file.
    private static func removeStale(_ path: String, _ address: SocketAddress, _ operation: String) throws(SystemFault) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK else { return }
        switch connect(to: address) {
        case .connected(let socket), .inProgress(let socket):
            socket.close()
            throw SystemFault(operation, errno: EADDRINUSE)
        case .failed(let fault):
            // A full backlog means that there is a listener.
            if fault.errno == EAGAIN { throw SystemFault(operation, errno: EADDRINUSE) }
            if fault.errno == ECONNREFUSED { _ = unsafe unlink(path) }
        }
    }
}

/// A turn at the folder of a unix socket's file: one process at a time opens a listener there.
private struct FolderTurn {
    private let folder: Int32

    /// Waits for the turn. Has none for other addresses, or where the folder cannot be opened, so that a listener cannot be either.
    init(_ address: SocketAddress) {
        guard case .unix(let path) = address, path.hasPrefix("/"), let slash = path.lastIndex(of: "/") else {
            folder = -1
            return
        }
        folder = unsafe Glibc.open(slash == path.startIndex ? "/" : String(path[..<slash]), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        // Any user who can read the folder can hold its lock: after two seconds the gateway goes on without it.
        var tries = 0
        while folder >= 0, tries < 200, flock(folder, LOCK_EX | LOCK_NB) != 0 {
            tries += 1
            usleep(10_000)
        }
    }

    func end() { if folder >= 0 { _ = close(folder) } }
}
