internal import Accounts
internal import Synchronization
internal import Wire

/// This gateway's row among the live ones: renewed every two seconds, and after each reading of the change log that has brought a fence,
/// once the workers have taken what stands behind it.
final class GatewayPresence: Sendable {
    private static let periodMilliseconds: UInt64 = 2_000

    private struct State {
        /// The highest fence that this gateway has passed.
        var passed: Int64 = 0
        /// The highest that was read, until the workers are asked, and the one for which they are.
        var read: Int64?
        var asked: Int64?
        var isAsking = false
        var isJoined = false
        var isRenewing = false
        var hasLeft = false
        /// When the latest try began; nil after one that has failed.
        var triedAt: MonotonicTime?
        var renewedAt: MonotonicTime?
    }

    let id: UUID
    private let name: String
    private let context: AccountContext
    private let confirmed: @Sendable () async -> Void
    private let state = Mutex(State())

    /// `confirmed` suspends until all workers have taken what was broadcast before.
    init(_ context: AccountContext, name: String, confirmed: @escaping @Sendable () async -> Void) {
        self.context = context
        self.name = name
        self.confirmed = confirmed
        let random = context.random(16)
        id = UUID(random: (random.rawBytes.load64(0), random.rawBytes.load64(8)))
    }

    /// Whether the others are sure to wait for this gateway. Otherwise it renews its row before it reads the log: they would not wait for a
    /// change that comes between a reading and the renewal.
    func isCertain(at now: MonotonicTime) -> Bool {
        guard let renewedAt = state.withLock({ $0.renewedAt }) else { return false }
        // A second less than its life, for a reading that takes its time.
        return now < renewedAt.advanced(milliseconds: UInt64(LiveGateway.lifeSeconds - 1) * 1_000)
    }

    /// Renews the row in a task of its own, if that is due. Any thread; returns at once.
    func renewIfDue(at now: MonotonicTime) {
        let isDue = state.withLock { state in
            if state.isRenewing || state.triedAt.map({ now < $0.advanced(milliseconds: Self.periodMilliseconds) }) == true { return false }
            state.isRenewing = true
            return true
        }
        guard isDue else { return }
        // Unstructured, because the thread of readings does not wait for it: it ends with one answer of the store.
        Task(executorPreference: context.executor) { [self] in
            await renew()
            state.withLock { $0.isRenewing = false }
        }
    }

    /// Renews the row. The store reports its failures, after which the next renewal comes soon.
    func renew() async {
        let began = context.clock.now().monotonic
        let row = state.withLock { state -> (gateway: LiveGateway, joins: Bool)? in
            if state.hasLeft { return nil }
            state.triedAt = began
            return (LiveGateway(id: id, name: name, passed: state.passed), !state.isJoined)
        }
        guard let row else { return }
        do throws(StoreFault) {
            let isThere = try await context.store.renew(row.gateway, joins: row.joins)
            state.withLock { state in
                // The next renewal writes a row anew that was swept while this process was stopped, or that got a number of a former log.
                state.isJoined = isThere && row.gateway.passed <= state.passed
                if state.isJoined { state.renewedAt = began } else { state.triedAt = nil }
            }
        } catch {
            state.withLock { ($0.triedAt, $0.isJoined) = (nil, false) }
        }
    }

    /// The log was read up to this fence, and what was new is on its way to the workers. `anew`: it may be another log, as after a failover
    /// or a restore, where a number that was passed before can be that of a fence to come. Any thread; returns at once.
    func read(upTo fence: Int64, anew: Bool = false) {
        let isFirst = state.withLock { state in
            if anew { (state.passed, state.read, state.asked, state.isJoined) = (0, nil, nil, false) }
            state.read = max(state.read ?? 0, fence)
            defer { state.isAsking = true }
            return !state.isAsking
        }
        guard isFirst else { return }
        // Unstructured, because readings go on: it ends when the workers have taken all that was read.
        Task(executorPreference: context.executor) { [self] in
            while isToAsk() {
                await confirmed()
                state.withLock { $0.passed = max($0.passed, $0.asked ?? 0) }
                await renew()
            }
        }
    }

    private func isToAsk() -> Bool {
        state.withLock { state in
            (state.asked, state.read) = (state.read, nil)
            state.isAsking = state.asked != nil
            return state.isAsking
        }
    }

    /// Removes the row for good: nothing is answered here any more.
    func leave() async {
        let wasJoined = state.withLock { state in
            state.hasLeft = true
            return state.renewedAt != nil
        }
        guard wasJoined else { return }
        // After a failure others wait for this gateway until its row is old.
        _ = try? await context.store.remove(id)
    }
}
