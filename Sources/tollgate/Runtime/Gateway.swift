internal import Accounts
internal import Admin
internal import Cluster
internal import Credentials
internal import Gate
internal import Issuers
internal import Limits
internal import Mail
internal import Proxy
internal import Settings
internal import Synchronization
internal import System
internal import Telemetry
internal import Threads
internal import Transport
internal import Wire

/// The running gateway: workers, keys, names and certificates, assembled from a configuration. Belongs to the main thread.
struct Gateway {
    private let workers: WorkerBroadcast
    private let active: ActiveConfiguration
    private let health: ConditionLog
    private let log: ServerLog
    private let accessLog: LineSink?
    private let keySets: KeySetRefresher
    private let resolver: UpstreamResolver
    private let redisDiscovery: RedisDiscovery?
    private let courier: DeliveryCourier
    private let accounts: AccountsRuntime
    private let outsideRefreshes: ExternalRefresher
    private let spans: SpanExporter
    private let threads: WorkerThreads
    private let watch: WorkerWatch
    private let certificates: Certificates
    private let orders: AcmeOrders?
    /// nil without a store.
    private let switchCopy: SwitchCopy?
    private var unlabelledDrops: UnlabelledDrops
    private var nextLook: MonotonicTime
    /// When the counts of apps are taken next.
    private var nextCensus: MonotonicTime
    /// While the store is away the days of deprecations are not tried each second.
    private let deprecationInterval = LogInterval(milliseconds: 10_000)
    private let addresses: [(address: SocketAddress, kind: ListenerKind)]
    private let listeners: [ListenerGroup]

