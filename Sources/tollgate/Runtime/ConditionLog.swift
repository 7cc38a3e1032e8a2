internal import Accounts
internal import Acme
internal import Cluster
internal import Credentials
internal import Gate
internal import Issuers
internal import Proxy
internal import Redis
internal import Settings
internal import Storage
internal import Synchronization
internal import System
internal import Telemetry
internal import Transport
internal import Wire

/// The log of the gateway's conditions, which any thread reports. A report changes the readiness board and the counts, and a condition that
/// many threads report is logged once, when it changes.
final class ConditionLog: Sendable {
    private struct State {
        var board: ReadinessBoard
        var counts: ProcessCounts
        /// Addresses with `http2=on` that chose HTTP/1.1.
        var choseHTTP1: Set<String> = []
        /// As the store had them last.
        var apiKeys: APIKeyTable?
    }

    let log: ServerLog
    private let state: Mutex<State>
    private let shortageInterval = LogInterval(milliseconds: 1_000)
    private let smsBudgetInterval = LogInterval(milliseconds: 60_000)
    private let tierInterval = LogInterval(milliseconds: 10_000)
    private let gatewaysInterval = LogInterval(milliseconds: 10_000)
    private let redisInterval = LogInterval(milliseconds: 10_000)
    private let purchaseInterval = LogInterval(milliseconds: 1_000)
    private let eventInterval = LogInterval(milliseconds: 10_000)
    private let hookInterval = LogInterval(milliseconds: 10_000)

    init(_ build: BuildInfo, workers: Int, log: ServerLog) {
        self.log = log
        state = Mutex(State(board: ReadinessBoard(workers: workers), counts: ProcessCounts(build)))
    }

    // MARK: life

    func drainBegan() { state.withLock { $0.board.isDraining = true } }

    func configurationLoaded(succeeded: Bool, now: WallTime) {
        state.withLock { $0.counts.metrics.configurationLoaded(succeeded: succeeded, at: now) }
    }

    /// Forgets the issuers, clocks and upstreams that a new configuration no longer has. Call it before the workers adopt that.
    func adopt(_ configuration: GatewayConfiguration, _ upstreams: [UpstreamSnapshot]) {
        let holders = IssuersPlan(configuration).outside.map(\.name)
        let clocks =
            [Self.databaseClock] + holders.map(Self.clock(keySet:)) + configuration.settings.upstreams.map { Self.clock(upstream: $0.name) }
        state.withLock { state in
            state.counts.metrics.keepIssuers(holders)
            state.counts.metrics.clocks.keep(clocks)
            state.board.upstreams.adopt(upstreams)
        }
    }

    /// The certificates of the TLS listeners expire then.
    func certificatesAdopted(_ expiries: [String: WallTime]) { state.withLock { $0.counts.metrics.certificates = expiries } }

    /// The state of the certificates that an authority issues, by their names.
    func issued(_ renewals: [String: RenewalCondition]) { state.withLock { $0.counts.metrics.renewals = renewals } }

    func certificateIssued(_ name: String, _ certificate: IssuedCertificate) {
        log.info(
            "certificate issued", ("name", name), ("serial", certificate.serial), ("expires", ISO8601.text(certificate.expiresAt)))
    }

    func orderFailed(_ name: String, _ failure: AcmeFailure, next: WallTime) {
        log.error(
            "no certificate issued", ("name", name), ("cause", failure.cause.rawValue), ("detail", failure.sentence),
            ("next", ISO8601.text(next)))
    }
    /// Why files that are read again when they change were not adopted.
    func files(_ kind: ReadinessBoard.FileKind, haveFaults faults: [String]) { state.withLock { $0.board.fileFaults[kind] = faults } }

    // MARK: clocks

    /// The clock of the server of a key set, or of an upstream, in metrics and log.
    static func clock(keySet issuer: String) -> String { "jwks:\(issuer)" }
    static func clock(upstream: String) -> String { "upstream:\(upstream)" }

    private static let databaseClock = "database"

    /// A server's `Date` was `date` at `now` of our clock.
    func sawClock(_ source: String, date: WallTime, now: WallTime) {
        if let skew = ClockSkews.skew(of: date, at: now) { saw(source, skew: skew) }
    }

