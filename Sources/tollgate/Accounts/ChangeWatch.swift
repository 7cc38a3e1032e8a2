internal import Accounts
internal import Gate
internal import Glibc
internal import Synchronization
internal import Transport
internal import Wire

/// Reads from the store what others changed there, commands and gateways that share it, on a thread of its own: as soon as
/// it hears that there is something, and again and again all the same. What is heard is never believed, only looked up.
final class ChangeWatch: Sendable {
    /// Milliseconds between two looks while a bus tells of changes, and while nothing does. The first is what a change
    /// takes while the bus is silent and nobody has noticed.
    private static let period: Int32 = 500
    private static let blindPeriod: Int32 = 300
    /// Changes that come at once are read together.
    private static let spacing: UInt64 = 5
    /// How long memories are good after a look began: some periods, and what looks may take.
    private static let trust: UInt64 = 2_500
    /// After so long without a look, memories are not brought up to date but given up. The log goes back further.
    private static let longestGap: UInt64 = 600_000

    private let directory: AccountDirectory
    private let control: ControlState
    private let memory: AccountMemory
    private let lookUps: UserLookUps
    private let onSecrets: @Sendable () -> Void
    private let waker: Waker
    private let isStopping = Atomic(false)
    private let isBlind = Atomic(true)
    private let thread = Mutex<WorkerThread?>(nil)

    /// `onSecrets` is called, on the watch's thread, when the keys that gateways share may have changed.
    init(
        directory: AccountDirectory, control: ControlState, memory: AccountMemory, lookUps: UserLookUps,
        onSecrets: @escaping @Sendable () -> Void = {}
    ) throws(SystemFault) {
        self.directory = directory
        self.control = control
        self.memory = memory
        self.lookUps = lookUps
        self.onSecrets = onSecrets
        waker = try Waker()
    }

    /// What has been read of the log, and what of it lies in the part that is read again.
    private struct Place: Sendable {
        var mark: ChangeMark?
        var told: Set<Int64> = []
        var readAt = MonotonicTime(nanoseconds: 0)
    }

    private let place = Mutex(Place())

    /// Reads everything that must be known before the first request; false if the store cannot be asked.
    func readAll() async -> Bool { await lookAtAll(EventLoop.now().monotonic) }

    func start() throws(SystemFault) {
        let started = try WorkerThread(name: "changes") { [self] in run() }
        thread.withLock { $0 = started }
    }

    func stop() {
        isStopping.store(true, ordering: .releasing)
        waker.wake()
        thread.withLock { running in
            running?.join()
            running = nil
        }
    }

    /// There may be something to read. Any thread; returns at once.
    func look() { waker.wake() }

    /// Whether somebody will tell when there is something to read. Any thread; returns at once.
    func busChanged(isThere: Bool) {
        isBlind.store(!isThere, ordering: .releasing)
        look()
    }

    private func run() {
        while !isStopping.load(ordering: .acquiring) {
            waker.wait(milliseconds: isBlind.load(ordering: .acquiring) ? Self.blindPeriod : Self.period)
            let start = EventLoop.now().monotonic
            do throws(SystemFault) {
                _ = try blocking { await self.lookOnce(start) }
            } catch {
                control.shortage(error, at: start)
            }
            let passed = EventLoop.now().monotonic.nanoseconds(since: start) / 1_000_000
            // Notices that come in a burst are read together; the thread is the watch's own.
            if passed < Self.spacing { usleep(UInt32(Self.spacing - passed) * 1_000) }
        }
    }

    // MARK: looking

    private func lookOnce(_ start: MonotonicTime) async {
        let (mark, told, readAt) = place.withLock { ($0.mark, $0.told, $0.readAt) }
        guard let mark, start.nanoseconds(since: readAt) < Self.longestGap * 1_000_000 else {
            _ = await lookAtAll(start)
            return
        }
        do throws(AccountFailure) {
            let reading = try await directory.changes(since: mark)
            guard reading.isWhole else {
                _ = await lookAtAll(start)
                return
            }
            pass(on: reading.changes.filter { !told.contains($0.id) }, since: start)
            place.withLock { $0 = Place(mark: reading.next, told: Set(reading.changes.map(\.id)), readAt: start) }
            caughtUp(start)
        } catch {
            // Whoever asked has told of it; what is remembered is trusted no longer than its time.
        }
    }

    /// Gives up what is remembered, and reads what ended in full.
    private func lookAtAll(_ start: MonotonicTime) async -> Bool {
        do throws(AccountFailure) {
            // First, so that what ends meanwhile is in one of both.
            let mark = try await directory.changes(since: nil).next
            control.revoke(try await directory.endedSessions().map(RevokedSession.init))
            memory.forgetAll()
            lookUps.forgetAll()
            onSecrets()
            place.withLock { $0 = Place(mark: mark, readAt: start) }
            caughtUp(start)
            return true
        } catch {
            return false
        }
    }

    private func caughtUp(_ start: MonotonicTime) {
        memory.trust(until: start.advanced(milliseconds: Self.trust))
        control.accountsAnswered()
    }

    private func pass(on changes: [LoggedChange], since start: MonotonicTime) {
        guard !changes.isEmpty else { return }
        let now = EventLoop.now()
        var (ended, users, hasSecrets): ([RevokedSession], [UserTier], Bool) = ([], [], false)
        for logged in changes {
            switch logged.change {
            case .ended(let session): ended.append(RevokedSession(session))
            case .account(let user, let entitlement):
                memory.forget(user)
                users.append(UserTier(user, entitlement, control.configuration, .pushed, at: now.wall))
            case .accountDeleted(let user):
                memory.forget(user)
                users.append(.deleted(user, at: now.wall))
            case .secrets: hasSecrets = true
            }
        }
        control.revoke(ended)
        if !users.isEmpty { control.learn(users) }
        if hasSecrets { onSecrets() }
        let reading = Int64(EventLoop.now().monotonic.nanoseconds(since: start) / 1_000)
        control.changesApplied(lags: changes.map { max(0, $0.age) + reading })
    }
}
