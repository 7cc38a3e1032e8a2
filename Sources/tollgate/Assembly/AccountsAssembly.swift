internal import Accounts
internal import CLinux
internal import Cluster
internal import Contracts
internal import Credentials
internal import Gate
internal import Issuers
internal import Limits
internal import Mail
internal import Proxy
internal import Settings
internal import Storage
internal import Synchronization
internal import System
internal import Threads
internal import Transport
internal import Wire

/// The contracts of one configuration. A class, because each request holds them.
final class MountedContracts: Sendable {
    let services: ContractServices
    let sessions: Sessions
    let oauth: OAuthEndpoints
    let stores: Stores
    let apple: AppleDesk?
    /// nil without `TOLLGATE_NOTICES`.
    let notices: Notices?

    init(
        services: ContractServices, sessions: Sessions, oauth: OAuthEndpoints, stores: Stores, apple: AppleDesk?, notices: Notices?
    ) {
        (self.services, self.sessions, self.oauth) = (services, sessions, oauth)
        (self.stores, self.apple, self.notices) = (stores, apple, notices)
    }
}

/// The parts of the accounts that outlive a reload, and what is made of them and each configuration.
struct AccountsAssembly: Sendable {
    /// Passwords that may wait to be hashed.
    private static let queuedPasswords = 512

    let store: SQLStore
    let work: PasswordWork
    let limiter: AttemptCounts
    let cluster: ClusterMember
    let tierClient = TierClient()
    let purchaseStores = PurchaseStores()
    let appleDesk = AppleDeskHolder()
    let webhooks = Webhooks()
    let switches = SwitchBoard()
    let health: ConditionLog
    let context: AccountContext
    /// The stores of the configuration in force.
    var stores: @Sendable () -> Stores { { [purchaseStores] in purchaseStores.inForce } }
    /// nil where gateways share no signing keys.
    let keyReadings: SharedKeyReadings?
    private let courier: any NoticeCourier
    private let providers: ProviderKeyRing
    let active: ActiveConfiguration
    /// The sources of judgements about tokens.
    private let judging: TokenJudge.Sources
    private let redeemer: OutsideRedeemer

    /// Starts the threads of the store and of password hashing; throws if the system gives none.
    init(
        _ configuration: GatewayConfiguration, active: ActiveConfiguration, health: ConditionLog, workers: WorkerBroadcast,
        keySets: KeySetRefresher, limiter: SharedLimiter, courier: any NoticeCourier, redisDiscovery: RedisDiscovery?,
        outsideRefreshes: ExternalRefresher
    ) throws {
        self.active = active
        redeemer = OutsideRedeemer(outsideRefreshes, active: active, keySets: keySets)
        self.health = health
        self.courier = courier
        self.limiter = AttemptCounts(configuration, table: limiter, workers: workers, health: health)
        providers = ProviderKeyRing(active: active, keySets: keySets)
        let (commits, primary) = (Commits(), DatabasePrimary())
        let opened = try StoreLocation(configuration).open(
            primary: primary, start: WorkerThread.start, onOutcome: { health.report($0) }, onChange: { await commits.changed($0) })
        // One core is left to requests: two hashing threads on two cores tripled the 99th percentile of proxying, one does not.
        let threads = max(1, (configuration.settings.workers ?? coreCount) - 1)
        guard let store = opened,
            let work = PasswordWork(threads: threads, queue: Self.queuedPasswords, start: Self.quietThread)
        else { throw SystemFault("start a thread") }
        (self.store, self.work) = (store, work)
        context = AccountContext(
            store: store, clock: AccountClock(now: { EventLoop.now() }, pause: pause), executor: store.executor(),
            notice: { health.report($0) })
        let readings = SharedKeys(IssuersPlan(configuration)).map { shared in
            SharedKeyReadings(
                read: { try await shared.ring(in: store) }, adopt: { keySets.adopt($0, asOf: $1, then: $2) },
                failed: { health.log.error("the shared signing keys cannot be read, those held stay in use", ("error", $0)) })
        }
        keyReadings = readings
        cluster = try ClusterMember(
            try ClusterPlan(configuration, primary: primary, redisDiscovery, tierClient), context,
            ClusterEvents(
                broadcast: { update in
                    if case .keys(let table) = update { health.read(table) }
                    workers.post(WorkerMessage(update))
                }, confirmed: { await workers.confirmed() },
                secretsChanged: { readings?.changed() }, switched: { [switches] in switches.read($0, isAnew: $1) },
                report: { health.report($0) }))
        commits.follow(cluster)
        let (tiers, subjects, worker) = (cluster.tiers, cluster.subjects, workers.first)
        judging = TokenJudge.Sources(
            policy: { active.currentPolicy }, tier: { await tiers.tier(of: $0) }, subject: { await subjects.status($0) },
            hasEnded: { id in await worker.ask { .askEnded(id, $0) } },
            keysWanted: { if let name = active.issuerName($0) { keySets.sawUnknownKey(of: name) } },
            now: { EventLoop.now().wall })
    }

    /// A thread of low priority: a queue of sign-ins must not slow requests down.
    private static let quietThread: ThreadStart = { name, body in
        WorkerThread.start(name) {
            clinux_give_way(10, 20_000_000)
            body()
        }
    }

