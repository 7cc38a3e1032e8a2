internal import Admin
internal import CLinux
internal import Cluster
internal import Contracts
internal import Credentials
internal import Gate
internal import HTTP
internal import Issuers
internal import Limits
internal import Proxy
internal import Redis
internal import Settings
internal import Synchronization
internal import Telemetry
internal import Threads
internal import Transport
internal import Wire

/// Everything that a worker is built from.
struct WorkerPlan: Sendable {
    let configuration: GatewayConfiguration
    let policy: Policy
    let upstreams: [UpstreamSnapshot]
    let labels: MetricLabels
    let limiter: SharedLimiter
    /// nil where this process counts limits alone.
    let sharing: SharingPlan?
    /// nil where no access log is written.
    let sink: LineSink?
    let workers: WorkerBroadcast
    let active: ActiveConfiguration
    let health: ConditionLog
    /// nil where this process counts limits alone.
    let redisDiscovery: RedisDiscovery?
    let keySets: KeySetRefresher
    let accounts: AccountsRuntime
    let adminAPI: AdminAPI
    let refreshes: TokenRefreshes
    let expiries: SessionExpiries
    let spans: SpanExporter
    let watch: WorkerWatch
    let bounds = LoadBounds()

    /// The closures through which worker `id` reaches the control plane.
    func services(_ id: Int) -> WorkerServices {
        let (workers, active, health, keySets, accounts) = (workers, active, health, keySets, accounts)
        let (refreshes, expiries, redisDiscovery, watch) = (refreshes, expiries, redisDiscovery, watch)
        let admin = AdminEndpoints(
            adminAPI, hosts: { AdminHosts(active.configuration.settings) }, problem: { watch.problem(at: EventLoop.now().monotonic) })
        let ofAccounts = Catalogue.endpoints.map { Int($0.number) } + [LocalEndpoint.token, .revocation].map { Int($0.rawValue) }
        let executor: LocalExecutor = { accounts.executor(for: $0) }
        // A worker that judges reports to none.
        let reportSighting: (@Sendable (String, UpstreamAddress, AddressReport) -> Void)? =
            id == 0 ? nil : { @Sendable in _ = workers.first.post(.sighted(upstream: $0, $1, $2)) }
        return WorkerServices(
            admin: { await admin.answer($0) }, local: Self.endpoints(active, accounts, admin), localKinds: Self.kinds,
            localExecutors: Dictionary(uniqueKeysWithValues: ofAccounts.map { ($0, executor) }),
            unknownKey: { if let name = active.issuerName($0) { keySets.sawUnknownKey(of: name) } },
            catchUp: { accounts.catchUp($0, $1) },
            lookUpUser: { accounts.cluster.tiers.lookUp($0) },
            lookUpSubject: { accounts.cluster.subjects.lookUp($0) },
            sessionExpiry: { expiries.ask($0, $1) },
            refresh: { refreshes.refresh($0, $1) },
            sawToken: { delivery in
                accounts.confirmations.saw(delivery)
                accounts.uses.saw(delivery)
            }, sawKey: { accounts.keyUses.saw($0) }, mergeDone: { accounts.merges.confirm($0, $1) },
            healthChanged: { upstream, address, isHealthy in
                health.upstreamChanged(upstream, address, isHealthy: isHealthy)
                workers.post(.learned(upstream: upstream, address, healthy: isHealthy))
            },
            reportSighting: reportSighting,
            addressChanged: { upstream, address, change in
                if case .left(let absence, _) = change { workers.postVerdict(upstream, address, absence) }
                health.upstreamChanged(upstream, address, change, at: EventLoop.now())
            },
            panicChanged: { health.panicChanged($0, begins: $1, available: $2, of: $3) },
            sawClock: { health.sawClock(ConditionLog.clock(upstream: $0), date: $1, now: $2) },
            choseHTTP1: { health.choseHTTP1($0, $1) },
            shortage: { health.shortage($0, at: EventLoop.now().monotonic) },
            shed: { health.shed($0, at: EventLoop.now().monotonic) },
            bounds: bounds, pulse: watch.pulses[id],
            makeRoom: { workers.makeRoom(for: id, upstream: $0, connections: $1) }, peers: workers.mailboxes,
            answerNotJSON: { health.log.writeNotJSON(route: $0, answers: $1, isShadow: $2) },
            answerUnlabelled: { health.log.writeUnlabelled(route: $0, path: $1, answers: $2) },
            redisChanged: { worker, change in
                health.redisChanged(worker: worker, change)
                if let condition = change.condition { redisDiscovery?.connectionChanged(condition) }
            },
            redisMapWanted: { redisDiscovery?.cluster?.refresh() },
            probes: id == 0, outlastsOthers: id == 0 && workers.mailboxes.count > 1)
    }