    /// Binds what was not inherited, reads keys and starts every thread. Throws an error whose description tells the operator what is
    /// wrong.
    init(
        _ configuration: GatewayConfiguration, log: ServerLog, environment: [(name: String, value: String)],
        inheriting inherited: InheritedListeners = InheritedListeners()
    ) throws {
        let settings = configuration.settings
        let moment = EventLoop.now()
        let count = settings.workers ?? coreCount
        self.log = log
        unlabelledDrops = UnlabelledDrops(now: moment.monotonic)
        nextLook = moment.monotonic.advanced(milliseconds: 1_000)
        nextCensus = moment.monotonic.advanced(milliseconds: AppBoard.milliseconds)
        certificates = try Certificates(configuration, at: moment)
        let sockets = try ListenerSockets(configuration, workers: count, tls: certificates.context, inheriting: inherited)
        addresses = sockets.addresses
        listeners = sockets.groups
        let keys = try KeySetRefresher.load(IssuersPlan(configuration), at: moment)
        var labels = MetricLabels(WorkerTelemetry.words)
        labels.declare(configuration)
        let wakers = try (0..<count).map { _ in try Waker() }
        let watch = WorkerWatch(wakers)
        self.watch = watch
        let workers = WorkerBroadcast(mailboxes: wakers.map { Mailbox<WorkerMessage>(waker: $0) })
        self.workers = workers
        let health = ConditionLog(BuildInfo(version: Version.text, commit: "", swift: "6.3"), workers: count, log: log)
        self.health = health
        let limits = LoadLimits(settings, workers: count, descriptors: DescriptorLimit.raise())
        health.limits(limits)
        if limits.isShortOfDescriptors, settings.origins[Setting.plain(\.maxConnections).name] != nil {
            log.warning(
                "few descriptors, so fewer client connections than TOLLGATE_MAX_CONNECTIONS allows",
                ("connections", "\(limits.connections)"), ("detail", "raise the hard limit (ulimit -Hn, or LimitNOFILE= of systemd)"))
        }
        let limiter = SharedLimiter(hash: SharingPlan.hash(configuration))
        let active = ActiveConfiguration(
            configuration, keys: keys, networks: try NetworkLists(settings), labels: labels, adminToken: try AdminToken.open(settings),
            limitHash: limiter.hash,
            workers: workers, log: log, now: moment.wall)
        self.active = active
        accessLog = settings.accessLog == .off ? nil : try LineSink(descriptor: 1)
        resolver = try UpstreamResolver(settings.upstreams, every: settings.dnsRefreshMilliseconds, log: log) { upstream, addresses in
            let texts = addresses.map(\.address.description).joined(separator: " ")
            log.info("addresses changed", ("upstream", upstream), ("addresses", texts))
            health.addresses(of: upstream, are: addresses)
            workers.post(.resolved(upstream: upstream, addresses))
        }
        keySets = try KeySetRefresher(
            IssuersPlan(configuration), own: keys.ownRing, onChange: { active.keysChanged($0, now: EventLoop.now().wall) },
            onEvent: { log.write($0) }, onClock: { health.sawClock(ConditionLog.clock(keySet: $0), date: $1, now: $2) })
        redisDiscovery = try configuration.redis.map { try RedisDiscovery($0, health: health) }
        redisDiscovery?.follow { workers.post(.redisMoved($0)) }
        redisDiscovery?.cluster?.follow { workers.post(.redisMapped($0)) }
        let outbox = Outbox(dataDirectory: settings.dataDirectory)
        courier = try DeliveryCourier(configuration.mail, outbox: outbox) { log.write($0) }
        log.writeOutboxChannels(of: configuration.mail)
        outsideRefreshes = ExternalRefresher(configuration, active: active, workers: workers, log: log)
        let assembly = try AccountsAssembly(
            configuration, active: active, health: health, workers: workers, keySets: keySets, limiter: limiter,
            courier: courier, redisDiscovery: redisDiscovery, outsideRefreshes: outsideRefreshes)
        let accounts = try AccountsRuntime(assembly, configuration, apps: AppBoard(workers))
        self.accounts = accounts
        for kind in RouteSwitches.kinds {
            accounts.switches.follow(kind) { switches, _ in
                active.switched(now: EventLoop.now().wall) { $0.adopt(switches, of: kind) }
            }
        }
        certificates.follow { workers.post(.adoptCertificates($0)) }
        orders = try AcmeOrders(
            configuration, active: active, accounts: accounts, certificates: certificates, workers: workers, health: health,
            variables: environment)
        switchCopy = settings.usesStore ? SwitchCopy(dataDirectory: settings.dataDirectory) : nil
        switchCopy?.follow(accounts.switches)
        let purges = CachePurges(workers)
        accounts.switches.follow(CachePurges.kind) { purges.follow($0, isAnew: $1) }
        try accounts.start(configuration)
        spans = try SpanExporter(settings.tracing, workers: count, log: log)
        threads = WorkerThreads()
        let upstreams = resolver.snapshots()
        health.adopt(configuration, upstreams)
        let plan = WorkerPlan(
            configuration: configuration, policy: try active.policy(now: moment.wall), upstreams: upstreams,
            labels: labels, limiter: limiter,
            sharing: try SharingPlan(configuration, workers: count, addresses: redisDiscovery?.addresses), sink: accessLog,
            workers: workers, active: active, health: health, redisDiscovery: redisDiscovery, keySets: keySets, accounts: accounts,
            adminAPI: assembly.adminAPI(
                workers, keySets: keySets, limiter: limiter, spans: spans, accounts: accounts, orders: orders,
                startedAt: moment.wall),
            refreshes: TokenRefreshes(own: { await accounts.refresh($0) }, outside: outsideRefreshes),
            expiries: SessionExpiries { await accounts.newestExpiry(of: $0) }, spans: spans, watch: watch)
        try resolver.start()
        // Last, as nothing may fail once connections are accepted.
        try threads.start(plan, wakers: wakers, listeners: sockets.ofWorker)
        health.configurationLoaded(succeeded: true, now: moment.wall)
        health.certificatesAdopted(certificates.expiries)
        orders?.start()
    }

    /// Serves until SIGTERM or SIGINT, or until another process has taken over (SIGUSR2), then drains within the configured time.
    /// `command` is the command line of this process.
    mutating func serve(_ loader: ConfigurationLoader, command: [String], notifying socket: String?) {
        for (address, kind) in addresses {
            log.info("listening", ("address", address.description), ("protocol", kind.rawValue))
        }
        RunningRecord.write(active.configuration.settings)
        notifySystemd(.ready, socket: socket)
        var succession = Succession(
            command: command, environment: loader.environment, listeners: listeners, log: log, notifying: socket)
        while true {
            switch Signals.next(Self.signals, milliseconds: succession.isUnderWay ? 50 : 1_000) {
            case .hangup: if !succession.postponesReload() { reload(loader, socket) }
            case .terminate, .interrupt:
                succession.abandon()
                return drain(socket)
            case .user2: succession.begin(at: EventLoop.now().monotonic)
            case nil, .child, .user1: break
            }
            switch succession.advance(at: EventLoop.now().monotonic) {
            case .nothing: break
            case .reload: reload(loader, socket)
            case .handedOver(let successor): return drain(to: successor, nil)
            }
            lookIfDue(socket)
        }
    }

    static let signals: [ProcessSignal] = [.hangup, .terminate, .interrupt, .user2]