    /// Throws for a refresh secret that cannot be read.
    func contracts(_ configuration: GatewayConfiguration) throws -> MountedContracts {
        let settings = configuration.settings
        let secret = try RefreshSecret.open(IssuersPlan(configuration))
        let active = active
        var context = context
        context.policies = configuration.sessionPolicies
        context.languages = configuration.mail.templates.languages
        context.notices = Set(settings.notices.compactMap(NoticeTopic.init(rawValue:)))
        context.contactAge = settings.contactAgeSeconds
        context.ways = SignInWays(configuration)
        context.offersFactor = settings.factor != .off
        let most = settings.maxSessions
        context.sessionBound = SessionBound(
            most[0], byTier: Dictionary(uniqueKeysWithValues: zip(settings.tiers.names, most)), order: TierOrder(settings.tiers.names),
            graceSeconds: settings.tierGraceSeconds)
        context.signUpHook = webhooks.signUpHook(settings) { [health] in health.signUpAnswered($0, problem: $1) }
        let mint = TokenMint(
            issuer: settings.issuer, audience: settings.audience, signingKey: { active.signingKey },
            refreshKeys: RefreshTokenKeys(secret: secret),
            refreshJWTs: try RefreshJWTs(
                secret: secret, issuer: settings.issuer, clockSkewSeconds: settings.clockSkewSeconds),
            policies: configuration.sessionPolicies, tellsNames: settings.tellsNames)
        let stores = try purchaseStores.stores(settings) { [health] in
            health.log.warning("something failed beside an answer of a store", ("detail", $0))
        }
        let apple = try appleDesk.desk(settings, secret: secret)
        let sessions = Sessions(
            context: context, mint: mint, rule: RefreshRule(graceSeconds: settings.refreshGraceSeconds),
            outside: outsideRefresh(configuration, secret))
        let judge = TokenJudge(judging, sessions: sessions)
        let limiter = limiter
        let onlyShared = settings.rateLimitFailure == .closed && configuration.redis != nil
        let proofs = DeviceProofs(
            publicURL: settings.publicURL, skewSeconds: settings.clockSkewSeconds, clock: context.clock,
            nonceSecret: PolicyBuilder.nonceSecret(configuration), limiter: limiter,
            spend: { await limiter.spend($0, onlyShared: onlyShared) })
        let notices = context.notices.isEmpty ? nil : Notices(context: context, courier: courier, limiter: limiter, secret: secret)
        let services = ContractServices(
            passwords: PasswordAccounts(context: context, mint: mint, work: work, limiter: limiter),
            resets: PasswordReset(context: context, mint: mint, work: work, courier: courier, limiter: limiter, secret: secret),
            codes: Codes(context: context, mint: mint, courier: courier, limiter: limiter, secret: secret),
            providers: ProviderSignIn(context: context, mint: mint, keys: providers, limiter: limiter, vault: apple?.vault),
            anonymous: AnonymousAccounts(context: context, mint: mint, limiter: limiter),
            sessions: sessions, accounts: cluster.cache,
            page: WebPage(
                authBase: configuration.contracts.pageMount?.base ?? "", accountBase: settings.account?.base,
                hasPasskeys: settings.passkey != nil, hasFactors: context.offersFactor),
            tiers: settings.tiers,
            tierGraceSeconds: settings.tierGraceSeconds, mustConfirmEmail: settings.mustConfirmEmail, clock: context.clock,
            purchases: purchases(configuration, context, mint, stores),
            life: settings.account.map { line in
                var life = AccountLife(
                    line, configuration, context, providers, limiter: limiter,
                    merges: Merges(sessions: sessions, limiter: limiter, order: TierOrder(settings.tiers.names)), notices: notices)
                life.passkeys = Passkeys(configuration, context, mint, limiter: limiter, secret: secret)
                if context.offersFactor {
                    let issuer = configuration.mail.signature
                    life.factors = Factors(context: context, sessions: sessions, limiter: limiter, secret: secret, issuer: issuer)
                }
                return life
            }, judge: judge, proofs: proofs)
        let oauth = OAuthEndpoints(
            sessions: sessions, revocation: TokenRevocation(sessions: sessions, limiter: limiter),
            judge: judge, proofs: proofs,
            refreshing: configuration.contracts.refreshingContracts)
        return MountedContracts(
            services: services, sessions: sessions, oauth: oauth, stores: stores, apple: apple, notices: notices)
    }

    /// nil unless a trust line has `accounts=on`: then a refresh token that is not ours is refused without a look into the store.
    private func outsideRefresh(_ configuration: GatewayConfiguration, _ secret: [UInt8]) -> OutsideRefresh? {
        guard configuration.settings.trusts.contains(where: \.hasAccounts) else { return nil }
        let redeemer = redeemer
        return OutsideRefresh(secret: secret, limiter: limiter) { await redeemer.redeem($0, $1, from: $2) }
    }
}

/// Passes commits of the store on to the cluster, which is made after the store.
private final class Commits: Sendable {
    private let cluster = Mutex<ClusterMember?>(nil)

    func follow(_ cluster: ClusterMember) { self.cluster.withLock { $0 = cluster } }

    func changed(_ accounts: [UUID]) async { await cluster.withLock { $0 }?.changed(accounts) }
}

extension AttemptCounts {
    /// The counts of a running gateway.
    convenience init(
        _ configuration: GatewayConfiguration, table: SharedLimiter, workers: WorkerBroadcast, health: ConditionLog
    ) {
        // Attempts are few: one worker's connection serves them all.
        let redis = configuration.redis == nil ? nil : workers.first
        self.init(
            AttemptRates(configuration), table: table,
            take: { items in await redis?.ask { .take(items, $0) } ?? nil },
            refund: { items, chargedAt in redis?.post(.refund(items, chargedAt: chargedAt)) },
            refused: { health.attemptRefused($0, at: $1) })
    }
}

extension AttemptRates {
    init(_ configuration: GatewayConfiguration) {
        self.init(openings: AttemptRate(configuration.settings.signUpLimit), sms: AttemptRate(configuration.settings.smsBudget))
    }
}

extension AttemptRate {
    fileprivate init(_ rate: LimitRate) { self.init(count: rate.count, windowSeconds: rate.windowSeconds, burst: rate.burst) }
}
