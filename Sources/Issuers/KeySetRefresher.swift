package import Credentials
internal import Fetch
internal import Synchronization
package import System
internal import Telemetry
internal import Threads
package import Wire

/// The thread that refreshes the keys of all issuers: fetches key sets, checks files once a second, and publishes a snapshot
/// whenever a key has changed.
///
/// Start it with the keys from `load`; a reload calls `load`, then `adopt`. All methods may be called on any thread. All
/// callbacks run on the refresher's thread and must not wait for it.
package final class KeySetRefresher: Sendable {
    fileprivate enum Command: Sendable {
        case adopt(IssuersPlan, SigningKeyRing, generation: UInt64)
        case unknownKey(String)
        case own(SigningKeyRing, asOf: MonotonicTime, then: @Sendable () -> Void)
        case stop

        /// Whether it may be dropped when the queue is long.
        var isDroppable: Bool {
            switch self {
            case .unknownKey: true
            case .adopt, .own, .stop: false
            }
        }
    }

    fileprivate struct Shared: Sendable {
        var commands: [Command] = []
        var statuses: [KeyStatus] = []
        var waker: TransferWaker?
        var generation: UInt64 = 0
    }

    private let shared: SharedBox
    private let thread: WorkerThread

    /// The initial keys of a configuration: own keys (generated if there are none), files, secrets, and cached key sets of URLs.
    /// `earlier` are the keys before a reload; those of unchanged URLs are kept. Blocks.
    package static func load(
        _ plan: IssuersPlan, at moment: Moment, earlier: IssuerKeys? = nil
    ) throws(KeyStoreFault) -> IssuerKeys {
        // Shared keys are refreshed while running, so a reload does not wait for the database.
        let held = SharedKeys(plan) == nil ? nil : earlier?.own
        let own = if let held { held } else { try KeyStore.open(plan, now: moment.wall) }
        var keys = KeySources(plan, own: own, earlier: nil, at: moment).snapshot(generation: 0)
        for trust in plan.outside where earlier?.origins[trust.name] == trust.source {
            if case .url = trust.source { keys.outside[trust.name] = earlier?.outside[trust.name] }
        }
        return keys
    }

    /// Starts the thread. `onClock` gets the clock of an issuer's server, from the `Date` of its responses.
    package init(
        _ plan: IssuersPlan, own: SigningKeyRing, onChange: @escaping @Sendable (IssuerKeys) -> Void,
        onEvent: @escaping @Sendable (KeyEvent) -> Void,
        onClock: @escaping @Sendable (_ issuer: String, _ date: WallTime, _ now: WallTime) -> Void = { _, _, _ in }
    ) throws(SystemFault) {
        let shared = SharedBox()
        self.shared = shared
        shared.state.withLock { $0.commands.append(.adopt(plan, own, generation: 0)) }
        thread = try WorkerThread(name: "keys") {
            guard let fetcher = JWKSFetcher() else {
                return onEvent(KeyEvent(.error, nil, "libcurl cannot be used, no key set is fetched"))
            }
            shared.state.withLock { $0.waker = fetcher.waker }
            var run = Run(shared: shared, fetcher: fetcher, onChange: onChange, onEvent: onEvent, onClock: onClock)
            run.loop()
            shared.state.withLock { $0.waker = nil }
        }
    }

    /// The number of the next configuration. From now on ignore snapshots with any other number, and use the keys from `load`
    /// until the first with this number arrives.
    package func nextGeneration() -> UInt64 {
        shared.state.withLock { state in
            state.generation += 1
            return state.generation
        }
    }

    /// Switches to another configuration with its number from `nextGeneration`; `own` are the keys from `load`.
    package func adopt(_ plan: IssuersPlan, own: SigningKeyRing, generation: UInt64) {
        post(.adopt(plan, own, generation: generation))
    }

    /// Replaces the signing keys by those that gateways share, or that were rotated here. `time` is when reading or rotating them began:
    /// the keys of a reading that was overtaken by a later one are ignored. Calls `then` once they are in force, unless it is stopped.
    package func adopt(_ ring: SigningKeyRing, asOf time: MonotonicTime, then: @escaping @Sendable () -> Void = {}) {
        post(.own(ring, asOf: time, then: then))
    }

    /// Reports a token with an unknown `kid` for this trust line; it causes at most one fetch in 10 s.
    package func sawUnknownKey(of issuer: String) { post(.unknownKey(issuer)) }

    /// The state of each outside issuer's keys, in the order of the configuration.
    package var statuses: [KeyStatus] { shared.state.withLock { $0.statuses } }

    /// Ends the thread and waits for it.
    package func stop() {
        post(.stop)
        thread.join()
    }

    private func post(_ command: Command) {
        let waker = shared.state.withLock { state in
            // Bounds the queue: reports of unknown keys come from tokens, which anyone can send.
            if !(state.commands.count > 1024 && command.isDroppable) { state.commands.append(command) }
            return state.waker
        }
        waker?.wake()
    }

    fileprivate final class SharedBox: Sendable {
        let state = Mutex(Shared())
    }

    /// The thread's own state.
    fileprivate struct Run {
        let shared: SharedBox
        let fetcher: JWKSFetcher
        let onChange: @Sendable (IssuerKeys) -> Void
        let onEvent: @Sendable (KeyEvent) -> Void
        let onClock: @Sendable (String, WallTime, WallTime) -> Void
        var sources: KeySources?
        var generation: UInt64 = 0
        /// When reading or rotating the adopted signing keys began.
        var ownTime = MonotonicTime(nanoseconds: 0)
        /// The fetches under way, by number, with trust line and URL: a reload may move or remove the line during a fetch.
        var fetches: [Int: (name: String, url: String)] = [:]
        var lastFetch = 0
        var random = SystemRandomNumberGenerator()
        var nextFileCheck = MonotonicTime(nanoseconds: 0)
        /// Whether a key has changed since the last snapshot.
        var hasChanged = false
        /// To be called after the next snapshot.
        var adopted: [@Sendable () -> Void] = []
    }
}

