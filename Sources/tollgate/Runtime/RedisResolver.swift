internal import Redis
internal import Synchronization
internal import System
internal import Wire

/// Resolves the name in `REDIS_URL`: once at start, then every 10 s on a thread of its own.
final class RedisResolver: Sendable {
    private struct State {
        /// Empty while the name has never had an address.
        var addresses: [SocketAddress] = []
        var followers: [@Sendable (RedisServer) -> Void] = []
    }

    /// Short enough for a failover by DNS.
    private static let periodMilliseconds: Int32 = 10_000

    private let host: String
    private let port: UInt16
    private let log: ServerLog
    private let state = Mutex(State())
    private let thread: RecurringThread

    /// Blocks while the name is looked up. nil for an endpoint that needs no resolver.
    init?(_ endpoint: RedisEndpoint, log: ServerLog) throws {
        guard case .single(.host(let host, let port)) = endpoint.topology, endpoint.fixedAddresses == nil else { return nil }
        self.host = host
        self.port = port
        self.log = log
        thread = try RecurringThread()
        let found = lookUp() ?? []
        state.withLock { $0.addresses = found }
        try thread.start(name: "redis-resolver", after: Self.periodMilliseconds) { [self] in
            resolve()
            return Self.periodMilliseconds
        }
    }

    var addresses: [SocketAddress] { state.withLock { $0.addresses } }

    /// Calls `follower` with the addresses, now if there are any and whenever they change: in order, under a lock. It must
    /// not block, nor ask this resolver for anything.
    func follow(_ follower: @escaping @Sendable (RedisServer) -> Void) {
        state.withLock { state in
            state.followers.append(follower)
            if !state.addresses.isEmpty { follower(RedisServer(addresses: state.addresses, name: host)) }
        }
    }

    func stop() { thread.stop() }

    private func resolve() {
        // An unreachable name server takes no address from a Redis that works.
        guard let found = lookUp(), !found.isEmpty, found != addresses else { return }
        log.info("addresses changed", ("redis", host), ("addresses", found.map(\.description).joined(separator: " ")))
        state.withLock { state in
            state.addresses = found
            for follower in state.followers { follower(RedisServer(addresses: found, name: host)) }
        }
    }

    private func lookUp() -> [SocketAddress]? {
        do {
            return try Resolver.resolve(host: host, port: port)
        } catch {
            log.warning("a name has no address", ("redis", host), ("error", error.description))
            return nil
        }
    }
}
