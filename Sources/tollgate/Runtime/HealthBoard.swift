internal import Accounts
internal import Cluster
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

/// The condition of everything the gateway depends on, for `/readyz`, the process's metrics and the log. A condition that
/// many threads report is logged once, when it changes.
final class HealthBoard: Sendable {
    private struct State {
        var process: ProcessMetrics
        /// As of the last scrape: metrics count what was fetched since.
        var keySets: [String: KeyStatus] = [:]
        var isDraining = false
        /// Why the store does not answer; nil while it does.
        var accountsProblem: String?
        /// Why the latest change of the accounts failed; nil if it did not.
        var accountsWriteProblem: String?
        /// Whether the store has failed to read since it last answered.
        var accountsReadFails = false
        /// Why no change is notified of; nil while they are, and without a bus.
        var busProblem: String?
        var upstreams = UpstreamConditions()
        /// Addresses with `http2=on` that chose HTTP/1.1.
        var choseHTTP1: Set<String> = []
        /// By worker and node: each worker has connections of its own. The node is "" with one server.
        var redis: [Int: [String: RedisCondition]] = [:]
        /// Why the nodes of the Redis Cluster are unknown.
        var redisMapProblem: String?
        var redisMapTold = ToldReasons()
        /// Why the sentinels name no primary, or a failover would not be noticed; nil while all is well.
        var sentinelProblem: String?
        var sentinelTold = ToldReasons()
    }

    let log: ServerLog
    private let workers: Int
    private let state: Mutex<State>
    private let shortageInterval = LogInterval(milliseconds: 1_000)
    private let smsBudgetInterval = LogInterval(milliseconds: 60_000)
    private let tierInterval = LogInterval(milliseconds: 10_000)
    private let redisInterval = LogInterval(milliseconds: 10_000)

    init(_ build: BuildInfo, workers: Int, log: ServerLog) {
        self.log = log
        self.workers = workers
        let attempts = AttemptMetrics(buckets: AttemptBucket.Kind.allCases.map(\.rawValue))
        state = Mutex(State(process: ProcessMetrics(build: build, attempts: attempts)))
    }

    // MARK: life

    func drainBegan() { state.withLock { $0.isDraining = true } }

    func configurationLoaded(succeeded: Bool, now: WallTime) {
        state.withLock { $0.process.configurationLoaded(succeeded: succeeded, at: now) }
    }

    /// Forgets the issuers, clocks and upstreams that a new configuration no longer has. Call it before the workers adopt that.
    func adopt(_ configuration: GatewayConfiguration, _ upstreams: [UpstreamSnapshot]) {
        let holders = IssuersPlan(configuration).outside.map(\.name)
        let clocks = [Self.databaseClock] + holders.map(Self.clock(keySet:)) + configuration.settings.upstreams.map { Self.clock(upstream: $0.name) }
        state.withLock { state in
            state.process.keepIssuers(holders)
            state.process.clocks.keep(clocks)
            state.upstreams.adopt(upstreams)
        }
    }

