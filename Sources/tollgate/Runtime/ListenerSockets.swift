internal import Proxy
internal import Settings
internal import Transport
internal import Wire

/// The listening sockets of all workers, bound before any worker starts, so that a bind error fails the start.
struct ListenerSockets {
    /// By worker.
    private(set) var ofWorker: [[Listener]]
    /// Every bound address and its protocol.
    private(set) var addresses: [(address: SocketAddress, kind: StaticString)] = []

    init(_ configuration: GatewayConfiguration, workers: Int, tls: TLSServerContext?) throws(SystemFault) {
        ofWorker = Array(repeating: [], count: workers)
        for declaration in configuration.settings.listeners {
            try bind(declaration, "http") { Listener(socket: $0, announces: declaration.expectsProxyHeader, allowsHTTP2: declaration.allowsHTTP2) }
        }
        for declaration in configuration.settings.tlsListeners {
            try bind(declaration, "https") { Listener(socket: $0, announces: declaration.expectsProxyHeader, tls: tls) }
        }
        for declaration in configuration.settings.checkListeners {
            try bind(declaration, "check") {
                Listener(socket: $0, isCheck: true, announces: declaration.expectsProxyHeader, allowsHTTP2: declaration.allowsHTTP2)
            }
        }
        for declaration in configuration.settings.adminListeners {
            let socket = try Socket.listen(on: declaration.address, reusePort: false)
            ofWorker[0].append(Listener(socket: socket, isAdmin: true))
            addresses.append((try socket.localAddress(), "admin"))
        }
    }

    /// One socket for each worker on the same address (SO_REUSEPORT). Workers share a unix socket, each with a descriptor of
    /// its own to close.
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
