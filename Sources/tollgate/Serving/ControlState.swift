internal import Accounts
internal import Admin
internal import Contracts
internal import Credentials
internal import Gate
internal import Issuers
internal import Proxy
internal import Redis
internal import Settings
internal import Synchronization
internal import Telemetry
internal import Transport
internal import Wire

/// What the threads of the control plane share: the configuration and keys in force, and the way to the workers.
final class ControlState: Sendable {
    private struct State {
        var configuration: GatewayConfiguration
        var keys: IssuerKeys
        /// Snapshots of keys that belong to an earlier configuration are passed over.
        var keysGeneration: UInt64 = 0
        var policyVersion = 1
        var labels: MetricLabels
        var process: ProcessMetrics
        var counted: [String: KeyStatus] = [:]
        var isDraining = false
        /// Why the accounts cannot be asked; nil while they can.
        var accountsProblem: String?
        /// Why the bus tells of nothing; nil while it does, and where there is none.
        var busProblem: String?
        var unhealthy: Set<String> = []
        /// As each worker has told last.
        var redis: [Int: RedisCondition] = [:]
    }

    /// What opens the admin API.
    private let token = Mutex<AdminToken?>(nil)

    let mailboxes: [Mailbox<WorkerMessage>]
    let log: ServerLog
    private let state: Mutex<State>

    init(
        _ configuration: GatewayConfiguration, keys: IssuerKeys, labels: MetricLabels, build: BuildInfo,
        mailboxes: [Mailbox<WorkerMessage>], log: ServerLog
    ) {
        self.mailboxes = mailboxes
        self.log = log
        let attempts = AttemptMetrics(buckets: AttemptBucket.Kind.allCases.map(\.rawValue))
        state = Mutex(
            State(
                configuration: configuration, keys: keys, labels: labels,
                process: ProcessMetrics(build: build, attempts: attempts)))
    }

    var adminToken: AdminToken? { token.withLock { $0 } }

    func adopt(_ adminToken: AdminToken) {
        token.withLock { $0 = adminToken }
        guard adminToken.isNew else { return }
        log.info("the admin token, made now and told this once", ("token", String(decoding: adminToken.bytes, as: UTF8.self)))
    }

    var configuration: GatewayConfiguration { state.withLock { $0.configuration } }
    var keys: IssuerKeys { state.withLock { $0.keys } }

    /// Held while a policy is made and told: workers get them in the order in which they came into force, and never the
    /// routes of one configuration with the upstreams of another.
    private let publishing = Mutex<Void>(())

    func tell(_ message: WorkerMessage) {
        for mailbox in mailboxes { mailbox.post(message) }
    }

    // MARK: policy

    /// The policy of what is in force now.
    func policy(now: WallTime) throws(RouteFault) -> Policy {
        let (configuration, keys, version) = state.withLock { ($0.configuration, $0.keys, $0.policyVersion) }
        return try PolicyBuilder.policy(configuration, keys: keys, version: version, now: now)
    }

    /// Keys changed: every worker decides by them from its next turn on.
    func keysChanged(_ keys: IssuerKeys, now: WallTime) {
        publishing.withLock { _ in publish(keys, now: now) }
    }

    private func publish(_ keys: IssuerKeys, now: WallTime) {
        let isCurrent = state.withLock { state in
            guard keys.generation == state.keysGeneration else { return false }
            state.keys = keys
            state.policyVersion += 1
            return true
        }
        guard isCurrent else { return }
        do {
            tell(.adoptPolicy(try policy(now: now)))
        } catch {
            // The same routes made a policy before; should they not now, the one in force stays.
            log.error("keys not adopted", ("error", "\(error)"))
        }
    }

    /// Takes over a whole configuration. The caller has made sure that it makes a policy.
    func adopt(_ configuration: GatewayConfiguration, keys: IssuerKeys, generation: UInt64, _ upstreams: [UpstreamSnapshot], now: WallTime)
        throws(RouteFault)
    {
        try publishing.withLock { _ throws(RouteFault) in
            try publish(configuration, keys: keys, generation: generation, upstreams, now: now)
        }
    }

    private func publish(
        _ configuration: GatewayConfiguration, keys: IssuerKeys, generation: UInt64, _ upstreams: [UpstreamSnapshot], now: WallTime
    ) throws(RouteFault) {
        let labels = state.withLock { state in
            state.configuration = configuration
            state.keys = keys
            state.keysGeneration = generation
            state.policyVersion += 1
            state.labels.declare(configuration)
            let holders = IssuersPlan(configuration).outside.map(\.name)
            state.process.keepIssuers(holders)
            let clocks = holders.map { Clock.keySet($0) } + configuration.upstreams.map { Clock.upstream($0.name) }
            state.process.clocks.keep(clocks.map(\.source))
            return state.labels
        }
        tell(.adopt(try policy(now: now), upstreams, WorkerSettings(configuration, workers: mailboxes.count), labels))
    }

    func adoptCertificates(_ context: TLSServerContext) { tell(.adoptCertificates(context)) }

