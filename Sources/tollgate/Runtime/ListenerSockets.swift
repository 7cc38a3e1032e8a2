internal import Proxy
internal import Settings
internal import System
internal import Transport
internal import Wire

/// The listening sockets of all workers, bound before any worker starts, so that a bind error fails the start.
struct ListenerSockets {
    /// By worker.
    private(set) var ofWorker: [[Listener]]
    /// Every bound address and its protocol.
    private(set) var addresses: [(address: SocketAddress, kind: ListenerKind)] = []
    /// The sockets by declared address, for the process that takes over from this one.
    private(set) var groups: [ListenerGroup] = []
    private var inherited: InheritedListeners
    /// The addresses that this process listens on, those of inherited sockets included.
    private var held: [SocketAddress]

    /// Takes inherited sockets of the declared addresses over, closes the other inherited ones, and binds what is missing.
    init(
        _ configuration: GatewayConfiguration, workers: Int, tls: TLSServerContext?, inheriting inherited: InheritedListeners
    ) throws(SystemFault) {
        ofWorker = Array(repeating: [], count: workers)
        self.inherited = inherited
        held = try inherited.addresses()
        for declaration in configuration.settings.listeners + configuration.settings.acmeListeners {
            try bind(declaration, .http) {
                var listener = Listener(socket: $0, announces: declaration.expectsProxyHeader, allowsHTTP2: declaration.allowsHTTP2)
                listener.redirectPort = declaration.redirectPort
                return listener
            }
        }
        for declaration in configuration.settings.tlsListeners {
            try bind(declaration, .https) { Listener(socket: $0, announces: declaration.expectsProxyHeader, tls: tls) }
        }
        findRedirects()
        for declaration in configuration.settings.checkListeners {
            try bind(declaration, .check) {
                Listener(socket: $0, isCheck: true, announces: declaration.expectsProxyHeader, allowsHTTP2: declaration.allowsHTTP2)
            }
        }
        for declaration in configuration.settings.adminListeners {
            var sockets = self.inherited.take(.admin, declaration.address)
            if sockets.isEmpty { sockets = [try open(declaration.address)] }
            ofWorker[0] += sockets.map { Listener(socket: $0, isAdmin: true) }
            try add(.admin, declaration, sockets)
        }
        self.inherited.closeRest()
    }

    /// Gives `;redirect` without a port that of the first TLS address.
    private mutating func findRedirects() {
        guard let port = addresses.lazy.compactMap({ $0.kind == .https ? $0.address.port : nil }).first else { return }
        for worker in ofWorker.indices {
            for index in ofWorker[worker].indices where ofWorker[worker][index].redirectPort == 0 {
                ofWorker[worker][index].redirectPort = port
            }
        }
    }

    /// One socket for each worker on the same address (SO_REUSEPORT). Workers share a unix socket, each with a descriptor of
    /// its own to close.
    ///
    /// Every inherited socket is accepted from, also where there are more of them than workers: connections wait in the queue of one
    /// socket, and are reset if it is closed.
    private mutating func bind(
        _ declaration: ListenerDeclaration, _ kind: ListenerKind, _ listener: (Socket) -> Listener
    ) throws(SystemFault) {
        var sockets = inherited.take(kind, declaration.address)
        // Further workers share them: the kernel would give a new socket connections at once, long before a worker accepts from it.
        let isInherited = !sockets.isEmpty
        if sockets.isEmpty { sockets = [try open(declaration.address)] }
        let address = try sockets[0].localAddress()
        if sockets[0].sharesPort, !isInherited {
            while sockets.count < ofWorker.count { sockets.append(try Socket.listen(on: address, joining: true)) }
        }
        for (number, socket) in sockets.enumerated() { ofWorker[number % ofWorker.count].append(listener(socket)) }
        for worker in ofWorker.indices.dropFirst(sockets.count) {
            ofWorker[worker].append(listener(try sockets[worker % sockets.count].duplicate()))
        }
        try add(kind, declaration, sockets)
    }

    /// A listener of this process alone: another gateway on the same address would take half of the requests. A wildcard and an address
    /// on one port, both of this process or one inherited, go together.
    private func open(_ address: SocketAddress) throws(SystemFault) -> Socket {
        try Socket.listen(on: address, joining: held.contains { $0.overlaps(address) })
    }

    private mutating func add(_ kind: ListenerKind, _ declaration: ListenerDeclaration, _ sockets: [Socket]) throws(SystemFault) {
        let address = try sockets[0].localAddress()
        held.append(address)
        addresses.append((address, kind))
        groups.append(ListenerGroup(kind: kind, declared: declaration.address, sockets: sockets))
    }
}
