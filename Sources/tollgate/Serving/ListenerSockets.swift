internal import Proxy
internal import Settings
internal import Transport
internal import Wire

/// The listening sockets of all workers, bound before any of them runs, so that what cannot be bound is said at once.
struct ListenerSockets {
    /// For each worker, what it listens on.
    private(set) var ofWorker: [[Listener]]
    /// Every address in use, as it can be connected to, and what is spoken there.
    private(set) var addresses: [(address: SocketAddress, kind: StaticString)] = []

    init(_ configuration: GatewayConfiguration, workers: Int, tls: TLSServerContext?) throws(SystemFault) {
        ofWorker = Array(repeating: [], count: workers)
        for declaration in configuration.listeners {
            try bind(declaration, "http") { Listener(socket: $0, announces: declaration.expectsProxyHeader) }
        }
        for declaration in configuration.tlsListeners {
            try bind(declaration, "https") { Listener(socket: $0, announces: declaration.expectsProxyHeader, tls: tls) }
        }
        for declaration in configuration.adminListeners {
            let socket = try Socket.listen(on: declaration.address, reusePort: false)
            ofWorker[0].append(Listener(socket: socket, isAdmin: true))
            addresses.append((try socket.localAddress(), "admin"))
        }
    }

    /// One socket for each worker on the same address; a unix socket is one for all, under a descriptor for each, because
    /// each worker closes its own.
    private mutating func bind(
        _ declaration: ListenerDeclaration, _ kind: StaticString, _ listener: (Socket) -> Listener
    ) throws(SystemFault) {
        let first = try Socket.listen(on: declaration.address)
        let address = try first.localAddress()
        ofWorker[0].append(listener(first))
        addresses.append((address, kind))
        for worker in ofWorker.indices.dropFirst() {
            if case .unix = address {
                ofWorker[worker].append(listener(try first.duplicate()))
            } else {
                ofWorker[worker].append(listener(try Socket.listen(on: address)))
            }
        }
    }
}