    /// Our clock is ahead of a source's by so many microseconds.
    private func saw(_ source: String, skew: Int64) {
        let change = state.withLock { $0.counts.metrics.clocks.read(source, skew: skew) }
        let ahead = "\(skew / 1_000_000)"
        switch change {
        case .none: break
        case .differs: log.warning("clocks differ, check which is right", ("source", source), ("ahead_s", ahead))
        case .agrees: log.info("clocks agree again", ("source", source), ("ahead_s", ahead))
        }
    }

    // MARK: upstreams and Redis

    /// The upstream has these addresses now: what was known of others is forgotten, for they are neither probed nor asked any more. Call it
    /// before the workers learn of it.
    func addresses(of upstream: String, are addresses: [UpstreamAddress]) {
        state.withLock { $0.board.upstreams.adopt(addresses, of: upstream) }
    }

    func upstreamChanged(_ upstream: String, _ address: UpstreamAddress, isHealthy: Bool) {
        state.withLock { $0.board.upstreams.turned(upstream, address, isHealthy: isHealthy) }
        let fields: [ServerLog.Field] = [("upstream", upstream), ("address", "\(address.address)\(address.pathPrefix)")]
        log.write(isHealthy ? .info : .warning, isHealthy ? "healthy again" : "unhealthy", fields)
    }

    /// An address was ejected, or is in again.
    func upstreamChanged(_ upstream: String, _ address: UpstreamAddress, _ change: AddressChange, at now: Moment) {
        let text = "\(address.address)\(address.pathPrefix)"
        switch change {
        case .left(let absence, let detail):
            let milliseconds = absence.until.nanoseconds(since: now.monotonic) / 1_000_000
            let until = Moment(monotonic: absence.until, wall: WallTime(microseconds: now.wall.microseconds + Int64(milliseconds) * 1_000))
            state.withLock { $0.board.upstreams.left(upstream, address, until: until, detail, at: now.monotonic) }
            log.warning(
                "ejected", ("upstream", upstream), ("address", text), ("reason", absence.reason.text), ("detail", detail),
                ("for_s", "\((milliseconds + 500) / 1_000)"))
        case .returned:
            state.withLock { $0.board.upstreams.returned(upstream, address) }
            log.info("no longer ejected", ("upstream", upstream), ("address", text))
        }
    }

    /// The panic of an upstream has begun or ended.
    func panicChanged(_ upstream: String, begins: Bool, available: Int, of total: Int) {
        let message: StaticString = begins ? "so few addresses are available that all are used" : "enough addresses are available again"
        log.write(begins ? .warning : .info, message, [("upstream", upstream), ("available", "\(available) of \(total)")])
    }

    /// An address with `http2=on` has chosen HTTP/1.1; logged once for each.
    func choseHTTP1(_ upstream: String, _ address: UpstreamAddress) {
        let address = "\(address.address)"
        guard state.withLock({ $0.choseHTTP1.insert("\(upstream) \(address)").inserted }) else { return }
        log.warning(
            "an upstream with http2=on chose HTTP/1.1", ("upstream", upstream), ("address", address),
            ("detail", "its server should offer h2 in ALPN; until then each connection carries one request at a time"))
    }

    /// A worker's connection to Redis, or to a node of it, changed; logged for the first worker that sees it.
    func redisChanged(worker: Int, _ change: RedisNodes.Change) {
        let isFirst = state.withLock { $0.board.redis.changed(worker: worker, change) }
        guard isFirst, let condition = change.condition else { return }
        var fields: [ServerLog.Field] = [("condition", condition.description)]
        if let node = change.node { fields.insert(("node", node), at: 0) }
        log.write(condition == .connecting || condition == .ready ? .info : .warning, "redis", fields)
    }

    func report(_ event: SentinelEvent) {
        switch event {
        case .primary(let address): log.info("redis", ("primary", address.description))
        case .changed(let problem):
            // At the start, that all is well is said, too.
            guard state.withLock({ $0.board.redis.sentinels.set(problem, isDue: isRedisDue) }) || problem == nil else { return }
            if let problem { log.warning("redis", ("sentinels", problem)) } else { log.info("redis", ("sentinels", "ready")) }
        case .sentinel(let address, let problem?): log.warning("redis", ("sentinel", address.description), ("error", problem))
        case .sentinel(let address, nil): log.info("redis", ("sentinel", address.description), ("condition", "ready"))
        }
    }

