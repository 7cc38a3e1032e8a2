package import Credentials
internal import Fetch
internal import Telemetry
package import Transport
internal import Synchronization
package import Wire

/// Keeps the keys of all issuers fresh on a thread of its own: fetches key sets, looks at files once a second, and hands
/// out a snapshot whenever a key changed.
///
/// Start it with the keys that `load` read; a reload goes through `load` and `adopt`. All methods may be called from any
/// thread. All callbacks run on the feed's thread and must not wait for it.
package final class KeySetRefresher: Sendable {
    fileprivate enum Command: Sendable {
        case adopt(IssuersPlan, SigningKeyRing, generation: UInt64)
        case unknownKey(String)
        case own(SigningKeyRing)
        case stop

        var isMention: Bool {
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

    /// The first keys of a configuration: own ones (generated if need be), files, secrets, and what is kept of URLs.
    /// `earlier` are the keys in force before a reload: those of URLs that stay are taken over.
    package static func load(
        _ plan: IssuersPlan, at moment: Moment, earlier: IssuerKeys? = nil
    ) throws(KeyStoreFault) -> IssuerKeys {
        // Shared keys are followed all the time; a reload need not wait for the database.
        let held = SharedKeys(plan) == nil ? nil : earlier?.own
        let own = if let held { held } else { try KeyStore.open(plan, now: moment.wall) }
        var keys = KeySources(plan, own: own, earlier: nil, at: moment).snapshot(generation: 0)
        for trust in plan.outside where earlier?.origins[trust.name] == trust.source {
            if case .url = trust.source { keys.outside[trust.name] = earlier?.outside[trust.name] }
        }
        return keys
    }

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

    /// The number of the next configuration. From here on pass over snapshots of any other, and go by the keys that `load`
    /// answered until the first of this number comes.
    package func nextGeneration() -> UInt64 {
        shared.state.withLock { state in
            state.generation += 1
            return state.generation
        }
    }

    /// Changes over to another configuration, under the number that was asked for; `own` as `load` answered it.
    package func adopt(_ plan: IssuersPlan, own: SigningKeyRing, generation: UInt64) {
        post(.adopt(plan, own, generation: generation))
    }

    /// The keys that gateways share are these now.
    package func adopt(_ ring: SigningKeyRing) { post(.own(ring)) }

    /// Tells that a token of this trust line named an unknown key: at most one fetch in ten seconds follows.
    package func sawUnknownKey(of issuer: String) { post(.unknownKey(issuer)) }

    /// What is known of each outside issuer, in the order of the configuration.
    package var statuses: [KeyStatus] { shared.state.withLock { $0.statuses } }

    /// Ends the thread and waits for it.
    package func stop() {
        post(.stop)
        thread.join()
    }

    private func post(_ command: Command) {
        let waker = shared.state.withLock { state in
            // A storm of unknown keys must not grow the queue: one mention of an issuer is as good as a thousand.
            if !(state.commands.count > 1024 && command.isMention) { state.commands.append(command) }
            return state.waker
        }
        waker?.wake()
    }

    fileprivate final class SharedBox: Sendable {
        let state = Mutex(Shared())
    }

    /// What the thread owns.
    fileprivate struct Run {
        let shared: SharedBox
        let fetcher: JWKSFetcher
        let onChange: @Sendable (IssuerKeys) -> Void
        let onEvent: @Sendable (KeyEvent) -> Void
        let onClock: @Sendable (String, WallTime, WallTime) -> Void
        var sources: KeySources?
        var generation: UInt64 = 0
        /// Fetches under way, by number: for which trust line, from where. A reload may move or drop the line meanwhile.
        var flights: [Int: (name: String, url: String)] = [:]
        var flightCount = 0
        var random = SystemRandomNumberGenerator()
        var nextLook = MonotonicTime(nanoseconds: 0)
        /// Whether a key changed since the last snapshot.
        var isChanged = false
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

    /// Until told to stop.
    fileprivate mutating func loop() {
        while true {
            let moment = EventLoop.now()
            guard takeCommands(at: moment) else { return }
            lookAtFiles(at: moment)
            takeSteps(at: moment)
            publish()
            for outcome in fetcher.wait(milliseconds: pause(from: moment.monotonic)) { land(outcome) }
            publish()
        }
    }

    /// False when one of them was to stop.
    private mutating func takeCommands(at moment: Moment) -> Bool {
        let commands = shared.state.withLock { state in
            defer { state.commands.removeAll() }
            return state.commands
        }
        for command in commands {
            switch command {
            case .stop: return false
            case .unknownKey(let name): sources?.sawUnknownKey(name, now: moment.monotonic)
            case .own(let ring): if sources?.adopt(ring) == true { isChanged = true }
            case .adopt(let plan, let own, let generation):
                sources = KeySources(plan, own: own, earlier: sources, at: moment)
                self.generation = generation
                isChanged = true
            }
        }
        return true
    }

    private mutating func lookAtFiles(at moment: Moment) {
        guard moment.monotonic >= nextLook else { return }
        nextLook = moment.monotonic.advanced(milliseconds: 1000)
        if sources?.lookAtFiles() == true { isChanged = true }
    }

    /// Does what the schedules ask for.
    private mutating func takeSteps(at moment: Moment) {
        while let (index, step) = sources?.nextStep(now: moment.monotonic) {
            switch step {
            case .fetch: fetch(index, at: moment)
            case .dropKeys:
                sources?.dropKeys(index)
                isChanged = true
            case .wait: break
            }
        }
    }

    private mutating func fetch(_ index: Int, at moment: Moment) {
        guard let url = sources?.url(index) else { return }
        flightCount += 1
        if let complaint = fetcher.start(flightCount, url: url) {
            sources?.failed(index, complaint.text, at: moment, jitter: random.next())
        } else {
            flights[flightCount] = (sources?.name(index) ?? "", url)
        }
    }

    /// Takes in what a fetch brought.
    private mutating func land(_ outcome: JWKSFetcher.Outcome) {
        guard let flight = flights.removeValue(forKey: outcome.id),
            let index = sources?.index(name: flight.name, url: flight.url)
        else { return }
        let moment = EventLoop.now()
        switch outcome.result {
        case .success(let document):
            let brings = sources?.fetched(index, document, at: moment, jitter: random.next())
            if brings == true { isChanged = true }
            if let time = document.serverTime { onClock(flight.name, time, moment.wall) }
        case .failure(let complaint):
            sources?.failed(index, complaint.text, at: moment, jitter: random.next())
        }
    }

    /// Tells what happened, and hands out the keys if any changed.
    private mutating func publish() {
        guard let sources else { return }
        for event in sources.events { onEvent(event) }
        self.sources?.events.removeAll()
        let statuses = sources.sources.map(\.status)
        shared.state.withLock { $0.statuses = statuses }
        if isChanged { onChange(sources.snapshot(generation: generation)) }
        isChanged = false
    }

    /// Milliseconds until the clock asks for something: at most to the next look at the files.
    private mutating func pause(from now: MonotonicTime) -> Int32 {
        let until = min(sources?.nextDeadline(now: now) ?? nextLook, nextLook)
        return Int32(until.nanoseconds(since: now) / 1_000_000 + 1)
    }
}
