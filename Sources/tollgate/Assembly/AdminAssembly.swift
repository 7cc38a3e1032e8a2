internal import Accounts
internal import Admin
internal import Cluster
internal import Gate
internal import Issuers
internal import Limits
internal import Settings
internal import Wire

extension AccountsAssembly {
    /// The admin API over these accounts, and over the running gateway.
    func adminAPI(
        _ workers: WorkerBroadcast, keySets: KeySetRefresher, limiter table: SharedLimiter, spans: SpanExporter, accounts: AccountsRuntime,
        orders: AcmeOrders?, startedAt: WallTime
    ) -> AdminAPI {
        let (active, cluster) = (active, cluster)
        let gateway = RunningGateway(
            startedAt: startedAt, active: active, health: health, broadcast: workers, keySets: keySets, limiter: table, spans: spans,
            accounts: accounts,
            rotation: KeyRotation(active: active, keySets: keySets) { await cluster.changed($0) }, orders: orders)
        return AdminAPI(
            token: { active.adminToken }, scopedTokens: { active.configuration.settings.scopedAdminTokens.map(\.token) },
            directory: AccountDirectory(context: context),
            administration: Administration(context: context, work: work, actor: .adminAPI()),
            purchases: PurchaseAdministration(context: context, stores: stores, actor: .adminAPI()),
            plan: { OperatorPlan(active.configuration.settings) }, limiter: limiter, gateway: gateway,
            operations: AdminOperation.ofGateway(gateway))
    }
}

extension OperatorPlan {
    init(_ settings: Configuration) {
        self.init(
            tiers: settings.tiers, tierGraceSeconds: settings.tierGraceSeconds,
            issuers: settings.trusts.map { SubjectIssuer(name: $0.name, hasAccounts: $0.hasAccounts) },
            keyRoutes: settings.routes.filter(\.rule.auth.takesKeys).map(\.rule.name))
    }
}
