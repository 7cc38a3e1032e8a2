internal import Accounts
internal import Admin
internal import Credentials
internal import Gate
internal import Glibc
internal import Issuers
internal import Limits
internal import Proxy
internal import Telemetry
internal import Transport
internal import Wire

/// The running gateway as the operations of this folder read and change it.
protocol OperatedGateway: AdminGateway {
    var configuration: GatewayConfiguration { get }
    var loads: LoadHistory.State { get }
    /// The gateway's signing keys; nil before there are any.
    var ring: SigningKeyRing? { get }
    var keyStatuses: [KeyStatus] { get }
    /// Rotates the signing keys; returns them as they are then.
    func rotate() async throws(RotationRefusal) -> SigningKeyRing
    /// The keys that limits refused most often, the most refused first.
    func hottestKeys(limit: Int) async -> [HotKey]
    func explain(_ request: ExplainCommand.Request) async throws(ExplainRefusal) -> ExplainedWalk
    /// The responses that are chosen.
    func stored(_ selector: CacheSelector) async -> CacheTotals
    /// Removes them from all gateways of the store; returns those of this one.
    func purge(_ selector: CacheSelector) async throws(AccountFailure) -> CacheTotals
    /// The census of apps of a week.
    func appUses() async throws(AccountFailure) -> [AppUse]
    /// The live switches of a kind that have not ended.
    func switches(_ kind: String) -> [LiveSwitch]
    /// Sets one on all gateways of the store, or removes it with nil.
    func set(_ name: String, to value: String?, until: WallTime?) async throws(AccountFailure)
    /// Those that an authority issues.
    var certificates: [ShownCertificate] { get }
    /// Has a gateway order a certificate at once.
    func wish(for certificate: String) async throws(AccountFailure)
}

/// This process.
struct RunningGateway: OperatedGateway {
    let startedAt: WallTime
    let instance = Self.machineName()
    let active: ActiveConfiguration
    let health: ConditionLog
    let broadcast: WorkerBroadcast
    let keySets: KeySetRefresher
    let limiter: SharedLimiter
    let spans: SpanExporter
    let accounts: AccountsRuntime
    let rotation: KeyRotation
    let orders: AcmeOrders?
    let explainer = Explainer()

    var workerCount: Int { broadcast.mailboxes.count }
    var time: WallTime { EventLoop.now().wall }
    func reports() async -> [MetricsSnapshot] { await broadcast.reports() }
    func process() -> ProcessMetrics {
        var metrics = health.process({ keyStatuses }, limitEvictions: limiter.evictions, spans: spans.counts, now: time)
        metrics.apps = accounts.apps.counts
        metrics.closed = closedScopes.map(\.rawValue)
        return metrics
    }
    func readiness() -> Readiness { health.readiness(keyStatuses, configuration, at: EventLoop.now()) }
    func refusals(_ query: RefusalQuery) async -> [ExplainedRefusal] { await broadcast.refusals(query) }
    func newRefusals(since counts: [Int: Int], limit: Int) async -> [Int: NewRefusals] {
        await broadcast.newRefusals(since: counts, limit: limit)
    }
    func upstreams() async -> [UpstreamStatus] { await broadcast.upstreams() }

    var configuration: GatewayConfiguration { active.configuration }
    var loads: LoadHistory.State { active.loads.now }
    var ring: SigningKeyRing? { active.keys.own }
    var keyStatuses: [KeyStatus] { keySets.statuses }
    func rotate() async throws(RotationRefusal) -> SigningKeyRing { try await rotation.rotate() }
    func appUses() async throws(AccountFailure) -> [AppUse] { try await accounts.appUses(at: time) }
    func switches(_ kind: String) -> [LiveSwitch] { accounts.switches.all(kind, at: time) }
    func set(_ name: String, to value: String?, until: WallTime?) async throws(AccountFailure) {
        _ = try await accounts.set(name, to: value, until: until)
    }
    var certificates: [ShownCertificate] { orders?.shown ?? [] }
    func wish(for certificate: String) async throws(AccountFailure) { try await orders?.wish(for: certificate) }
    func hottestKeys(limit: Int) async -> [HotKey] { await broadcast.hottestKeys(limit: limit) }
    func explain(_ request: ExplainCommand.Request) async throws(ExplainRefusal) -> ExplainedWalk {
        try await explainer.explain(request, configuration, active.currentPolicy) { readiness() }
    }

    func stored(_ selector: CacheSelector) async -> CacheTotals { await broadcast.stored(selector, removes: false) }
    func purge(_ selector: CacheSelector) async throws(AccountFailure) -> CacheTotals {
        let removed = await broadcast.stored(selector, removes: true)
        try await accounts.announce(selector)
        return removed
    }

    static func machineName() -> String {
        var name = [CChar](repeating: 0, count: 256)
        guard unsafe gethostname(&name, name.count - 1) == 0 else { return "" }
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

extension AdminOperation {
    /// The operations on the gateway itself: its routes, keys, limits, outbox and configuration. A new one is a row here or beside it,
    /// with the record of its answer.
    static func ofGateway(_ gateway: some OperatedGateway) -> [AdminOperation] {
        routes(gateway) + cache(gateway) + splits(gateway) + maintenance(gateway) + certificates(gateway) + keys(gateway)
            + [limits(gateway), outbox(gateway), configuration(gateway), apps(gateway)]
    }
}