    /// The public halves of the gateway's own keys, as a JWK Set.
    func publicKeys(now: WallTime) -> [UInt8] {
        state.withLock { $0.keys.own }?.jwks(now: now) ?? Array(#"{"keys":[]}"#.utf8)
    }

    /// The name of the issuer of this number in the policy, if its keys can be fetched.
    func trustName(_ index: Int) -> String? {
        state.withLock { state in
            state.configuration.trusts.indices.contains(index) ? state.configuration.trusts[index].name : nil
        }
    }

    // MARK: clocks

    /// Whose clock told the time.
    enum Clock {
        case keySet(String), upstream(String)

        var source: String {
            switch self {
            case .keySet(let issuer): "jwks:\(issuer)"
            case .upstream(let name): "upstream:\(name)"
            }
        }
    }

    /// Said once when a clock has come to differ from ours, and once when both agree again.
    func sawClock(_ clock: Clock, date: WallTime, now: WallTime) {
        let (change, skew) = state.withLock { state in
            let change = state.process.clocks.read(clock.source, date: date, at: now)
            return (change, state.process.clocks.microseconds(clock.source) ?? 0)
        }
        let ahead = "\(skew / 1_000_000)"
        switch change {
        case .none: break
        case .differs: log.warning("clocks differ, check which is right", ("source", clock.source), ("ahead_s", ahead))
        case .agrees: log.info("clocks agree again", ("source", clock.source), ("ahead_s", ahead))
        }
    }

    /// Why the accounts cannot be asked, nil if they can; answers whether that is news.
    func noteAccounts(problem: String?) -> Bool {
        state.withLock { state in
            defer { state.accountsProblem = problem }
            return (state.accountsProblem == nil) != (problem == nil)
        }
    }

    private static let connecting = "connecting"

    /// There is to be a bus.
    func busExpected(_ carrier: String) {
        state.withLock { state in
            state.process.bus.carrier = carrier
            state.busProblem = Self.connecting
        }
    }

    /// How the bus is doing; answers whether that is news.
    func noteBus(problem: String?) -> Bool {
        state.withLock { state in
            let before = state.busProblem
            state.process.bus.isConnected = problem == nil
            state.busProblem = problem
            return (before == nil) != (problem == nil) || before == Self.connecting
        }
    }

    /// When it was last told that the budget for SMS is spent, in nanoseconds of the monotonic clock; 0 for never.
    let budgetToldAt = Atomic<UInt64>(0)

    func countRefusal(_ bucket: String) { state.withLock { $0.process.attempts.refused(by: bucket) } }

    func countBus(_ count: (inout BusMetrics) -> Void) { state.withLock { count(&$0.process.bus) } }

    // MARK: upstreams

    func resolved(_ upstream: String, _ addresses: [UpstreamAddress]) {
        log.info("addresses changed", ("upstream", upstream), ("addresses", addresses.map(\.address.description).joined(separator: " ")))
        tell(.resolved(upstream: upstream, addresses))
    }

    func healthChanged(_ upstream: String, _ place: UpstreamAddress, _ isHealthy: Bool) {
        let address = "\(place.address)\(place.pathPrefix)"
        let key = "\(upstream) \(address)"
        state.withLock { state in
            if isHealthy { state.unhealthy.remove(key) } else { state.unhealthy.insert(key) }
        }
        tell(.learned(upstream: upstream, place, healthy: isHealthy))
        if isHealthy {
            log.info("healthy again", ("upstream", upstream), ("address", address))
        } else {
            log.warning("unhealthy", ("upstream", upstream), ("address", address))
        }
    }

    /// When a shortage was last told, in nanoseconds of the monotonic clock.
    private let shortageToldAt = Atomic<UInt64>(0)

    /// The process lacks something for one more connection: said once a second at most, whichever worker meets it.
    func shortage(_ fault: SystemFault, at now: MonotonicTime) {
        let before = shortageToldAt.load(ordering: .relaxed)
        guard now.nanoseconds(since: MonotonicTime(nanoseconds: before)) >= 1_000_000_000 else { return }
        let (isMine, _) = shortageToldAt.compareExchange(expected: before, desired: now.nanoseconds, ordering: .relaxed)
        if isMine { log.error("out of resources", ("error", fault.description)) }
    }

    // MARK: Redis

    /// Where Redis was last found, and who beside the workers wants to know.
    private let redisPlace = Mutex<(addresses: [SocketAddress], follower: (@Sendable ([SocketAddress]) -> Void)?)>(([], nil))

    /// `follower` hears where Redis is, now and whenever that changes.
    func followRedis(_ follower: @escaping @Sendable ([SocketAddress]) -> Void) {
        redisPlace.withLock { place in
            place.follower = follower
            if !place.addresses.isEmpty { follower(place.addresses) }
        }
    }

    func redisResolved(_ addresses: [SocketAddress]) {
        tell(.redisResolved(addresses))
        redisPlace.withLock { place in
            place.addresses = addresses
            place.follower?(addresses)
        }
    }

    /// Workers see the same server each over its own connection: what several of them tell is said once.
    func redisChanged(worker: Int, _ condition: RedisCondition) {
        let isNews = state.withLock { state in
            let isKnown = state.redis.values.contains(condition)
            state.redis[worker] = condition
            return !isKnown
        }
        guard isNews else { return }
        switch condition {
        case .connecting, .ready: log.info("redis", ("condition", condition.description))
        case .refusing, .down: log.warning("redis", ("condition", condition.description))
        }
    }

    // MARK: life

    func drain(within milliseconds: UInt64) {
        state.withLock { $0.isDraining = true }
        tell(.drain(within: milliseconds))
    }

    /// The worker with the admin listeners, the first, is the only one that may still run.
    func othersEnded() { mailboxes[0].post(.othersEnded) }

    func configurationLoaded(succeeded: Bool, now: WallTime) {
        state.withLock { $0.process.configurationLoaded(succeeded: succeeded, at: now) }
    }

    // MARK: reports

    /// Asks every worker for its figures.
    func reports() async -> [MetricsSnapshot] { await ask { reply in .report(reply) } }

    /// The newest refusals of all workers, at most `limit`, the newest first; those of one request where `requestID` says which.
    func refusals(of requestID: String?, limit: Int) async -> [ExplainedRefusal] {
        let stories = await ask { reply in .tellRefusals(of: requestID, limit: limit, reply) }
        return Array(stories.joined().sorted { $0.at > $1.at }.prefix(limit))
    }

    /// Asks every worker the same.
    private func ask<Answer: Sendable>(_ question: (@escaping @Sendable (Answer) -> Void) -> WorkerMessage) async -> [Answer] {
        var answers: [Answer] = []
        for mailbox in mailboxes {
            let answer: Answer? = await withCheckedContinuation { continuation in
                let isRead = mailbox.post(question { continuation.resume(returning: $0) })
                // A worker that has drained has nothing more to tell, and must not be waited for.
                if !isRead { continuation.resume(returning: nil) }
            }
            if let answer { answers.append(answer) }
        }
        return answers
    }

    /// The process's figures, with what is known of the issuers' keys brought up to date.
    func process(_ statuses: [KeyStatus], now: WallTime) -> ProcessMetrics {
        state.withLock { state in
            for status in statuses {
                let before = state.counted[status.name] ?? KeyStatus(name: status.name)
                let failures = Int(clamping: status.failures &- before.failures)
                let fetches = Int(clamping: status.fetches &- before.fetches)
                for _ in 0..<max(0, min(failures, 1_000)) {
                    state.process.keySetFetched(issuer: status.name, .unreachable, keys: status.keyCount, at: now)
                }
                for _ in 0..<max(0, min(fetches - failures, 1_000)) {
                    state.process.keySetFetched(
                        issuer: status.name, .ok, keys: status.keyCount, at: status.confirmedAt ?? now)
                }
                state.counted[status.name] = status
            }
            return state.process
        }
    }

    func readiness(_ statuses: [KeyStatus]) -> Readiness {
        var readiness = Readiness()
        let (isDraining, unhealthy, redis, configuration, accountsProblem, bus) = state.withLock {
            ($0.isDraining, $0.unhealthy, $0.redis, $0.configuration, $0.accountsProblem, ($0.process.bus.carrier, $0.busProblem))
        }
        readiness.add("serving", isDraining ? .unready : .ready, isDraining ? "draining" : nil)
        if configuration.redis != nil { readiness.add(redis, of: mailboxes.count, configuration.rateLimitFailure) }
        if configuration.hasAccounts {
            readiness.add("accounts", accountsProblem == nil ? .ready : .degraded, accountsProblem)
        }
        if let carrier = bus.0 {
            let consequence = "changes by other gateways are looked for in the database, and count within a second"
            readiness.add("bus", bus.1 == nil ? .ready : .degraded, bus.1.map { "\(carrier): \($0); \(consequence)" })
        }
        for status in statuses {
            if status.keyCount == 0 {
                readiness.add("keys of \(status.name)", .degraded, status.problem ?? "no key was ever had")
            } else {
                readiness.add("keys of \(status.name)", status.problem == nil ? .ready : .degraded, status.problem)
            }
        }
        for name in unhealthy.sorted() { readiness.add("upstream \(name)", .degraded, "does not answer its health check") }
        return readiness
    }
}

extension ControlState {
    /// A worker could not be built; the others serve on.
    func workerFailed(_ id: Int, _ fault: any Error) {
        log.error("a worker could not start", ("worker", "\(id)"), ("error", "\(fault)"))
    }
}

extension Readiness {
    /// A gateway without its Redis serves on, worse: to take it out of rotation would take out all of them.
    mutating func add(_ redis: [Int: RedisCondition], of workers: Int, _ mode: LimitFailureMode) {
        guard let troubled = redis.values.first(where: { $0 != .ready }) ?? (redis.count < workers ? .connecting : nil) else {
            return add("redis", .ready)
        }
        let consequence =
            switch mode {
            case .local: "limits are counted in this gateway"
            case .open: "limits let everything pass"
            case .closed: "routes with limits answer 503"
            }
        add("redis", .degraded, "\(troubled); \(consequence)")
    }
}
