internal import Credentials
internal import System
internal import Telemetry
internal import Wire

/// The key sources of one configuration and their state. One thread; reads files but never waits for the network.
struct KeySources {
    /// The source of one issuer's keys.
    struct Source {
        let trust: KeyHolder
        var keys: KeySet?
        var status: KeyStatus
        /// nil unless the source is a URL.
        var schedule: JWKSSchedule?
        /// The stamp of a file when it was last read; nil for other sources.
        var stamp: FileStamp?
        /// The weak and broken keys that have been logged.
        var loggedRefusals: [KeyFault] = []
        /// Whether it has been logged that too many keys have no `kid`.
        var hasLoggedNameless = false
    }

    private(set) var sources: [Source]
    private(set) var own: SigningKeyRing?
    private let store: KeyStore?
    /// The stamp of the own keys' file when it was last read; nil until the first look, for `own` was read before this was made.
    private var ownStamp: FileStamp?
    /// Why that file could not be read, as it was logged; nil once it could.
    private var ownProblem: String?
    private let cache: KeyCache
    var events: [KeyEvent] = []

    /// Reads files and the cache; keeps unchanged sources of `earlier`, and its keys that gateways share: `own` may be older.
    init(_ plan: IssuersPlan, own: SigningKeyRing?, earlier: KeySources?, at moment: Moment) {
        cache = KeyCache(dataDirectory: plan.dataDirectory)
        let isShared = SharedKeys(plan) != nil
        store = plan.ownSecret == nil && !isShared ? KeyStore(dataDirectory: plan.dataDirectory) : nil
        self.own = isShared ? earlier?.own ?? own : own
        sources = []
        for trust in plan.outside {
            let kept = earlier?.sources.first { $0.trust.name == trust.name && $0.trust.source == trust.source }
            sources.append(kept.map { Source($0, trust) } ?? first(trust, at: moment))
        }
    }

    /// A snapshot of all keys.
    func snapshot(generation: UInt64) -> IssuerKeys {
        var keys = IssuerKeys(own: own)
        keys.generation = generation
        for source in sources {
            keys.outside[source.trust.name] = source.keys
            keys.origins[source.trust.name] = source.trust.source
        }
        return keys
    }

    private mutating func first(_ trust: KeyHolder, at moment: Moment) -> Source {
        var source = Source(trust: trust, status: KeyStatus(name: trust.name))
        switch trust.source {
        case .secret(let bytes):
            do {
                source.setKeys(KeySet([try VerificationKey(secret: bytes.rawBytes, algorithms: trust.algorithms)]))
            } catch {
                source.status.problem = error.message
            }
        case .file(let path): readFile(path, into: &source)
        case .url(let url):
            let kept = cache.load(trust.name, url: url, now: moment.wall)
            if let kept {
                source.setKeys(kept.keys, confirmedAt: kept.fetchedAt)
                source.logRefusals(&events)
            }
            let age = kept.map { UInt64(max(0, moment.wall.microseconds - $0.fetchedAt.microseconds) / 1000) }
            source.schedule = JWKSSchedule(now: moment.monotonic, cachedAge: age)
        }
        return source
    }

    /// Reads changed files again, and those that could not be read: the reason may have passed without another change, as a lack of
    /// descriptors does. Returns whether any keys changed.
    mutating func checkFiles() -> Bool {
        var changed = checkOwn()
        for index in sources.indices {
            guard case .file(let path) = sources[index].trust.source else { continue }
            let stamp = Self.stamp(path)
            guard let stamp, stamp != sources[index].stamp || sources[index].status.problem != nil else { continue }
            var source = sources[index]
            readFile(path, into: &source)
            sources[index] = source
            changed = changed || source.status.problem == nil
        }
        return changed
    }

    /// Replaces the signing keys; returns whether they changed.
    mutating func adopt(_ ring: SigningKeyRing) -> Bool {
        guard own.map({ $0.states != ring.states }) ?? true else { return false }
        own = ring
        events.append(KeyEvent(.info, nil, "the signing keys changed, \(ring.entries.count) are in use"))
        return true
    }

    private mutating func checkOwn() -> Bool {
        guard let store, let stamp = Self.stamp(store.path), stamp != ownStamp || ownProblem != nil else { return false }
        ownStamp = stamp
        do {
            let ring = try store.load()
            ownProblem = nil
            return ring.map { adopt($0) } ?? false
        } catch {
            if ownProblem != error.description {
                events.append(KeyEvent(.error, nil, "\(error.description); the keys read before stay in use"))
            }
            ownProblem = error.description
            return false
        }
    }

    private mutating func readFile(_ path: String, into source: inout Source) {
        source.stamp = Self.stamp(path)
        do {
            let bytes = try FileBytes.read(path, limit: JWKSFetcher.largestBody)
            source.setKeys(try KeySet(jwks: bytes.rawBytes))
            source.logRefusals(&events)
        } catch {
            source.fail("\(path): \(error)", &events)
        }
    }

    private static func stamp(_ path: String) -> FileStamp? {
        do {
            return try FileBytes.stamp(path)
        } catch {
            return nil
        }
    }
}

// MARK: - URLs

extension KeySources {
    /// The next action of any source's schedule; nil if all wait.
    mutating func nextStep(now: MonotonicTime) -> (index: Int, step: JWKSSchedule.Step)? {
        for index in sources.indices {
            guard let step = sources[index].schedule?.next(now: now) else { continue }
            if case .wait = step { continue }
            return (index, step)
        }
        return nil
    }