    /// The certificates of the TLS listeners expire then.
    func certificatesAdopted(_ expiries: [String: WallTime]) { state.withLock { $0.process.certificates = expiries } }

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
        let change = state.withLock { $0.process.clocks.read(source, skew: skew) }
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
        state.withLock { $0.upstreams.adopt(addresses, of: upstream) }
    }

    func upstreamChanged(_ upstream: String, _ address: UpstreamAddress, isHealthy: Bool) {
        state.withLock { $0.upstreams.turned(upstream, address, isHealthy: isHealthy) }
        let address = "\(address.address)\(address.pathPrefix)"
        if isHealthy {
            log.info("healthy again", ("upstream", upstream), ("address", address))
        } else {
            log.warning("unhealthy", ("upstream", upstream), ("address", address))
        }
    }

    /// An address was ejected, or is in again.
    func upstreamChanged(_ upstream: String, _ address: UpstreamAddress, _ change: AddressChange, at now: Moment) {
        let text = "\(address.address)\(address.pathPrefix)"
        switch change {
        case .left(let absence, let detail):
            let milliseconds = absence.until.nanoseconds(since: now.monotonic) / 1_000_000
            let until = Moment(monotonic: absence.until, wall: WallTime(microseconds: now.wall.microseconds + Int64(milliseconds) * 1_000))
            state.withLock { $0.upstreams.left(upstream, address, until: until, detail, at: now.monotonic) }
            log.warning(
                "ejected", ("upstream", upstream), ("address", text), ("reason", absence.reason.text), ("detail", detail),
                ("for_s", "\((milliseconds + 500) / 1_000)"))
        case .returned:
            state.withLock { $0.upstreams.returned(upstream, address) }
            log.info("no longer ejected", ("upstream", upstream), ("address", text))
        }
    }

    /// The panic of an upstream has begun or ended.
    func panicChanged(_ upstream: String, begins: Bool, available: Int, of total: Int) {
        let available = "\(available) of \(total)"
        if begins {
            log.warning("so few addresses are available that all are used", ("upstream", upstream), ("available", available))
        } else {
            log.info("enough addresses are available again", ("upstream", upstream), ("available", available))
        }
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
        let node = change.node ?? ""
        let isFirst = state.withLock { state in
            let isKnown = state.redis.values.contains { $0[node] == change.condition }
            state.redis[worker, default: [:]][node] = change.condition
            return !isKnown
        }
        guard isFirst, let condition = change.condition else { return }
        switch (condition, change.node) {
        case (.connecting, nil), (.ready, nil): log.info("redis", ("condition", condition.description))
        case (.connecting, let node?), (.ready, let node?): log.info("redis", ("node", node), ("condition", condition.description))
        case (.refusing, nil), (.down, nil): log.warning("redis", ("condition", condition.description))
        case (.refusing, let node?), (.down, let node?): log.warning("redis", ("node", node), ("condition", condition.description))
        }
    }

    func report(_ event: SentinelEvent) {
        switch event {
        case .primary(let address): log.info("redis", ("primary", address.description))
        case .changed(let problem):
            // At the start, that all is well is said, too.
            guard isToBeLogged(problem, of: \.sentinelProblem, told: \.sentinelTold) || problem == nil else { return }
            if let problem { log.warning("redis", ("sentinels", problem)) } else { log.info("redis", ("sentinels", "ready")) }
        case .sentinel(let address, let problem?): log.warning("redis", ("sentinel", address.description), ("error", problem))
        case .sentinel(let address, nil): log.info("redis", ("sentinel", address.description), ("condition", "ready"))
        }
    }

    /// No node of the Redis Cluster tells which there are, or slots have no node; nil: all is well.
    func redisMapChanged(problem: String?) {
        guard isToBeLogged(problem, of: \.redisMapProblem, told: \.redisMapTold) else { return }
        if let problem { log.warning("redis", ("cluster", problem)) } else { log.info("redis", ("cluster", "ready")) }
    }

    /// Sets a problem of Redis. Its end and the first reason are logged, and of further reasons, each once, one in a while: a server
    /// that hangs has several in turn.
    private func isToBeLogged(
        _ problem: String?, of place: any WritableKeyPath<State, String?> & Sendable,
        told: any WritableKeyPath<State, ToldReasons> & Sendable
    ) -> Bool {
        state.withLock { state in
            state[keyPath: place] = problem
            let isFurther = problem != nil && state[keyPath: told].latest != nil
            guard state[keyPath: told].isNew(problem), !isFurther || redisInterval.begins(at: EventLoop.now().monotonic) else { return false }
            state[keyPath: told].told(problem)
            return true
        }
    }

    /// The process has no descriptor, port or memory left. Logged once a second.
    func shortage(_ fault: SystemFault, at now: MonotonicTime) {
        if shortageInterval.begins(at: now) { log.error("out of resources", ("error", fault.description)) }
    }

    // MARK: overload

    /// The bounds on load of the configuration in force.
    func limits(_ limits: LoadLimits) {
        state.withLock { $0.process.overload.limits = limits.byReason }
    }

    /// A worker shed load; logged when that begins.
    func shed(_ reason: OverloadReason, at now: MonotonicTime) {
        let (begins, limit) = state.withLock { ($0.process.overload.shed(reason, at: now), $0.process.overload.limits[reason]) }
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
        for ended in state.withLock({ $0.process.overload.ended(by: now) }) {
            log.info("overload ends", ("bound", ended.reason.text), ("lasted_ms", "\(ended.milliseconds)"))
        }
    }

    // MARK: accounts

    /// The store does not answer; logged until it does.
    func accountsAway(_ reason: String) {
        // One that only cannot write has been told of.
        guard !state.withLock({ $0.accountsWriteProblem == reason && !$0.accountsReadFails }) else { return }
        if setAccounts(problem: reason) { log.error("the accounts are away", ("error", reason)) }
    }

    /// A transaction of the store has ended. That changes fail, as on a full disk, is told until one succeeds.
    func report(_ outcome: StoreOutcome) {
        switch outcome {
        case .readFailed: state.withLock { $0.accountsReadFails = true }
        case .wrote:
            if setAccounts(writeProblem: nil) { log.info("the accounts can be changed again") }
        case .writeFailed(let reason):
            if setAccounts(writeProblem: reason) { log.error("the accounts cannot be changed", ("error", reason)) }
        }
    }

    /// Whether changes began to fail, or succeed again.
    private func setAccounts(writeProblem problem: String?) -> Bool {
        state.withLock { state in
            defer { state.accountsWriteProblem = problem }
            return (state.accountsWriteProblem == nil) != (problem == nil)
        }
    }

    /// Whether the store went away or came back.
    private func setAccounts(problem: String?) -> Bool {
        state.withLock { state in
            defer { state.accountsProblem = problem }
            return (state.accountsProblem == nil) != (problem == nil)
        }
    }

    /// An attempt at an account was refused. An exhausted SMS budget is logged once a minute.
    func attemptRefused(_ refusal: AttemptRefusal, at now: MonotonicTime) {
        state.withLock { $0.process.attempts.refused(by: refusal.kind.rawValue) }
        guard refusal.kind == .smsBudget, smsBudgetInterval.begins(at: now) else { return }
        log.warning(
            "the budget for SMS is spent, raise TOLLGATE_SMS_BUDGET if these are your users",
            ("retry_s", "\(refusal.retryAfterSeconds)"))
    }

    // MARK: the cluster

    private static let connecting = "connecting"

    func report(_ report: ClusterReport) {
        switch report {
        case .busExpected(let carrier):
            state.withLock { state in
                state.process.bus.carrier = carrier
                state.busProblem = Self.connecting
            }
        case .busConnected(let carrier):
            if setBus(problem: nil) { log.info("the bus tells of changes", ("carrier", carrier)) }
        case .busLost(let carrier, let problem):
            guard setBus(problem: problem) else { return }
            log.warning("the bus is away, changes are looked for in the database", ("carrier", carrier), ("error", problem))
        case .hintReceived: state.withLock { $0.process.bus.messages += 1 }
        case .messageRefused: state.withLock { $0.process.bus.refusedMessages += 1 }
        case .changesApplied(let lags):
            state.withLock { state in
                for lag in lags { state.process.bus.applied(lag: lag) }
            }
        case .tierAsked(let issuer, let problem):
            state.withLock { $0.process.tierAsked(issuer: issuer, problem == nil ? .ok : .failed) }
            guard let problem, tierInterval.begins(at: EventLoop.now().monotonic) else { return }
            log.warning("a tier server does not answer, known tiers stay", ("issuer", issuer), ("error", problem))
        case .storeAnswered(let clockSkew):
            if let clockSkew { saw(Self.databaseClock, skew: clockSkew) }
            // Changes failed because all of it was away.
            state.withLock { if $0.accountsReadFails { ($0.accountsReadFails, $0.accountsWriteProblem) = (false, nil) } }
            if setAccounts(problem: nil) { log.info("the accounts are back") }
        }
    }

    /// Whether the bus was lost or came back.
    private func setBus(problem: String?) -> Bool {
        state.withLock { state in
            let before = state.busProblem
            state.process.bus.isConnected = problem == nil
            state.busProblem = problem
            return (before == nil) != (problem == nil) || before == Self.connecting
        }
    }

    // MARK: reports

    /// The process's metrics at `now`. `statuses` is called under the lock, so that of two scrapes the later one has the later counts.
    func process(_ statuses: () -> [KeyStatus], limitEvictions: UInt64, spans: SpanCounts, now: WallTime) -> ProcessMetrics {
        state.withLock { state in
            for status in statuses() {
                var before = state.keySets[status.name] ?? KeyStatus(name: status.name)
                // Since a reload the name has another source, whose counts begin at 0.
                if status.fetches < before.fetches || status.failures < before.failures { before = KeyStatus(name: status.name) }
                let failures = Int(clamping: status.failures &- before.failures)
                let fetches = Int(clamping: status.fetches &- before.fetches)
                for _ in 0..<max(0, min(failures, 1_000)) {
                    state.process.keySetFetched(issuer: status.name, .unreachable, keys: status.keyCount, at: now)
                }
                for _ in 0..<max(0, min(fetches - failures, 1_000)) {
                    state.process.keySetFetched(
                        issuer: status.name, .ok, keys: status.keyCount, at: status.confirmedAt ?? now)
                }
                state.keySets[status.name] = status
            }
            var process = state.process
            process.limitEvictions = limitEvictions
            process.spans = spans
            return process
        }
    }

    func readiness(_ statuses: [KeyStatus], _ configuration: GatewayConfiguration, at now: Moment) -> Readiness {
        var readiness = Readiness()
        let (isDraining, upstreams, redis, carrier, busProblem) = state.withLock {
            ($0.isDraining, $0.upstreams, $0.redis, $0.process.bus.carrier, $0.busProblem)
        }
        let accountsProblem = state.withLock { state in
            state.accountsProblem ?? state.accountsWriteProblem.map { "changes fail: \($0)" }
        }
        let overloads = state.withLock { $0.process.overload.reachedByAll }
        readiness.add("serving", isDraining ? .unready : .ready, isDraining ? "draining" : nil)
        if configuration.redis != nil {
            let (mapProblem, sentinelProblem) = state.withLock { ($0.redisMapProblem, $0.sentinelProblem) }
            readiness.add(redis, of: workers, mapProblem: mapProblem, sentinelProblem, configuration.settings.rateLimitFailure)
        }
        if configuration.settings.usesStore {
            readiness.add("accounts", accountsProblem == nil ? .ready : .degraded, accountsProblem)
        }
        if let carrier {
            let consequence = "changes by other gateways are looked for in the database, and count within a second"
            readiness.add("bus", busProblem == nil ? .ready : .degraded, busProblem.map { "\(carrier): \($0); \(consequence)" })
        }
        if !configuration.settings.tlsPairs.isEmpty {
            let expiries = state.withLock { $0.process.certificates }
            let expired = expiries.filter { $0.value <= now.wall }.keys.sorted()
            readiness.add(
                "certificates", expired.isEmpty ? .ready : .degraded, expired.isEmpty ? nil : "expired: \(expired.joined(separator: ", "))")
        }
        for status in statuses {
            if status.keyCount == 0 {
                readiness.add("keys of \(status.name)", .degraded, status.problem ?? "no key was ever had")
            } else {
                readiness.add("keys of \(status.name)", status.problem == nil ? .ready : .degraded, status.problem)
            }
        }
        if !overloads.isEmpty {
            // Not unready: a load balancer that took an overloaded gateway away would give its load to the others.
            readiness.add("load", .degraded, "at its bound: " + overloads.map(\.text).joined(separator: ", "))
        }
        upstreams.add(to: &readiness, at: now.monotonic)
        return readiness
    }
}
