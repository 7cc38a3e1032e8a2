package import Redis
package import Storage

/// The configuration of a gateway's part in the cluster. Only the scale and the sources of tiers change on a reload.
package struct ClusterPlan: Sendable {
    let scale: TierScale
    /// By the name of the trust line; issuers whose tokens carry the tier are not there.
    let tierSources: [String: IssuerTiers]
    /// Asks a tier server; answers in bounded time.
    let askTier: TierQuestion
    /// The database with the accounts and their change log.
    let location: StoreLocation
    /// Where the database's notifications come from, past a pooler that does not pass them on; nil: from `location`.
    let notifications: StoreLocation?
    /// Shared with the store, so that notifications come from the server that it reads.
    package var primary = DatabasePrimary()
    /// Carries the bus; nil: the database's own notifications do, where it has them.
    let redis: RedisEndpoint?
    /// Authenticates the messages on Redis (`TOLLGATE_KEY_SECRET`); nil: any message is taken for a hint.
    let secret: [UInt8]?
    /// Calls the closure with the Redis server, now and whenever it changes.
    let followRedis: @Sendable (_ moved: @escaping @Sendable (RedisServer) -> Void) -> Void
    /// A connection to the Redis server is lost; it may have another address.
    let lostRedis: @Sendable () -> Void
    /// Calls the closure with the nodes of the Redis Cluster, now and whenever they change.
    let followCluster: @Sendable (_ moved: @escaping @Sendable (RedisClusterMap) -> Void) -> Void

    package init(
        scale: TierScale, tierSources: [String: IssuerTiers] = [:], askTier: @escaping TierQuestion = { _, _ in .failed("none is configured", isAway: true) },
        location: StoreLocation, notifications: StoreLocation? = nil, redis: RedisEndpoint?, secret: [UInt8]?,
        followRedis: @escaping @Sendable (_ moved: @escaping @Sendable (RedisServer) -> Void) -> Void,
        lostRedis: @escaping @Sendable () -> Void = {},
        followCluster: @escaping @Sendable (_ moved: @escaping @Sendable (RedisClusterMap) -> Void) -> Void = { _ in }
    ) {
        self.scale = scale
        self.tierSources = tierSources
        self.askTier = askTier
        self.location = location
        self.notifications = notifications
        self.redis = redis
        self.secret = secret
        self.followRedis = followRedis
        self.lostRedis = lostRedis
        self.followCluster = followCluster
    }
}
