package import Accounts
internal import Credentials
package import Gate
internal import Synchronization
internal import System
internal import Threads
internal import Wire

/// Tails the store's change log and applies each change here, this gateway's own included: evicts it from caches and
/// broadcasts it to workers. Polls every 500 ms (300 without the bus), sooner when hinted; hints carry no data.
/// `ChangeLogPollerState` decides when; a thread of its own keeps the time.
final class ChangeLogPoller: Sendable {
    private typealias State = ChangeLogPollerState<CheckedContinuation<Bool, Never>>

    /// How long caches are valid after a reading began, in milliseconds: a few periods, and the time that readings take.
    private static let trust: UInt64 = 2_500
    /// After a longer pause, in milliseconds, caches are dropped whole. The log goes back further.
    private static let maxGap: UInt64 = 600_000

    /// How far the log has been read.
    private struct Position: Sendable {
        var mark: ChangeMark
        /// Changes behind `mark` that were applied already: readings overlap.
        var applied: Set<Int64> = []
        var readAt: MonotonicTime
    }

    private let directory: AccountDirectory
    private let cache: AccountCache
    private let tiers: TierLookups
    private let subjects: SubjectLookups
    private let presence: GatewayPresence
    private let events: ClusterEvents
    private let executor: (any TaskExecutor)?
    private let now: @Sendable () -> Moment
    private let waker: Waker
    private let state: Mutex<State>
    /// nil until the first reading has succeeded.
    private let position = Mutex<Position?>(nil)
    private let thread = Mutex<WorkerThread?>(nil)

    init(
        directory: AccountDirectory, cache: AccountCache, tiers: TierLookups, subjects: SubjectLookups, presence: GatewayPresence,
        events: ClusterEvents, on executor: (any TaskExecutor)?, now: @escaping @Sendable () -> Moment, patience: UInt64
    ) throws(SystemFault) {
        self.executor = executor
        self.directory = directory
        self.cache = cache
        self.tiers = tiers
        self.subjects = subjects
        self.presence = presence
        self.events = events
        self.now = now
        state = Mutex(State(patience: patience))
        waker = try Waker()
    }

    func start() throws(SystemFault) {
        state.withLock { $0.started() }
        do throws(SystemFault) {
            let started = try WorkerThread(name: "changes") { [self] in run() }
            thread.withLock { $0 = started }
        } catch {
            stop()
            throw error
        }
    }

    /// Releases every writer, and waits for the reading under way. Blocks.
    func stop() {
        release(state.withLock { $0.stopped() }, isApplied: false)
        waker.wake()
        thread.withLock { running in
            running?.join()
            running = nil
        }
    }

    /// The log may have grown. Any thread; returns at once.
    func hint() {
        state.withLock { $0.hinted() }
        waker.wake()
    }

    /// Whether other gateways' changes are hinted at. Any thread; returns at once.
    func busChanged(isConnected: Bool) {
        state.withLock { $0.busChanged(isConnected: isConnected) }
        waker.wake()
    }

    /// Waits until every change committed before the call has been applied; false if the log could not be read in time
    /// (2.5 s), and while this is not started. Any task.
    func applied() async -> Bool {
        await withCheckedContinuation { writer in
            let (isJoined, isReading) = state.withLock { ($0.joined(writer, at: self.now().monotonic), $0.isReading) }
            if !isJoined { return writer.resume(returning: false) }
            // Those that have committed together join before it begins, and share it.
            if !isReading { beginReadings() }
        }
    }

    /// Whether a reading would bring nothing new at once: one has begun within so many milliseconds, or the store does not answer. Any thread.
    func isCaughtUp(within milliseconds: UInt64) -> Bool {
        if state.withLock({ $0.lastFailed }) { return true }
        guard let readAt = position.withLock({ $0?.readAt }) else { return false }
        return now().monotonic < readAt.advanced(milliseconds: milliseconds)
    }

    private func release(_ writers: [CheckedContinuation<Bool, Never>], isApplied: Bool) {
        for writer in writers { writer.resume(returning: isApplied) }
    }

    private func run() {
        while true {
            let now = self.now().monotonic
            let (late, begins, pause, isOver) = state.withLock { state in
                (state.expired(at: now), state.begins(at: now), state.pause(at: now), state.isStopped && !state.isReading)
            }
            release(late, isApplied: false)
            if isOver { return }
            presence.renewIfDue(at: now)
            if begins { beginReadings(now) }
            waker.wait(milliseconds: Int32(pause))
        }
    }

    /// Reads the log while that is due, from a reading on that has `begun` already.
    private func beginReadings(_ begun: MonotonicTime? = nil) {
        // Unstructured, because neither the thread nor a writer waits for it by itself: it ends when no reading is due.
        Task(executorPreference: executor) { [self] in
            var begun = begun ?? beginning()
            // Soon after one that failed none is due: the thread waits for the time, with the writers that have joined.
            if begun == nil { waker.wake() }
            while let start = begun {
                let isRead = await read(start)
                let (writers, isThreadWanted) = state.withLock { state in
                    (state.ended(succeeded: isRead, at: self.now().monotonic), state.isStopped || state.isRestless)
                }
                release(writers, isApplied: true)
                if isThreadWanted { waker.wake() }
                begun = beginning()
            }
        }
    }

