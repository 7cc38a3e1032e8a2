internal import Proxy
internal import Settings
internal import Synchronization
internal import Transport
internal import Wire

/// Resolves the names of upstreams: at the start and at each reload, then every 30 s on a thread of its own.
final class UpstreamResolver: Sendable {
    private struct State {
        var upstreams: [UpstreamDeclaration]
        var contexts: AuthorityContexts
        /// Counts configurations: addresses resolved for an earlier one are ignored.
        var generation = 0
        var known: [String: [UpstreamAddress]] = [:]
        /// By name, and kept for removed upstreams: connections may still be open when a reload brings one back.
        var connections: [String: ConnectionBudget] = [:]
    }

    /// Resolves a host. Blocking.
    typealias LookUp = @Sendable (_ host: String, _ port: UInt16) throws(SystemFault) -> [SocketAddress]

    /// Milliseconds; getaddrinfo(3) gives no TTL.
    private static let interval: Int32 = 30_000
    private static let retryInterval: Int32 = 5_000

    private let state: Mutex<State>
    private let thread: RecurringThread
    private let log: ServerLog
    private let lookUp: LookUp
    private let changed: @Sendable (String, [UpstreamAddress]) -> Void

    /// `changed` is called on the resolver's thread, under its lock, when an upstream's addresses differ; it must not call
    /// this resolver.
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

    /// The upstreams with their present addresses. Blocks while names are resolved.
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

    /// The TLS contexts of `upstreams`, for `adopt`. Throws for a file of authorities that cannot be used.
    func contexts(for upstreams: [UpstreamDeclaration]) throws -> AuthorityContexts {
        try AuthorityContexts(upstreams, earlier: state.withLock { $0.contexts })
    }

    /// Adopts another configuration, and returns its upstreams as `snapshots` does.
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

    /// Resolves every name and reports changes; false if a name has no address.
    func lookAgain() -> Bool {
        let (upstreams, contexts, generation) = state.withLock { ($0.upstreams, $0.contexts, $0.generation) }
        var isComplete = true
        for upstream in upstreams where upstream.hasNames {
            let addresses = resolve(upstream, contexts[upstream])
            // An unreachable name server takes no address from an upstream that works.
            guard !addresses.isEmpty else {
                isComplete = false
                continue
            }
            state.withLock { state in
                let known = state.known[upstream.name]?.map(\.address)
                guard state.generation == generation, addresses.map(\.address) != known else { return }
                state.known[upstream.name] = addresses
                // Under the lock, so that addresses of an earlier configuration never follow those of a later one.
                changed(upstream.name, addresses)
            }
        }
        return isComplete
    }

    private func resolve(_ upstream: UpstreamDeclaration, _ tls: TLSClientContext?) -> [UpstreamAddress] {
        var addresses: [UpstreamAddress] = []
        for base in upstream.bases {
            switch base.endpoint {
            case .unix(let path): addresses.append(UpstreamAddress(.unix(path), base, serverName: base.hostField, upstream, tls))
            case .host(let host, let port):
                do {
                    addresses += try lookUp(host, port).map { UpstreamAddress($0, base, serverName: host, upstream, tls) }
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
    fileprivate convenience init(
        _ address: SocketAddress, _ base: UpstreamBase, serverName: String, _ upstream: UpstreamDeclaration, _ tls: TLSClientContext?
    ) {
        self.init(
            address: address, tls: base.isTLS ? tls : nil, serverName: serverName, authority: base.hostField,
            pathPrefix: base.pathPrefix, speaksHTTP2: upstream.speaksHTTP2)
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
        adopt(declaration.limits)
        health = declaration.health.map { check in
            switch check {
            case .path(let path): .path(path)
            case .grpc: .grpc
            }
        }
        sendsOwnHost = declaration.sendsOwnHost
    }

    private mutating func adopt(_ limits: UpstreamLimits) {
        maxRequests = limits.maxRequests ?? .max
        maxPending = limits.maxPending ?? .max
        retryPercent = limits.retryPercent
        leastRetries = limits.retryMin
        outliers.failures = limits.ejectFailures
        outliers.interval = UInt64(limits.ejectAfterMilliseconds)
        outliers.mostEjected = limits.ejectMax
        outliers.panic = limits.panic
        outliers.slowStart = UInt64(limits.slowStartMilliseconds)
        outliers.leastSuccess = limits.ejectSuccess
        outliers.latency = limits.ejectLatency.map { latency in
            switch latency {
            case .factor(let factor): .factor(UInt64(factor))
            case .milliseconds(let bound): .bound(milliseconds: UInt64(bound))
            }
        }
    }
}
