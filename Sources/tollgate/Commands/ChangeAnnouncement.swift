internal import Redis
internal import Settings
internal import Synchronization
internal import Transport
internal import Wire

/// Tells the gateways that a command has changed something in the database, where they hear it over Redis: PostgreSQL
/// tells them by itself.
final class CommandNews: Sendable {
    /// Whoever is not told in this time, in milliseconds, finds the change without it.
    private static let patience: Int32 = 1_000

    private let hasChanged = Atomic(false)

    /// Something has been changed. Any thread.
    func note() { hasChanged.store(true, ordering: .releasing) }

    /// Tells of what was noted. Blocks.
    func tell(_ configuration: GatewayConfiguration) {
        guard hasChanged.exchange(false, ordering: .acquiring), let endpoint = configuration.redis else { return }
        do {
            let told = try Waker()
            let bus = try RedisBus(
                endpoint, addresses: try Self.addresses(endpoint), secret: configuration.keySecret,
                events: RedisBus.Events(heard: {}, told: { told.wake() }))
            bus.tell()
            told.wait(milliseconds: Self.patience)
            bus.stop()
        } catch {
            // The gateways look for changes themselves.
        }
    }

    private static func addresses(_ endpoint: RedisEndpoint) throws(SystemFault) -> [SocketAddress] {
        switch endpoint.place {
        case .unix(let path): [.unix(path)]
        case .host(let host, let port): try Resolver.resolve(host: host, port: port)
        }
    }
}