    /// When a reading begins, which is now if one is due.
    private func beginning() -> MonotonicTime? {
        let now = self.now().monotonic
        return state.withLock { $0.begins(at: now) } ? now : nil
    }

    // MARK: a reading

    /// Reads the log and applies what is new; false if the store cannot be asked, which the directory has logged.
    private func read(_ start: MonotonicTime) async -> Bool {
        if !presence.isCertain(at: start) { await presence.renew() }
        do throws(AccountFailure) {
            guard let position = position.withLock({ $0 }),
                start.nanoseconds(since: position.readAt) < Self.maxGap * 1_000_000,
                case let reading = try await directory.changes(since: position.mark), reading.isWhole
            else {
                try await readAll(start)
                return true
            }
            let new = reading.changes.filter { !position.applied.contains($0.id) }
            if new.contains(where: { $0.change == .switches }) { events.switched(try await directory.switches(), false) }
            if new.contains(where: { $0.change == .apiKeys }) { events.broadcast(.keys(APIKeyTable(try await directory.apiKeys.live()))) }
            apply(new, since: start)
            if let fence = new.last(where: { isOfAnother($0.change) })?.id { presence.read(upTo: fence) }
            reached(Position(mark: reading.next, applied: Set(reading.changes.map(\.id)), readAt: start))
            return true
        } catch {
            return false
        }
    }

    /// Drops every cache, and reads all ended sessions and proven factors.
    private func readAll(_ start: MonotonicTime) async throws(AccountFailure) {
        // The mark first: a session that ends in between is then in the list, in the next reading, or in both.
        let end = try await directory.changes(since: nil)
        let (ended, switches) = (try await directory.endedSessions(), try await directory.switches())
        let keys = APIKeyTable(try await directory.apiKeys.live())
        let proven = try await directory.provenSessions()
        if !ended.isEmpty { events.broadcast(.ended(ended.map { RevokedSession($0) })) }
        events.broadcast(.factors(proven, isWhole: true))
        cache.evictAll()
        subjects.forgetAll()
        tiers.forgetAll()
        events.secretsChanged()
        events.switched(switches, true)
        events.broadcast(.keys(keys))
        reached(Position(mark: end.next, readAt: start))
        presence.read(upTo: end.newest ?? 0, anew: true)
    }

    /// Whether this is a fence before which another gateway waits.
    private func isOfAnother(_ change: StoreChange) -> Bool {
        if case .fence(let gateway) = change { gateway != presence.id } else { false }
    }

    private func reached(_ next: Position) {
        position.withLock { $0 = next }
        cache.trust(until: next.readAt.advanced(milliseconds: Self.trust))
        events.report(.storeAnswered(clockSkew: directory.storeClockSkew))
    }

    private func apply(_ changes: [LoggedChange], since start: MonotonicTime) {
        guard !changes.isEmpty else { return }
        let now = self.now()
        var (ended, accounts, hasSecrets): ([RevokedSession], [(user: UUID, standing: AccountStanding?)], Bool) = ([], [], false)
        var (identities, proven): ([TokenUser], [ProvenSession]) = ([], [])
        for logged in changes {
            switch logged.change {
            case .ended(let session): ended.append(RevokedSession(session, heardAt: now.wall.seconds))
            case .account(let user, let standing): accounts.append((user, standing))
            case .accountDeleted(let user): accounts.append((user, nil))
            case .identity(let key): identities.append(TokenUser(key.subject, of: key.source.name))
            case .factor(let session): proven.append(session)
            case .secrets: hasSecrets = true
            case .switches, .apiKeys, .fence: break
            }
        }
        for (user, _) in accounts { cache.evict(user) }
        if !ended.isEmpty { events.broadcast(.ended(ended)) }
        if !proven.isEmpty { events.broadcast(.factors(proven, isWhole: false)) }
        subjects.changed(accounts.map(\.user))
        subjects.forget(identities)
        tiers.changed(accounts, at: now.wall)
        tiers.forget(identities)
        if hasSecrets { events.secretsChanged() }
        let reading = Int64(self.now().monotonic.nanoseconds(since: start) / 1_000)
        events.report(.changesApplied(lags: changes.map { $0.age + reading }))
    }
}

extension RevokedSession {
    /// Kept until its last token has expired, and a session that ended in an earlier release as long as any token lives.
    /// `heardAt`, in seconds since 1970: when a change that was just made was read here, for the clock of the gateway that ended
    /// the session may be days behind.
    package init(_ session: EndedSession, heardAt: Int64? = nil) {
        let endedAt = session.endedAt.seconds
        let life = session.expiresAt.map { $0.seconds - endedAt } ?? EndedSession.life(of: nil)
        self.init(id: session.id.text, until: max(endedAt, heardAt ?? .min) + life, endedAt: endedAt)
    }
}
