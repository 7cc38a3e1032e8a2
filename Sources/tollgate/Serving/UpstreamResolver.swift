internal import Proxy
internal import Settings
internal import Synchronization
internal import Transport
internal import Wire

/// Turns the names in upstream lines into addresses: once at start, then again and again on a thread of its own.
final class UpstreamResolver: Sendable {
    private struct State {
        var upstreams: [UpstreamDeclaration]
        var contexts: AuthorityContexts
        /// Counts the configurations: addresses found for one are no news for the next.
        var generation = 0
        var known: [String: [UpstreamAddress]] = [:]
        /// By name, also of upstreams that are gone: their last connections may still be open when they come back.
        var connections: [String: ConnectionBudget] = [:]
    }

    /// The addresses of a host, or why there are none; it may block.
    typealias LookUp = @Sendable (_ host: String, _ port: UInt16) throws(SystemFault) -> [SocketAddress]

    /// Addresses change at any time, and getaddrinfo does not tell how long they are good for.
    private static let interval: Int32 = 30_000
    private static let retryInterval: Int32 = 5_000

    private let state: Mutex<State>
    private let thread: RecurringThread
    private let log: ServerLog
    private let lookUp: LookUp
    private let changed: @Sendable (String, [UpstreamAddress]) -> Void

    /// `changed` is called on the resolver's thread when an upstream's addresses are others than before; it must not ask
    /// this resolver for anything.
    init(
        _ upstreams: [UpstreamDeclaration], log: ServerLog, lookUp: @escaping LookUp = Resolver.resolve,
        changed: @escaping @Sendable (String, [UpstreamAddress]) -> Void
    ) throws {
        state = Mutex(State(upstreams: upstreams, contexts: try AuthorityContexts(upstreams)))
        self.lookUp = lookUp
        thread = try RecurringThread()
        self.log = log
        self.changed = changed
    }

    /// The upstreams with the addresses they have now. Blocks while names are looked up.
    func snapshots() -> [UpstreamSnapshot] {
        let (upstreams, contexts) = state.withLock { ($0.upstreams, $0.contexts) }
        let snapshots = upstreams.map { upstream in
            UpstreamSnapshot(
                settings: UpstreamSettings(upstream), addresses: resolve(upstream, contexts[upstream]),
                connections: connections(upstream.name))
        }
        state.withLock { state in
            for snapshot in snapshots { state.known[snapshot.settings.name] = snapshot.addresses }
        }
        return snapshots
    }

    private func connections(_ upstream: String) -> ConnectionBudget {
        state.withLock { state in
            let budget = state.connections[upstream] ?? ConnectionBudget()
            state.connections[upstream] = budget
            return budget
        }
    }

    /// What TLS to `upstreams` needs, for `adopt`. Throws for an authority's file that cannot be used.
    func contexts(for upstreams: [UpstreamDeclaration]) throws -> AuthorityContexts {
        try AuthorityContexts(upstreams, earlier: state.withLock { $0.contexts })
    }

    /// Changes over to another configuration, and answers its upstreams as `snapshots` does.
    func adopt(_ upstreams: [UpstreamDeclaration], _ contexts: AuthorityContexts) -> [UpstreamSnapshot] {
        state.withLock { state in
            state.upstreams = upstreams
            state.contexts = contexts
            state.generation += 1
        }
        return snapshots()
    }

    func start() throws {
        try thread.start(name: "resolver", after: Self.interval) { [self] in lookAgain() ? Self.interval : Self.retryInterval }
    }

    func stop() { thread.stop() }

    // MARK: the thread

    /// Looks every name up once more and tells what changed.
    ///
    /// - Returns: whether every name has an address.
    func lookAgain() -> Bool {
        let (upstreams, contexts, generation) = state.withLock { ($0.upstreams, $0.contexts, $0.generation) }
        var isComplete = true
        for upstream in upstreams where upstream.hasNames {
            let addresses = resolve(upstream, contexts[upstream])
            // A name server that is away takes no address from an upstream that works.
            guard !addresses.isEmpty else {
                isComplete = false
                continue
            }
            state.withLock { state in
                let known = state.known[upstream.name]?.map(\.address)
                guard state.generation == generation, addresses.map(\.address) != known else { return }
                state.known[upstream.name] = addresses
                // Told under the lock: the addresses of an earlier configuration never come after a later one.
                changed(upstream.name, addresses)
            }
        }
        return isComplete
    }

    private func resolve(_ upstream: UpstreamDeclaration, _ tls: TLSClientContext?) -> [UpstreamAddress] {
        var addresses: [UpstreamAddress] = []
        for base in upstream.bases {
            switch base.endpoint {
            case .unix(let path): addresses.append(UpstreamAddress(.unix(path), base, serverName: base.hostField, tls))
            case .host(let host, let port):
                do {
                    addresses += try lookUp(host, port).map { UpstreamAddress($0, base, serverName: host, tls) }
                } catch {
                    log.warning("a name has no address", ("upstream", upstream.name), ("error", error.description))
                }
            }
        }
        return addresses
    }
}

extension UpstreamDeclaration {
    /// Whether any base URL needs looking up.
    fileprivate var hasNames: Bool {
        bases.contains { base in
            if case .host(let host, _) = base.endpoint { Resolver.numeric(host) == nil } else { false }
        }
    }
}

extension UpstreamAddress {
    fileprivate convenience init(_ address: SocketAddress, _ base: UpstreamBase, serverName: String, _ tls: TLSClientContext?) {
        self.init(
            address: address, tls: base.isTLS ? tls : nil, serverName: serverName, authority: base.hostField,
            pathPrefix: base.pathPrefix)
    }
}

extension UpstreamSettings {
    init(_ declaration: UpstreamDeclaration) {
        self.init(name: declaration.name)
        balance = declaration.balance == .round ? .roundRobin : .leastOutstanding
        connectTimeout = UInt64(declaration.connectTimeoutMilliseconds)
        timeout = UInt64(declaration.timeoutMilliseconds)
        retries = Int(declaration.retries)
        maxConnections = declaration.maxConnections ?? .max
        healthPath = declaration.healthPath
        sendsOwnHost = declaration.sendsOwnHost
    }
}
