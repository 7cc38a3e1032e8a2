internal import Redis
internal import Synchronization
internal import Transport
internal import Wire

/// Follows the name in `REDIS_URL` to its addresses: once at start, then again and again on a thread of its own.
final class RedisResolver: Sendable {
    /// A failover by DNS should be noticed soon.
    private static let interval: Int32 = 10_000

    private let host: String
    private let port: UInt16
    private let log: ServerLog
    private let changed: @Sendable ([SocketAddress]) -> Void
    private let known: Mutex<[SocketAddress]>
    private let thread: RecurringThread

    /// nil for a place that needs no looking up. `changed` is called on the resolver's thread.
    init?(_ endpoint: RedisEndpoint, log: ServerLog, changed: @escaping @Sendable ([SocketAddress]) -> Void) throws {
        guard case .host(let host, let port) = endpoint.address, endpoint.fixedAddresses == nil else { return nil }
        self.host = host
        self.port = port
        self.log = log
        self.changed = changed
        thread = try RecurringThread()
        known = Mutex([])
        known.withLock { $0 = lookUp() ?? [] }
        try thread.start(name: "redis-resolver", after: Self.interval) { [self] in
            lookAgain()
            return Self.interval
        }
    }

    /// Empty while the name has never had an address.
    var addresses: [SocketAddress] { known.withLock { $0 } }

    func stop() { thread.stop() }

    private func lookAgain() {
        // A name server that is away takes no address from a Redis that works.
        guard let found = lookUp(), !found.isEmpty, found != addresses else { return }
        known.withLock { $0 = found }
        log.info("addresses changed", ("redis", host), ("addresses", found.map(\.description).joined(separator: " ")))
        changed(found)
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
