internal import Cluster
internal import Contracts
internal import Gate
internal import Glibc
internal import Issuers
internal import Proxy
internal import Redis
internal import Settings
internal import Storage

extension ClusterPlan {
    /// Throws if the data folder cannot be made.
    init(
        _ configuration: GatewayConfiguration, primary: DatabasePrimary, _ redisDiscovery: RedisDiscovery?, _ tierClient: TierClient
    ) throws {
        let secret = configuration.settings.keySecret
        let redis = configuration.redis.map { endpoint -> StartHints in
            { report in
                let bus = try RedisBus(endpoint, addresses: [], secret: secret) { event in
                    if case .lost = event { redisDiscovery?.ask() }
                    report(event)
                }
                if endpoint.fixedAddresses == nil { redisDiscovery?.follow { bus.moved(to: $0) } }
                redisDiscovery?.cluster?.follow { bus.moved(to: $0) }
                return bus
            }
        }
        self.init(
            name: "\(RunningGateway.machineName())/\(getpid())", scale: TierScale(configuration),
            tierSources: IssuerTiers.all(configuration),
            askTier: { await tierClient.tier(of: $1, at: $0) }, location: try StoreLocation(configuration),
            notifications: configuration.directDatabase, redis: redis)
        self.primary = primary
    }
}

extension TierScale {
    init(_ configuration: GatewayConfiguration) {
        self.init(tiers: configuration.settings.tiers, graceSeconds: configuration.settings.tierGraceSeconds)
    }
}

extension IssuerTiers {
    /// Those of all trust lines whose tokens do not carry the tier.
    static func all(_ configuration: GatewayConfiguration) -> [String: IssuerTiers] {
        let sources = configuration.settings.trusts.compactMap { trust in IssuerTiers(trust).map { (trust.name, $0) } }
        return Dictionary(sources) { first, _ in first }
    }

    init?(_ trust: TrustDeclaration) {
        switch trust.tierSource {
        case .claim, .ownAccount: return nil
        case .account: self = .account
        case .lookup:
            guard let url = trust.tierURL else { return nil }
            self = .lookup(TierServer(url: url, issuer: trust.issuer ?? trust.name, maxAgeSeconds: trust.tierMaxAgeSeconds))
        }
    }
}

extension TierClient {
    func tier(of subject: String, at server: TierServer) async -> TierAnswer {
        switch await tier(of: subject, issuer: server.issuer, at: server.url) {
        case .success(let name): .tier(name)
        case .failure(let failure): .failed(failure.reason, isAway: failure.isAway)
        }
    }
}

extension WorkerMessage {
    init(_ update: WorkerUpdate) {
        switch update {
        case .ended(let sessions): self = .revoked(sessions)
        case .tiers(let users): self = .learnedUsers(users)
        case .forgetTiers(let users): self = .forgotUsers(users)
        case .subjects(let subjects): self = .learnedSubjects(subjects)
        case .factors(let proofs, let isWhole): self = .proven(proofs, isWhole: isWhole)
        case .keys(let keys): self = .adoptKeys(keys)
        }
    }
}

extension AccountCache: AccountLookUp {}