    /// Runs once a second.
    private mutating func lookIfDue(_ socket: String?) {
        let moment = EventLoop.now()
        guard moment.monotonic >= nextLook else { return }
        nextLook = moment.monotonic.advanced(milliseconds: 1_000)
        if watch.mayPing(at: moment.monotonic, log) { notifySystemd(.alive, socket: socket) }
        health.lookForCalm(at: moment.monotonic)
        active.releaseFormerPolicies()
        do {
            try certificates.rotate(now: moment)
        } catch {
            log.error("session tickets keep their key", ("error", "\(error)"))
        }
        let looked = certificates.lookAgain(now: moment.wall)
        for fault in looked.faults { log.error("certificates not adopted", ("error", fault)) }
        if looked.isNew {
            log.info("certificates changed")
            health.adopt(certificates, log)
        }
        let listFaults = certificates.faults(now: moment.wall) { log.error("client certificates are refused", ("error", $0)) }
        health.files(.clientAuthority, haveFaults: listFaults)
        health.files(.upstreamCertificates, haveFaults: resolver.lookAtCertificates())
        health.files(.networks, haveFaults: active.lookAtNetworks(now: moment.wall))
        lookForUnlabelled(moment.monotonic)
        guardSplits()
        let undated = active.undatedSunsets()
        if !undated.isEmpty, deprecationInterval.begins(at: moment.monotonic) { accounts.noteDeprecations(of: undated, log) }
        switchCopy?.write()
        countApps(moment)
    }

    /// Takes the share of a split back to 0 at all gateways if its requests fail more often than the others. A share that was set meanwhile
    /// stays: it was not judged yet.
    private func guardSplits() {
        let (accounts, health, log, now) = (accounts, health, log, EventLoop.now().wall)
        for (route, counts) in active.currentPolicy.failingSplits() {
            let name = SplitShare.name(of: route)
            let version = accounts.switches.current(name, at: now)?.version ?? 0
            // Nothing waits for it: the end is logged.
            Task {
                do throws(AccountFailure) {
                    let share = SplitShare(percent: 0, isGuards: true)
                    guard try await accounts.set(name, to: share.text, after: version) != .superseded else { return }
                    health.splitGuarded(route, counts)
                } catch {
                    log.error("a split fails too often and its share cannot be set", ("route", route), ("error", "\(error)"))
                }
            }
        }
    }

    /// Once a minute: adds the counts of apps to the store's.
    private mutating func countApps(_ moment: Moment) {
        guard moment.monotonic >= nextCensus, !active.configuration.settings.versionGates.isEmpty else { return }
        nextCensus = moment.monotonic.advanced(milliseconds: AppBoard.milliseconds)
        let accounts = accounts
        // Nothing waits for it: counts that cannot be stored are stored with the next ones.
        Task { await accounts.collectApps(at: moment.wall) }
    }

    /// Once a minute: logs routes whose filter removed elements only for want of a label.
    private mutating func lookForUnlabelled(_ now: MonotonicTime) {
        guard unlabelledDrops.isDue(now) else { return }
        let (workers, routes) = (workers, active.configuration.settings.routes)
        // A report copies all metrics of a worker.
        guard routes.contains(where: { !$0.rule.filters.isEmpty }) else { return }
        // Without an answer it is asked again a second later.
        guard let reports = try? blocking(atMost: 1_000, { await workers.reports() }) else { return }
        let rules = routes.map(\.rule)
        for notice in unlabelledDrops.notices(MetricsSnapshot.filteredItems(reports), rules, now: now) { log.write(notice) }
    }

    // MARK: reload

    /// A configuration with a fault changes nothing. Settings that only a restart changes keep their value, and are logged.
    private func reload(_ loader: ConfigurationLoader, _ socket: String?) {
        let moment = EventLoop.now()
        notifySystemd(.reloading(moment.monotonic), socket: socket)
        do {
            let ignored = try adopt(loader.load(now: moment.wall), at: moment)
            health.configurationLoaded(succeeded: true, now: moment.wall)
            let workers = workers
            // Requests that come after the line below, or after the notice to systemd, are all decided by the new configuration.
            let confirmation: Void? = try? blocking(atMost: 5_000) { await workers.confirmed() }
            if confirmation == nil { log.warning("a worker is slow to take the configuration over") }
            for name in ignored.fixed { log.warning("a changed setting needs a restart", ("setting", name)) }
            for name in ignored.overridden {
                let detail = "the process environment sets it and wins; set it in the env file alone and restart"
                log.warning("a changed setting has no effect", ("setting", name), ("detail", detail))
            }
            let ineffective =
                ignored.fixed.map { "\($0): a change needs a restart" } + ignored.overridden.map { "\($0): the process environment wins" }
            active.loads.adopted(at: moment.wall, warnings: ineffective)
            log.info("configuration adopted")
        } catch {
            health.configurationLoaded(succeeded: false, now: moment.wall)
            active.loads.refused(at: moment.wall, error.lines)
            for line in error.lines { log.error("configuration refused", ("error", line)) }
        }
        notifySystemd(.ready, socket: socket)
    }

