internal import Proxy
internal import Synchronization
internal import Transport
internal import Wire

/// Turns the names in upstream lines into addresses: once at start, then again and again on a thread of its own.
final class UpstreamResolver: Sendable {
    private struct State {
        var upstreams: [UpstreamDeclaration]
        var contexts: [String: TLSClientContext]
        var known: [String: [UpstreamAddress]] = [:]
        var isStopping = false
    }

    /// Addresses change at any time, and getaddrinfo does not tell how long they are good for.
    private static let interval: Int32 = 30_000
    private static let retryInterval: Int32 = 5_000

    private let state: Mutex<State>
    private let waker: Waker
    private let workers: Int
    private let log: ServerLog
    private let changed: @Sendable (String, [UpstreamAddress]) -> Void
    private let thread = Mutex<WorkerThread?>(nil)

    /// `changed` is called on the resolver's thread when an upstream's addresses are others than before.
    init(
        _ upstreams: [UpstreamDeclaration], workers: Int, log: ServerLog, changed: @escaping @Sendable (String, [UpstreamAddress]) -> Void
    ) throws {
        state = Mutex(State(upstreams: upstreams, contexts: try Self.contexts(upstreams)))
        waker = try Waker()
        self.workers = workers
        self.log = log
        self.changed = changed
    }

    /// The upstreams with the addresses they have now. Blocks while names are looked up.
    func snapshots() -> [UpstreamSnapshot] {
        let (upstreams, contexts) = state.withLock { ($0.upstreams, $0.contexts) }
        let snapshots = upstreams.map { upstream in
            UpstreamSnapshot(settings: UpstreamSettings(upstream, workers: workers), addresses: resolve(upstream, contexts[upstream.name]))
        }
        state.withLock { state in
            for snapshot in snapshots { state.known[snapshot.settings.name] = snapshot.addresses }
        }
        return snapshots
    }

    /// Changes over to another configuration, and answers its upstreams as `snapshots` does.
    func adopt(_ upstreams: [UpstreamDeclaration]) throws -> [UpstreamSnapshot] {
        let contexts = try Self.contexts(upstreams)
        state.withLock { state in
            state.upstreams = upstreams
            state.contexts = contexts
        }
        return snapshots()
    }

    func start() throws {
        let started = try WorkerThread(name: "resolver") { [self] in run() }
        thread.withLock { $0 = started }
    }

    func stop() {
        state.withLock { $0.isStopping = true }
        waker.wake()
        thread.withLock { running in
            running?.join()
            running = nil
        }
    }

    // MARK: the thread

    private func run() {
        var pause = Self.interval
        while !state.withLock({ $0.isStopping }) {
            waker.wait(milliseconds: pause)
            pause = lookAgain() ? Self.interval : Self.retryInterval
        }
    }

    /// - Returns: whether every name has an address.
    private func lookAgain() -> Bool {
        let (upstreams, contexts, known) = state.withLock { ($0.upstreams, $0.contexts, $0.known) }
        var isComplete = true
        for upstream in upstreams where upstream.hasNames {
            let addresses = resolve(upstream, contexts[upstream.name])
            // A name server that is away takes no address from an upstream that works.
            guard !addresses.isEmpty else {
                isComplete = false
                continue
            }
            if addresses.map(\.address) == (known[upstream.name] ?? []).map(\.address) { continue }
            state.withLock { $0.known[upstream.name] = addresses }
            changed(upstream.name, addresses)
        }
        return isComplete
    }

    private func resolve(_ upstream: UpstreamDeclaration, _ tls: TLSClientContext?) -> [UpstreamAddress] {
        var addresses: [UpstreamAddress] = []
        for base in upstream.bases {
            let context = base.isTLS ? tls : nil
            switch base.endpoint {
            case .unix(let path): addresses.append(UpstreamAddress(address: .unix(path), tls: context, serverName: base.hostField))
            case .host(let host, let port):
                do {
                    let found = try Resolver.resolve(host: host, port: port)
                    addresses += found.map { UpstreamAddress(address: $0, tls: context, serverName: host) }
                } catch {
                    log.warning("a name has no address", ("upstream", upstream.name), ("error", error.description))
                }
            }
        }
        return addresses
    }

    /// One TLS context for each upstream that is reached by https.
    private static func contexts(_ upstreams: [UpstreamDeclaration]) throws -> [String: TLSClientContext] {
        var contexts: [String: TLSClientContext] = [:]
        for upstream in upstreams where upstream.bases.contains(where: \.isTLS) {
            contexts[upstream.name] = try TLSClientContext(authorityFile: upstream.authorityFile)
        }
        return contexts
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

extension UpstreamSettings {
    init(_ declaration: UpstreamDeclaration, workers: Int) {
        self.init(name: declaration.name)
        balance = declaration.balance == .round ? .roundRobin : .leastOutstanding
        connectTimeout = UInt64(declaration.connectTimeoutMilliseconds)
        timeout = UInt64(declaration.timeoutMilliseconds)
        retries = Int(declaration.retries)
        // Each worker has its share, and at least one.
        maxConnections = declaration.maxConnections.map { max(1, $0 / workers) } ?? .max
        healthPath = declaration.healthPath
        // Several bases of one upstream are the same service, so what the first says holds for all.
        authority = declaration.bases.first?.hostField ?? ""
        pathPrefix = declaration.bases.first?.pathPrefix ?? ""
        if declaration.sendsOwnHost { host = authority }
    }
}