    /// No node of the Redis Cluster tells which there are, or slots have no node; nil: all is well.
    func redisMapChanged(problem: String?) {
        guard state.withLock({ $0.board.redis.map.set(problem, isDue: isRedisDue) }) else { return }
        if let problem { log.warning("redis", ("cluster", problem)) } else { log.info("redis", ("cluster", "ready")) }
    }

    private func isRedisDue() -> Bool { redisInterval.begins(at: EventLoop.now().monotonic) }

    /// The process has no descriptor, port or memory left. Logged once a second.
    func shortage(_ fault: SystemFault, at now: MonotonicTime) {
        if shortageInterval.begins(at: now) { log.error("out of resources", ("error", fault.description)) }
    }

    // MARK: overload

    /// The bounds on load of the configuration in force.
    func limits(_ limits: LoadLimits) { state.withLock { $0.counts.metrics.overload.limits = limits.byReason } }

    /// A worker shed load; logged when that begins.
    func shed(_ reason: OverloadReason, at now: MonotonicTime) {
        let (begins, limit) = state.withLock {
            ($0.counts.metrics.overload.shed(reason, at: now), $0.counts.metrics.overload.limits[reason])
        }
        guard begins else { return }
        let detail =
            switch reason {
            case .connections: "TOLLGATE_MAX_CONNECTIONS, or the limit on descriptors (ulimit -n): clients wait until a connection ends"
            case .requests: "TOLLGATE_MAX_REQUESTS: further requests get 503"
            case .local: "TOLLGATE_MAX_LOCAL_REQUESTS, or nine tenths of TOLLGATE_MAX_REQUESTS: sign-ins and the like get 503"
            case .buffers: "TOLLGATE_MAX_BUFFERS: further requests get 503"
            case .share: "TOLLGATE_CLIENT_SHARE: a client holds its share of a bound, its further requests get 503; the access log names it"
            }
        log.warning("overload begins", ("bound", reason.text), ("limit", limit.map { "\($0)" } ?? "-"), ("detail", detail))
    }

    /// Logs the overloads that are over. Called once a second.
    func lookForCalm(at now: MonotonicTime) {
        for ended in state.withLock({ $0.counts.metrics.overload.ended(by: now) }) {
            log.info("overload ends", ("bound", ended.reason.text), ("lasted_ms", "\(ended.milliseconds)"))
        }
    }

    // MARK: accounts

    /// The store does not answer; logged until it does.
    func storeUnavailable(_ reason: String) {
        if state.withLock({ $0.board.store.failed(reason) }) { log.error("account store unavailable", ("error", reason)) }
    }

    /// A transaction of the store has ended.
    func report(_ outcome: StoreOutcome) {
        guard state.withLock({ $0.board.store.ended(outcome) }) else { return }
        switch outcome {
        case .readFailed: break
        case .skippedRow(let reason): report(AccountNotice.storeFailed(reason))
        case .wrote: log.info("account store writable")
        case .writeFailed(let reason): log.error("account store not writable", ("error", reason))
        }
    }

    /// An attempt at an account was refused. An exhausted SMS budget is logged once a minute.
    func attemptRefused(_ refusal: AttemptRefusal, at now: MonotonicTime) {
        state.withLock { $0.counts.metrics.attempts.refused(by: refusal.kind.rawValue) }
        guard refusal.kind == .smsBudget, smsBudgetInterval.begins(at: now) else { return }
        log.warning(
            "the budget for SMS is spent, raise TOLLGATE_SMS_BUDGET if these are your users",
            ("retry_s", "\(refusal.retryAfterSeconds)"))
    }

    // MARK: accounts

    func count(_ outcome: MergeCount) { state.withLock { $0.counts.metrics.merges[outcome.rawValue] += 1 } }

    func count(_ body: (inout EventMetrics) -> Void) { state.withLock { body(&$0.counts.metrics.events) } }

    func read(_ keys: APIKeyTable) { state.withLock { $0.apiKeys = keys } }

    // MARK: purchases

    /// A report of purchases. What a stranger can cause is logged once a second; the metrics count all of it.
    func report(_ report: PurchaseReport) {
        let now = EventLoop.now()
        state.withLock { $0.counts.metrics.purchases.add(report, at: now.wall) }
        log.write(report) { purchaseInterval.begins(at: now.monotonic) }
    }

    // MARK: splits