    /// Returns the changed settings that were not adopted: those that need a restart, and those that the process
    /// environment overrides.
    private func adopt(
        _ loaded: LoadedConfiguration, at moment: Moment
    ) throws(Refused) -> (fixed: [String], overridden: [String]) {
        guard var configuration = loaded.configuration else { throw Refused(loaded.findings.faults.map(\.text)) }
        let running = active.configuration
        let ignored = (configuration.keepUnchangeable(of: running), configuration.settings.keepOverridden(of: running.settings))
        do {
            let next = NextConfiguration(configuration: configuration, moment: moment)
            let publication = try active.prepare(next)
            let commits = try parts.prepare(next)
            // Last, as it may make a token, which is told once.
            let token = try AdminToken.open(configuration.settings)
            for commit in commits { commit.apply() }
            let upstreams = resolver.snapshots()
            health.adopt(configuration, upstreams)
            active.publish(publication, token, upstreams, fetchingBy: keySets)
            for commit in commits { commit.published() }
            return ignored
        } catch {
            throw Refused(["\(error)"])
        }
    }

    private var parts: [any Part] { [resolver, certificatePart, accounts, courierPart, processPart] }

    private var certificatePart: CertificatePart {
        CertificatePart(certificates: certificates, orders: orders, health: health, log: log)
    }

    private var courierPart: PlainPart {
        PlainPart { [courier, log] next in
            Commit {
                courier.adopt(next.configuration.mail)
                log.writeOutboxChannels(of: next.configuration.mail)
            }
        }
    }

    private var processPart: PlainPart {
        PlainPart { [health, workers, log, spans] next in
            let settings = next.configuration.settings
            return Commit {
                health.limits(LoadLimits(settings, workers: workers.mailboxes.count, descriptors: DescriptorLimit.raise()))
            } published: {
                log.adopt(settings)
                RunningRecord.write(settings)
                spans.adopt(settings.tracing)
            }
        }
    }

    /// Why a configuration was refused, one sentence a line.
    private struct Refused: Error {
        let lines: [String]
        init(_ lines: [String]) { self.lines = lines }
    }

    // MARK: end

    /// Later counts are lost.
    private func countAppsOnceMore() {
        guard !active.configuration.settings.versionGates.isEmpty else { return }
        let (accounts, now) = (accounts, EventLoop.now().wall)
        // Past the limit they are lost, too: the drain must begin.
        _ = try? blocking(atMost: 1_000) { await accounts.collectApps(at: now) }
    }

    /// `successor`: the process that has the listeners now.
    private func drain(to successor: ChildProcess? = nil, _ socket: String?) {
        let handsOver = successor != nil
        var isSucceeded = handsOver
        notifySystemd(.stopping, socket: socket)
        let limit = active.configuration.settings.drainTimeoutMilliseconds
        log.info("draining", ("within_ms", "\(limit)"))
        // The next process orders from now on, by its own settings.
        orders?.stop()
        if !handsOver { health.drainBegan() }
        countAppsOnceMore()
        workers.post(.drain(within: UInt64(limit), handsOver: handsOver))
        // The second signal ends it at once. The first may be on its way to all processes of the service.
        var isAsked = !handsOver
        while !threads.haveEnded {
            if threads.atMostOneRuns { workers.first.post(.othersEnded) }
            if isSucceeded, let successor, successor.hasEnded {
                // Nothing listens any more: the service manager restarts the service once this process has ended, too.
                isSucceeded = false
                log.error("the new process has ended", ("pid", "\(successor.pid)"))
                workers.post(.drain(within: 0))
            }
            switch Signals.next(Self.signals, milliseconds: 50) {
            case .terminate where isAsked, .interrupt where isAsked: workers.post(.drain(within: 0))
            case .terminate, .interrupt: isAsked = true
            // It came while the listeners were handed over: the new process may have read the configuration before.
            case .hangup: if isSucceeded { successor?.signal(.hangup) }
            case nil, .child, .user1, .user2: break
            }
        }
        threads.join()
        spans.stop()
        outsideRefreshes.stop()
        accounts.stop { courier.stop() }
        resolver.stop()
        redisDiscovery?.stop()
        keySets.stop()
        accessLog?.close()
        log.info("ended")
        log.close()
    }
}