extension KeySetRefresher.Run {
    fileprivate init(
        shared: KeySetRefresher.SharedBox, fetcher: JWKSFetcher, onChange: @escaping @Sendable (IssuerKeys) -> Void,
        onEvent: @escaping @Sendable (KeyEvent) -> Void, onClock: @escaping @Sendable (String, WallTime, WallTime) -> Void
    ) {
        self.shared = shared
        self.fetcher = fetcher
        self.onChange = onChange
        self.onEvent = onEvent
        self.onClock = onClock
    }

    /// Runs until `stop`.
    fileprivate mutating func loop() {
        while true {
            let moment = SystemClock.now()
            guard runCommands(at: moment) else { return }
            checkFiles(at: moment)
            runSchedules(at: moment)
            publish()
            for outcome in fetcher.wait(milliseconds: pause(from: moment.monotonic)) { finish(outcome) }
            publish()
        }
    }

    /// Runs queued commands; false after `stop`.
    private mutating func runCommands(at moment: Moment) -> Bool {
        let commands = shared.state.withLock { state in
            defer { state.commands.removeAll() }
            return state.commands
        }
        for command in commands {
            switch command {
            case .stop: return false
            case .unknownKey(let name): sources?.sawUnknownKey(name, now: moment.monotonic)
            case .own(let ring, let time, let then):
                adopted.append(then)
                guard time >= ownTime else { continue }
                ownTime = time
                if sources?.adopt(ring) == true { hasChanged = true }
            case .adopt(let plan, let own, let generation):
                sources = KeySources(plan, own: own, earlier: sources, at: moment)
                // A line that is gone may come back before its fetch ends, and begin another.
                fetches = fetches.filter { sources?.index(name: $0.value.name, url: $0.value.url) != nil }
                self.generation = generation
                hasChanged = true
                // `load` has read the files anew: the sources that are kept must not bring back what they held before.
                nextFileCheck = moment.monotonic
            }
        }
        return true
    }

    private mutating func checkFiles(at moment: Moment) {
        guard moment.monotonic >= nextFileCheck else { return }
        nextFileCheck = moment.monotonic.advanced(milliseconds: 1000)
        if sources?.checkFiles() == true { hasChanged = true }
    }

    /// Carries out the schedules' actions.
    private mutating func runSchedules(at moment: Moment) {
        while let (index, step) = sources?.nextStep(now: moment.monotonic) {
            switch step {
            case .fetch: fetch(index, at: moment)
            case .dropKeys:
                sources?.dropKeys(index)
                hasChanged = true
            case .wait: break
            }
        }
    }

    private mutating func fetch(_ index: Int, at moment: Moment) {
        guard let url = sources?.url(index) else { return }
        lastFetch += 1
        if let failure = fetcher.start(lastFetch, url: url) {
            sources?.failed(index, failure.text, at: moment, jitter: random.next())
        } else {
            fetches[lastFetch] = (sources?.name(index) ?? "", url)
        }
    }

    /// Ends a fetch.
    private mutating func finish(_ outcome: JWKSFetcher.Outcome) {
        guard let fetch = fetches.removeValue(forKey: outcome.id),
            let index = sources?.index(name: fetch.name, url: fetch.url)
        else { return }
        let moment = SystemClock.now()
        switch outcome.result {
        case .success(let document):
            let isNew = sources?.fetched(index, document, at: moment, jitter: random.next())
            if isNew == true { hasChanged = true }
            if let time = document.serverTime { onClock(fetch.name, time, moment.wall) }
        case .failure(let failure):
            sources?.failed(index, failure.text, at: moment, jitter: random.next())
        }
    }

    /// Publishes events, a snapshot if a key has changed, and then statuses: a fetch that is in them counts.
    private mutating func publish() {
        guard let sources else { return }
        for event in sources.events { onEvent(event) }
        self.sources?.events.removeAll()
        let now = SystemClock.now()
        let statuses = sources.sources.map { source in
            var status = source.status
            status.nextFetchAt = source.schedule?.nextFetch.map { until in
                WallTime(microseconds: now.wall.microseconds + Int64(until.nanoseconds(since: now.monotonic) / 1_000))
            }
            return status
        }
        if hasChanged { onChange(sources.snapshot(generation: generation)) }
        hasChanged = false
        shared.state.withLock { $0.statuses = statuses }
        for then in adopted { then() }
        adopted.removeAll()
    }

    /// Milliseconds until the next deadline or file check.
    private mutating func pause(from now: MonotonicTime) -> Int32 {
        let until = min(sources?.nextDeadline(now: now) ?? nextFileCheck, nextFileCheck)
        return Int32(until.nanoseconds(since: now) / 1_000_000 + 1)
    }
}
