internal import Admin
internal import Credentials
internal import Gate
internal import Issuers
internal import Mail
internal import Proxy
internal import Settings
internal import Synchronization
internal import Telemetry
internal import Transport
internal import Wire

/// The running gateway: workers, keys, names and certificates, assembled from a configuration. Belongs to the main thread.
struct Gateway {
    private let control: ControlState
    private let log: ServerLog
    private let accessLog: LineSink?
    private let feed: KeySetRefresher
    private let resolver: UpstreamResolver
    private let redisResolver: RedisResolver?
    private let courier: DeliveryCourier
    private let accounts: AccountHost
    private let outsideRefreshes: ExternalRefresher
    private let workers: WorkerThreads
    private var certificates: Certificates
    private let addresses: [(address: SocketAddress, kind: StaticString)]

    /// Binds, reads keys and starts every thread; what cannot be done is thrown as a sentence.
    init(_ configuration: GatewayConfiguration) throws {
        let moment = EventLoop.now()
        let count = configuration.workers ?? coreCount
        log = try ServerLog(configuration.settings)
        certificates = try Certificates(configuration, at: moment)
        let sockets = try ListenerSockets(configuration, workers: count, tls: certificates.context)
        addresses = sockets.addresses
        let keys = try KeySetRefresher.load(IssuersPlan(configuration), at: moment)
        var labels = MetricLabels(WorkerTelemetry.words)
        labels.declare(configuration)
        let wakers = try (0..<count).map { _ in try Waker() }
        let control = ControlState(
            configuration, keys: keys, labels: labels, build: BuildInfo(version: Version.text, commit: "", swift: "6.3"),
            mailboxes: wakers.map { Mailbox<WorkerMessage>(waker: $0) }, log: log)
        self.control = control
        control.adopt(try AdminToken.open(configured: configuration.adminToken, dataDirectory: configuration.dataDirectory))
        accessLog = configuration.accessLog == .off ? nil : try LineSink(descriptor: 1)
        resolver = try UpstreamResolver(configuration.upstreams, log: log) { control.resolved($0, $1) }
        let log = log
        feed = try KeySetRefresher(
            IssuersPlan(configuration), own: keys.ownRing, onChange: { control.keysChanged($0, now: EventLoop.now().wall) },
            onEvent: { log.tell($0) }, onClock: { control.sawClock(.keySet($0), date: $1, now: $2) })
        redisResolver = try configuration.redis.flatMap { try RedisResolver($0, log: log) { control.redisResolved($0) } }
        if let redisResolver { control.redisResolved(redisResolver.addresses) }
        let limiter = SharedLimiter(hash: SharingPlan.hash(configuration))
        courier = try DeliveryCourier(configuration.mail, outbox: Outbox(dataDirectory: configuration.dataDirectory)) { log.write($0) }
        log.writeOutboxChannels(of: configuration.mail)
        accounts = try AccountHost(configuration, control: control, feed: feed, table: limiter, courier: courier)
        try accounts.start(configuration)
        outsideRefreshes = ExternalRefresher(configuration, control: control)
        workers = WorkerThreads()
        let plan = WorkerPlan(
            configuration: configuration, policy: try control.policy(now: moment.wall), upstreams: resolver.snapshots(),
            labels: labels, limiter: limiter,
            sharing: try SharingPlan(configuration, workers: count, addresses: redisResolver?.addresses), sink: accessLog,
            control: control, feed: feed, accounts: accounts,
            refreshes: TokenRefreshes(own: { [accounts] in await accounts.refresh($0) }, outside: outsideRefreshes))
        for (id, waker) in wakers.enumerated() {
            try workers.start(plan, id: id, waker: waker, listeners: sockets.ofWorker[id])
        }
        try resolver.start()
        control.configurationLoaded(succeeded: true, now: moment.wall)
    }

    /// Serves until a signal says to end, and until what was under way has ended or its time is over.
    mutating func serve(_ loader: ConfigurationLoader, notifying socket: String?) {
        for (address, kind) in addresses {
            log.info("listening", ("address", address.description), ("protocol", kind.description))
        }
        notifySystemd(.ready, socket: socket)
        var isServing = true
        while isServing {
            switch Signals.next(Self.signals, milliseconds: 1_000) {
            case nil: look(socket)
            case .hangup: reload(loader, socket)
            case .terminate, .interrupt: isServing = false
            case .child, .user1, .user2: break
            }
        }
        drain(socket)
    }

    static let signals: [ProcessSignal] = [.hangup, .terminate, .interrupt]

    /// What is done once a second.
    private mutating func look(_ socket: String?) {
        notifySystemd(.alive, socket: socket)
        let moment = EventLoop.now()
        do {
            if let context = try certificates.rotated(now: moment.monotonic) { control.adoptCertificates(context) }
        } catch {
            log.error("session tickets keep their key", ("error", "\(error)"))
        }
        switch certificates.changed(now: moment.wall) {
        case .none: break
        case .some(.success(let context)):
            control.adoptCertificates(context)
            log.info("certificates changed")
        case .some(.failure(let fault)):
            log.error("certificates not adopted", ("error", fault.description))
        }
    }