    /// The handlers of `LocalEndpoint` and of the catalogue's endpoints, each at its number.
    private static func endpoints(
        _ active: ActiveConfiguration, _ accounts: AccountsRuntime, _ admin: AdminEndpoints
    ) -> [LocalHandler] {
        let missing: LocalHandler = { _ in .plain(404, "not found\n") }
        let count = Int(Catalogue.firstNumber) + Catalogue.endpoints.count
        var handlers = [LocalHandler](repeating: missing, count: count)
        for endpoint in Catalogue.endpoints {
            handlers[Int(endpoint.number)] = { await accounts.answer(endpoint, $0) }
        }
        for endpoint in LocalEndpoint.allCases { handlers[Int(endpoint.rawValue)] = handler(endpoint, active, accounts, admin) }
        return handlers
    }

    /// The kinds of both.
    private static let kinds: [Int: LocalKind] = {
        var kinds: [Int: LocalKind] = [:]
        for endpoint in Catalogue.endpoints where endpoint.isRefresh { kinds[Int(endpoint.number)] = .refresh }
        for endpoint in LocalEndpoint.allCases where endpoint.isDocument { kinds[Int(endpoint.rawValue)] = .documents }
        kinds[Int(LocalEndpoint.token.rawValue)] = .refresh
        return kinds
    }()

    private static func handler(
        _ endpoint: LocalEndpoint, _ active: ActiveConfiguration, _ accounts: AccountsRuntime, _ admin: AdminEndpoints
    ) -> LocalHandler {
        switch endpoint {
        case .ownKeys:
            { _ in
                LocalResponse(
                    status: 200, contentType: "application/jwk-set+json", body: active.publicKeys(now: EventLoop.now().wall),
                    fields: [ServerMetadata.caching])
            }
        case .openIDConfiguration: { _ in active.metadata(isOpenID: true) }
        case .serverMetadata: { _ in active.metadata(isOpenID: false) }
        case .resourceMetadata: { active.resourceMetadata(at: $0.path) }
        case .iosApps: { _ in AppFiles.apple(active.configuration.settings) }
        case .androidApps: { _ in AppFiles.google(active.configuration.settings) }
        case .token: { await accounts.token($0) }
        case .revocation: { await accounts.revoke($0) }
        case .introspection: { await accounts.introspect($0) }
        case .console, .adminAPI, .admin: { await admin.answerOnMain($0) }
        }
    }
}

extension ServerLog {
    /// Responses of a filtered route had a body that is not JSON.
    fileprivate func writeNotJSON(route: String, answers: Int, isShadow: Bool) {
        let detail = "filter= lets JSON alone pass; filter-strict=off on the route lets other types pass unfiltered"
        warning(
            isShadow ? "an answer that is not JSON would be refused" : "an answer that is not JSON was refused",
            ("route", route), ("answers", "\(answers)"), ("detail", detail))
    }

