internal import Credentials
internal import Redis
internal import Wire

/// Where the Redis of `REDIS_URL` is, if the URL does not say it: its name is resolved again and again, or its sentinels are asked.
struct RedisDiscovery: Sendable {
    private let resolver: RedisResolver?
    private let sentinels: SentinelWatch?
    /// nil where Redis is no cluster.
    let cluster: RedisClusterMaps?

    /// Blocks while a name is looked up; sentinels and nodes are asked on threads.
    init(_ endpoint: RedisEndpoint, health: ConditionLog) throws {
        resolver = try RedisResolver(endpoint, log: health.log)
        sentinels = try SentinelWatch(endpoint, seed: SecureRandom.bytes(8).rawBytes.load64(0)) { health.report($0) }
        cluster = try RedisClusterMaps(endpoint, log: health.log) { health.redisMapChanged(problem: $0) }
    }

    /// Those of the name, as far as is known.
    var addresses: [SocketAddress] { resolver?.addresses ?? [] }

    /// Calls `follower` with the server, now if it is known and whenever it changes, in order. It must not block.
    func follow(_ follower: @escaping @Sendable (RedisServer) -> Void) {
        resolver?.follow(follower)
        sentinels?.follow(follower)
    }

    /// A worker's connection changed. If it is lost, or its server refuses commands, another server may have taken its place. Any
    /// thread; returns at once.
    func connectionChanged(_ condition: RedisCondition) {
        if condition != .ready { ask() }
    }

    /// Asks the sentinels again. Any thread; returns at once.
    func ask() { sentinels?.ask() }

    func stop() {
        resolver?.stop()
        sentinels?.stop()
        cluster?.stop()
    }
}