    // MARK: reload

    /// A configuration with a fault changes nothing. What only a restart changes is kept, and named.
    private mutating func reload(_ loader: ConfigurationLoader, _ socket: String?) {
        let moment = EventLoop.now()
        notifySystemd(.reloading(moment.monotonic), socket: socket)
        do {
            let ignored = try adopt(loader.load(now: moment.wall), at: moment)
            control.configurationLoaded(succeeded: true, now: moment.wall)
            let control = control
            // Whoever reads that line, or is told by systemd, may rely on every request from here on: a worker answers behind all
            // that it was told before. What cannot be waited for is told as well.
            let reports = try? blocking(atMost: 5_000) { await control.reports() }
            if reports == nil { log.warning("a worker is slow to take the configuration over") }
            for name in ignored.fixed { log.warning("a changed setting needs a restart", ("setting", name)) }
            for name in ignored.overridden {
                let detail = "the process environment sets it and wins; set it in the env file alone and restart"
                log.warning("a changed setting has no effect", ("setting", name), ("detail", detail))
            }
            log.info("configuration adopted")
        } catch {
            control.configurationLoaded(succeeded: false, now: moment.wall)
            for line in error.lines { log.error("configuration refused", ("error", line)) }
        }
        notifySystemd(.ready, socket: socket)
    }

    /// Answers the changed settings that were not taken: those that need a restart, and those that the process environment
    /// sets.
    private mutating func adopt(
        _ loaded: LoadedConfiguration, at moment: Moment
    ) throws(Refused) -> (fixed: [String], overridden: [String]) {
        guard var configuration = loaded.configuration else { throw Refused(loaded.findings.faults.map(\.text)) }
        let running = control.configuration
        let ignored = (configuration.keepUnchangeable(of: running), configuration.settings.keepOverridden(of: running.settings))
        do {
            var certificates = certificates
            try certificates.adopt(configuration, now: moment.wall)
            let keys = try KeySetRefresher.load(IssuersPlan(configuration), at: moment, earlier: control.keys)
            // Made once to see that it can be.
            _ = try PolicyBuilder.policy(configuration, keys: keys, version: 0, now: moment.wall)
            let contexts = try resolver.contexts(for: configuration.upstreams)
            let token = try AdminToken.open(configured: configuration.adminToken, dataDirectory: configuration.dataDirectory)
            // The last step that may fail; if it does, nothing has changed.
            try accounts.adopt(configuration)
            let upstreams = resolver.adopt(configuration.upstreams, contexts)
            control.adopt(token)
            let generation = feed.nextGeneration()
            courier.adopt(configuration.mail)
            log.writeOutboxChannels(of: configuration.mail)
            try control.adopt(configuration, keys: keys, generation: generation, upstreams, now: moment.wall)
            // Only now, so that its first snapshot of this configuration is not taken for one of another.
            feed.adopt(IssuersPlan(configuration), own: keys.ownRing, generation: generation)
            accounts.adopted()
            if let context = certificates.context { control.adoptCertificates(context) }
            self.certificates = certificates
            log.adopt(configuration.settings)
            return ignored
        } catch {
            throw Refused(["\(error)"])
        }
    }

    /// Why a configuration was not adopted, a sentence a line.
    private struct Refused: Error {
        let lines: [String]
        init(_ lines: [String]) { self.lines = lines }
    }

    // MARK: end

    private func drain(_ socket: String?) {
        notifySystemd(.stopping, socket: socket)
        let limit = control.configuration.drainTimeoutMilliseconds
        log.info("draining", ("within_ms", "\(limit)"))
        control.drain(within: UInt64(limit))
        while !workers.haveEnded {
            if workers.atMostOneRuns { control.othersEnded() }
            // Asked a second time, it ends at once.
            switch Signals.next(Self.signals, milliseconds: 50) {
            case .terminate, .interrupt: control.drain(within: 0)
            case nil, .hangup, .child, .user1, .user2: break
            }
        }
        workers.join()
        outsideRefreshes.stop()
        accounts.stop()
        courier.stop()
        resolver.stop()
        redisResolver?.stop()
        feed.stop()
        accessLog?.close()
        log.info("ended")
        log.close()
    }
}

extension ServerLog {
    func tell(_ event: KeyEvent) {
        let issuer = event.issuer ?? "own"
        switch event.level {
        case .debug, .info: info("keys", ("issuer", issuer), ("detail", event.message))
        case .warning: warning("keys", ("issuer", issuer), ("detail", event.message))
        case .error: error("keys", ("issuer", issuer), ("detail", event.message))
        }
    }
}
