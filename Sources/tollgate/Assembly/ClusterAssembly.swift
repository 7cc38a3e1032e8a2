internal import Cluster
internal import Contracts
internal import Proxy
internal import Settings
internal import Storage

extension ClusterPlan {
    /// Throws if the data folder cannot be made.
    init(_ configuration: GatewayConfiguration, _ redisResolver: RedisResolver?) throws {
        self.init(
            scale: TierScale(configuration), location: try StoreLocation(configuration), redis: configuration.redis,
            secret: configuration.settings.keySecret, followRedis: { redisResolver?.follow($0) })
    }
}

extension TierScale {
    init(_ configuration: GatewayConfiguration) {
        self.init(tiers: configuration.settings.tiers, graceSeconds: configuration.settings.tierGraceSeconds)
    }
}

extension WorkerMessage {
    init(_ update: WorkerUpdate) {
        switch update {
        case .ended(let sessions): self = .revoked(sessions)
        case .tiers(let users): self = .learnedUsers(users)
        case .forgetTiers: self = .forgotUsers
        }
    }
}

extension AccountCache: AccountLookUp {}
