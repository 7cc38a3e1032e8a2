internal import Admin
internal import Contracts
internal import Credentials
internal import Gate
internal import HTTP
internal import Issuers
internal import Proxy
internal import Settings
internal import Synchronization
internal import Telemetry
internal import Transport
internal import Wire

/// What every worker is built from.
struct WorkerPlan: Sendable {
    let configuration: GatewayConfiguration
    let policy: Policy
    let upstreams: [UpstreamSnapshot]
    let labels: MetricLabels
    let limiter: SharedLimiter
    /// nil where this process counts alone.
    let sharing: SharingPlan?
    let sink: LineSink?
    let control: ControlState
    let feed: KeySetRefresher
    let accounts: AccountHost
    let refreshes: TokenRefreshes

    /// The closures through which worker `id` reaches the rest of the process.
    func services(_ id: Int) -> WorkerServices {
        let (control, feed, accounts, refreshes, limiter) = (control, feed, accounts, refreshes, limiter)
        let admin = AdminEndpoints(
            reports: { await control.reports() },
            process: {
                var process = control.process(feed.statuses, now: EventLoop.now().wall)
                process.limitEvictions = limiter.evictions
                return process
            },
            readiness: { control.readiness(feed.statuses) }, now: { EventLoop.now().wall },
            hosts: { AdminHosts(control.configuration.adminHosts) }, api: accounts.adminAPI)
        return WorkerServices(
            admin: { await admin.answer($0) }, local: Self.endpoints(control, accounts),
            unknownKey: { if let name = control.trustName($0) { feed.sawUnknownKey(of: name) } },
            lookUpUser: { accounts.lookUp($0) }, refresh: { refreshes.refresh($0, $1) }, sawToken: { accounts.saw($0) },
            healthChanged: { control.healthChanged($0, $1, $2) },
            sawClock: { control.sawClock(.upstream($0), date: $1, now: $2) },
            shortage: { control.shortage($0, at: EventLoop.now().monotonic) },
            makeRoom: { control.makeRoom(for: id, upstream: $0, connections: $1) },
            answerNotJSON: { control.answersNotJSON(route: $0, count: $1, isShadow: $2) },
            redisChanged: { control.redisChanged(worker: $0, $1) }, probes: id == 0,
            outlastsOthers: id == 0 && control.mailboxes.count > 1)
    }

    /// The handlers of `LocalEndpoint` and of the catalogue's endpoints, each at its number.
    private static func endpoints(_ control: ControlState, _ accounts: AccountHost) -> [LocalHandler] {
        let missing: LocalHandler = { _ in .plain(404, "not found\n") }
        let count = Int(Catalogue.firstNumber) + Catalogue.endpoints.count
        var handlers = [LocalHandler](repeating: missing, count: count)
        for endpoint in Catalogue.endpoints {
            handlers[Int(endpoint.number)] = { await accounts.answer(endpoint.number, $0) }
        }
        for endpoint in LocalEndpoint.allCases {
            switch endpoint {
            case .ownKeys:
                handlers[Int(endpoint.rawValue)] = { _ in
                    LocalResponse(
                        status: 200, contentType: "application/jwk-set+json", body: control.publicKeys(now: EventLoop.now().wall))
                }
            }
        }
        return handlers
    }
}

/// The threads that workers run on.
final class WorkerThreads: Sendable {
    private let threads = Mutex<[WorkerThread]>([])
    private let running = Atomic<Int>(0)

    var atMostOneRuns: Bool { running.load(ordering: .acquiring) <= 1 }
    var haveEnded: Bool { running.load(ordering: .acquiring) == 0 }

    /// Starts one worker; it is built on the thread that runs it.
    func start(_ plan: WorkerPlan, id: Int, waker: Waker, listeners: [Listener]) throws {
        let seeds = SecureRandom.bytes(8)
        let seed = seeds.reduce(0) { $0 << 8 | UInt64($1) }
        running.wrappingAdd(1, ordering: .relaxed)
        let thread = try WorkerThread(name: "worker-\(id)") { [self] in
            Self.run(plan, id: id, waker: waker, listeners: listeners, seed: seed)
            running.wrappingSubtract(1, ordering: .releasing)
        }
        threads.withLock { $0.append(thread) }
    }

    func join() {
        for thread in threads.withLock({ $0 }) { thread.join() }
    }

    private static func run(_ plan: WorkerPlan, id: Int, waker: Waker, listeners: [Listener], seed: UInt64) {
        let configuration = plan.configuration
        do {
            let shared = plan.sharing?.counting(
                worker: id, limiter: plan.limiter, seed: seed ^ 1, now: EventLoop.now().monotonic)
            var worker = try Worker(
                id: id, settings: WorkerSettings(configuration, workers: plan.control.mailboxes.count),
                loop: EventLoop(waker: waker), mailbox: plan.control.mailboxes[id], services: plan.services(id),
                listeners: listeners, upstreams: plan.upstreams,
                admission: Admission(
                    policy: plan.policy, limiter: plan.limiter, cacheCapacity: configuration.tokenCacheEntries),
                shared: shared,
                telemetry: WorkerTelemetry(
                    labels: plan.labels, sink: plan.sink, format: configuration.accessLog == .text ? .text : .json,
                    seed: seed))
            worker.run()
        } catch {
            plan.control.workerFailed(id, error)
        }
    }
}