    /// The share of a route's split was taken back to 0.
    func splitGuarded(_ route: String, _ counts: SplitCounts) {
        state.withLock { $0.counts.metrics.splitGuards[route, default: 0] += 1 }
        log.error(
            "a split fails too often and its share is 0 now, tollgate split sets it anew", ("route", route),
            ("failed", "\(counts.splitFailed) of \(counts.split) users"), ("others_failed", "\(counts.mainFailed) of \(counts.main) users"))
    }

    // MARK: services that are told and asked

    func report(_ report: EventReport) {
        state.withLock { $0.counts.metrics.events.add(report) }
        switch report {
        case .sent(let subscriber, _, let failed, _, let reason?) where eventInterval.begins(at: EventLoop.now().monotonic):
            log.warning(
                "events do not arrive, they are tried again", ("subscriber", subscriber), ("failed", "\(failed)"), ("reason", reason))
        case .parked(let subscriber, let kind, let id, let reason):
            log.error(
                "an event was parked, tollgate events replay sends it again", ("subscriber", subscriber), ("event", id.text),
                ("type", kind.rawValue), ("reason", reason))
        case .sent, .state, .left: break
        }
    }

    /// The sign-up hook has answered, or has not.
    func signUpAnswered(_ answer: SignUpAnswer, problem: String?) {
        state.withLock { $0.counts.metrics.events.answered(problem == nil ? answer.word : "failed") }
        guard let problem, hookInterval.begins(at: EventLoop.now().monotonic) else { return }
        log.warning("the sign-up hook does not answer", ("reason", problem))
    }

    // MARK: the cluster

    func report(_ report: ClusterReport) {
        switch report {
        case .busExpected(let carrier):
            state.withLock { state in
                state.counts.metrics.bus.carrier = carrier
                state.board.busExpected()
            }
        case .busConnected(let carrier):
            if setBus(problem: nil) { log.info("change bus connected", ("carrier", carrier)) }
        case .busLost(let carrier, let problem):
            guard setBus(problem: problem) else { return }
            log.warning("change bus lost, polling the database", ("carrier", carrier), ("error", problem))
        case .hintReceived: state.withLock { $0.counts.metrics.bus.messages += 1 }
        case .messageRefused: state.withLock { $0.counts.metrics.bus.refusedMessages += 1 }
        case .changesApplied(let lags):
            state.withLock { for lag in lags { $0.counts.metrics.bus.applied(lag: lag) } }
        case .tierAsked(let issuer, let problem):
            state.withLock { $0.counts.metrics.tierAsked(issuer: issuer, problem == nil ? .ok : .failed) }
            guard let problem, tierInterval.begins(at: EventLoop.now().monotonic) else { return }
            log.warning("a tier server does not answer, known tiers stay", ("issuer", issuer), ("error", problem))
        case .gatewaysLate(let names):
            guard gatewaysInterval.begins(at: EventLoop.now().monotonic) else { return }
            log.warning(
                "a change does not count yet at gateways that have not said so within a second", ("gateways", names.joined(separator: " ")))
        case .storeAnswered(let clockSkew):
            if let clockSkew { saw(Self.databaseClock, skew: clockSkew) }
            if state.withLock({ $0.board.store.answered() }) { log.info("account store available") }
        }
    }

    /// Whether the bus was lost or came back.
    private func setBus(problem: String?) -> Bool {
        state.withLock { state in
            state.counts.metrics.bus.isConnected = problem == nil
            return state.board.busChanged(problem: problem)
        }
    }

    // MARK: reports

    /// The process's metrics at `now`. `statuses` is called under the lock, so that of two scrapes the later one has the later counts.
    func process(_ statuses: () -> [KeyStatus], limitEvictions: UInt64, spans: SpanCounts, now: WallTime) -> ProcessMetrics {
        state.withLock { state in
            state.counts.add(statuses(), now: now)
            var metrics = state.counts.metrics
            metrics.limitEvictions = limitEvictions
            metrics.spans = spans
            metrics.apiKeys = state.apiKeys?.keys.count { now.seconds < $0.expiresAt }
            return metrics
        }
    }

    func readiness(_ statuses: [KeyStatus], _ configuration: GatewayConfiguration, at now: Moment) -> Readiness {
        let (board, metrics) = state.withLock { ($0.board, $0.counts.metrics) }
        return board.readiness(statuses, metrics, configuration, at: now)
    }
}