    /// The earliest deadline of all schedules; nil without any.
    mutating func nextDeadline(now: MonotonicTime) -> MonotonicTime? {
        var earliest: MonotonicTime?
        for index in sources.indices {
            guard case .wait(let until)? = sources[index].schedule?.next(now: now) else { continue }
            earliest = min(earliest ?? until, until)
        }
        return earliest
    }

    func url(_ index: Int) -> String? {
        guard case .url(let url) = sources[index].trust.source else { return nil }
        return url
    }

    func name(_ index: Int) -> String { sources[index].trust.name }

    func index(name: String, url: String) -> Int? {
        sources.firstIndex { $0.trust.name == name && $0.trust.source == .url(url) }
    }

    mutating func dropKeys(_ index: Int) {
        sources[index].keys = nil
        sources[index].status.keyCount = 0
        let message = "its keys could not be refreshed for a day and are dropped, \(sources[index].trust.lack)"
        events.append(KeyEvent(.error, sources[index].trust.name, message))
    }

    /// Parses and caches a fetched document; returns whether the keys changed.
    mutating func fetched(_ index: Int, _ document: FetchedDocument, at moment: Moment, jitter: UInt64) -> Bool {
        let keys: KeySet
        do {
            keys = try KeySet(jwks: document.body.rawBytes)
        } catch {
            failed(index, "the answer has \(document.contentType) and is no usable key set: \(error.message)", at: moment, jitter: jitter)
            return false
        }
        let before = sources[index].keys?.keys.map(\.serial)
        sources[index].schedule?.fetched(now: moment.monotonic, maxAge: document.maxAge)
        sources[index].setKeys(keys, confirmedAt: moment.wall)
        sources[index].status.fetches += 1
        sources[index].logRefusals(&events)
        keep(index, document.body, at: moment)
        guard before != keys.keys.map(\.serial) else { return false }
        events.append(KeyEvent(.info, sources[index].trust.name, "has \(keys.keys.count) usable keys"))
        return true
    }

    private mutating func keep(_ index: Int, _ body: [UInt8], at moment: Moment) {
        guard let url = url(index) else { return }
        do {
            try cache.save(sources[index].trust.name, url: url, document: body, now: moment.wall)
        } catch {
            let message = "its keys cannot be cached for a restart: \(error.description)"
            events.append(KeyEvent(.warning, sources[index].trust.name, message))
        }
    }

    mutating func failed(_ index: Int, _ problem: String, at moment: Moment, jitter: UInt64) {
        sources[index].schedule?.failed(now: moment.monotonic, jitter: jitter)
        sources[index].status.fetches += 1
        sources[index].status.failures += 1
        // `/readyz` shows it to everyone.
        sources[index].fail("\(maskingURLSecrets(url(index) ?? "")): \(maskingURLSecrets(problem))", &events)
    }

    /// Counts a token with an unknown `kid` and schedules a fetch.
    mutating func sawUnknownKey(_ name: String, now: MonotonicTime) {
        guard let index = sources.firstIndex(where: { $0.trust.name == name }) else { return }
        sources[index].status.unknownKeys += 1
        sources[index].schedule?.sawUnknownKey(now: now)
    }
}

extension KeySources.Source {
    /// The state of an unchanged source under a line whose other options may have changed.
    init(_ earlier: Self, _ trust: KeyHolder) {
        self.init(
            trust: trust, keys: earlier.keys, status: earlier.status, schedule: earlier.schedule, stamp: earlier.stamp,
            loggedRefusals: earlier.loggedRefusals, hasLoggedNameless: earlier.hasLoggedNameless)
    }

    mutating func setKeys(_ keys: KeySet, confirmedAt: WallTime? = nil) {
        self.keys = keys
        status.keyCount = keys.keys.count
        status.confirmedAt = confirmedAt
        status.problem = nil
    }

    /// Logs each weak or broken key once, as long as it stays in the set, and that keys without a `kid` are too many.
    mutating func logRefusals(_ events: inout [KeyEvent]) {
        let refusals = keys?.refusals ?? []
        for refusal in refusals where !loggedRefusals.contains(refusal) {
            events.append(KeyEvent(.warning, trust.name, "a key is refused: \(refusal.message)"))
        }
        loggedRefusals = refusals
        let (nameless, tried) = (keys?.namelessKeys ?? 0, TokenVerifier.maximumTries)
        if nameless > tried, !hasLoggedNameless {
            events.append(
                KeyEvent(
                    .warning, trust.name,
                    "has \(nameless) keys without a \"kid\" for one algorithm: at most \(tried) are tried for a token, the others never; "
                        + "the issuer should give its keys a \"kid\""))
        }
        hasLoggedNameless = nameless > tried
    }

    /// Records the problem and logs it if it is new. The keys stay in use.
    mutating func fail(_ problem: String, _ events: inout [KeyEvent]) {
        if status.problem != problem {
            let rest = keys == nil ? "there are no keys, \(trust.lack)" : "the previous keys stay in use"
            events.append(KeyEvent(.warning, trust.name, "\(problem); \(rest)"))
        }
        status.problem = problem
    }
}

extension SigningKeyRing {
    /// Ids and states, which differ if the ring has changed.
    fileprivate var states: [String] { entries.map { "\($0.key.kid ?? "") \($0.state)" } }
}