    /// Answers of a filtered route passed without a single label.
    fileprivate func writeUnlabelled(route: String, path: String, answers: Int) {
        let detail =
            "every caller gets such answers whole: let the upstream label its objects, name its field in filter=, or write filter-unlabelled=TIER on the route"
        warning(
            "no element of a filtered answer had a label", ("route", route), ("path", path), ("answers", "\(answers)"),
            ("detail", detail))
    }
}

extension AdminHosts {
    /// With the console on the main listeners, also the host under which those are reached.
    fileprivate init(_ settings: Configuration) {
        var names = settings.adminHosts
        if settings.hasConsoleOnMain, let name = Self.host(ofURL: settings.publicURL) { names.append(name) }
        self.init(names)
    }
}

/// The threads that workers run on.
final class WorkerThreads: Sendable {
    private let threads = Mutex<[WorkerThread]>([])
    private let running = Atomic<Int>(0)
    /// Locked while workers are being built.
    private let mayServe = Mutex(false)

    var atMostOneRuns: Bool { running.load(ordering: .acquiring) <= 1 }
    var haveEnded: Bool { running.load(ordering: .acquiring) == 0 }

    /// Starts the workers, each with its waker and listeners. None serves before all of them are built: if one cannot be, the start fails.
    func start(_ plan: WorkerPlan, wakers: [Waker], listeners: [[Listener]]) throws {
        try mayServe.withLock { mayServe in
            for (id, waker) in wakers.enumerated() { try start(plan, id: id, waker: waker, listeners: listeners[id]) }
            mayServe = true
        }
    }

    /// Starts one worker, and waits until it is built, on the thread that will run it.
    private func start(_ plan: WorkerPlan, id: Int, waker: Waker, listeners: [Listener]) throws {
        let seed = SecureRandom.bytes(8).reduce(0) { $0 << 8 | UInt64($1) }
        let built = WorkerStart(waker: try Waker())
        running.wrappingAdd(1, ordering: .relaxed)
        let thread = try WorkerThread(name: "worker-\(id)") { [self] in
            // The shortest that the kernel gives, so that a worker which wakes preempts the control plane's threads on its core.
            clinux_set_turn(100_000)
            run(plan, id: id, waker: waker, listeners: listeners, seed: seed, built)
            running.wrappingSubtract(1, ordering: .releasing)
        }
        threads.withLock { $0.append(thread) }
        built.waker.wait()
        if let fault = built.fault.withLock({ $0 }) { throw fault }
    }

    func join() {
        for thread in threads.withLock({ $0 }) { thread.join() }
    }

    private func run(_ plan: WorkerPlan, id: Int, waker: Waker, listeners: [Listener], seed: UInt64, _ start: WorkerStart) {
        let (configuration, mailboxes) = (plan.configuration, plan.workers.mailboxes)
        do {
            let shared = plan.sharing?.counting(
                worker: id, limiter: plan.limiter, seed: seed ^ 1, now: EventLoop.now().monotonic)
            var worker = try Worker(
                id: id, settings: WorkerSettings(configuration, workers: mailboxes.count),
                loop: EventLoop(waker: waker), mailbox: mailboxes[id], services: plan.services(id),
                listeners: listeners, upstreams: plan.upstreams,
                admission: Admission(
                    policy: plan.policy, limiter: plan.limiter, cacheCapacity: configuration.settings.tokenCacheEntries),
                limits: LimitCounter(plan.limiter, shared: shared),
                telemetry: WorkerTelemetry(
                    labels: plan.labels, sink: plan.sink, format: configuration.settings.accessLog == .text ? .text : .json,
                    seed: seed, spans: plan.spans.handovers[id]))
            start.waker.wake()
            if mayServe.withLock({ $0 }) { worker.run() }
        } catch {
            start.fault.withLock { $0 = error }
            start.waker.wake()
        }
    }
}

/// How the start of a worker ended: its thread wakes `waker` when the worker is built, or has failed.
private final class WorkerStart: Sendable {
    let waker: Waker
    let fault = Mutex<(any Error)?>(nil)

    init(waker: Waker) { self.waker = waker }
}
