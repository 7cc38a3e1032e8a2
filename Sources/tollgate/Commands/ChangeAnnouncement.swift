internal import Cluster
internal import Credentials
internal import Redis
internal import Settings
internal import Synchronization
internal import System
internal import Threads
internal import Wire

/// Announces over Redis that a command has changed the database, so that gateways read the change log at once. PostgreSQL notifies
/// them itself. Without an announcement they find the change when they poll.
final class ChangeAnnouncement: Sendable {
    /// Timeout of Redis, in milliseconds.
    private static let patience: Int32 = 1_000

    private let hasChanged = Atomic(false)

    /// Records a change. Any thread.
    func record() { hasChanged.store(true, ordering: .releasing) }

    /// Publishes recorded changes, if there are any and the gateways use Redis. Blocks for up to 1 s.
    func publish(_ configuration: GatewayConfiguration) {
        guard hasChanged.exchange(false, ordering: .acquiring), let endpoint = configuration.redis else { return }
        do {
            let published = try Waker()
            let bus = try RedisBus(
                endpoint, addresses: [], secret: configuration.settings.keySecret
            ) { if case .published = $0 { published.wake() } }
            let servers = try Self.servers(endpoint)
            if !servers.isEmpty { bus.moved(to: servers) }
            let sentinels = try SentinelWatch(endpoint, seed: SecureRandom.bytes(8).rawBytes.load64(0)) { _ in }
            sentinels?.follow { bus.moved(to: $0) }
            bus.publish()
            published.wait(milliseconds: Self.patience)
            sentinels?.stop()
            bus.stop()
        } catch {
            // Not fatal: the gateways poll for changes.
        }
    }

    /// The server; of a cluster any node will do that the URL names. Sentinels name theirs later.
    private static func servers(_ endpoint: RedisEndpoint) throws(SystemFault) -> [RedisServer] {
        guard !endpoint.hasSentinels else { return [] }
        var found: [RedisServer] = []
        var fault: SystemFault?
        for seed in endpoint.seeds {
            do throws(SystemFault) {
                switch seed {
                case .unix(let path): found.append(RedisServer(addresses: [.unix(path)], name: ""))
                case .host(let host, let port):
                    found.append(RedisServer(addresses: try Resolver.resolve(host: host, port: port), name: host))
                }
            } catch {
                fault = error
            }
        }
        if found.isEmpty, let fault { throw fault }
        return found
    }
}
