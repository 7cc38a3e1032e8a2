internal import Synchronization
internal import Wire

/// Sends subscribers the events of accounts: at least once, those of one account in their order. For each subscriber one gateway does it at
/// a time, the one that holds the lease.
package final class EventDelivery: Sendable {
    /// Longer than a round and the time until it is renewed.
    private static let leaseSeconds: Int64 = 30
    private static let renewMilliseconds: UInt64 = 10_000
    /// Nothing is begun to be sent so long after a round's start, in milliseconds; what was begun takes 5 s at most.
    private static let roundMilliseconds: UInt64 = 8_000
    /// Before the store is asked again after nothing was due.
    static let idleMilliseconds: UInt64 = 1_000
    /// Before the lease of another gateway, or a store that failed, is asked again.
    private static let pauseMilliseconds: UInt64 = 5_000
    private static let maxEvents = 100
    /// Accounts whose events are sent at the same time.
    private static let maxAccounts = 16
    /// After so many failures in a row of a subscriber that is away, an arrival means that it is back.
    private static let manyFailures = 10
    /// Rounds between two readings of the numbers that wait.
    private static let reportRounds = 15

    private struct State {
        var subscribers: [String: EventSubscriber] = [:]
        var tasks: [String: Task<Void, Never>] = [:]
        var isStarted = false
    }

    private let context: AccountContext
    /// This process, for the leases.
    private let holder: UUID
    private let report: @Sendable (EventReport) -> Void
    private let state = Mutex(State())

    package init(context: AccountContext, report: @escaping @Sendable (EventReport) -> Void) {
        self.context = context
        self.report = report
        holder = context.newID(context.storeTime)
    }

    package func start() {
        state.withLock { $0.isStarted = true }
        adopt(Array(state.withLock { $0.subscribers }.values))
    }

    /// Sends to these from now on, and to no others.
    package func adopt(_ subscribers: [EventSubscriber]) {
        state.withLock { state in
            state.subscribers = Dictionary(uniqueKeysWithValues: subscribers.map { ($0.name, $0) })
            guard state.isStarted else { return }
            for (name, task) in state.tasks where state.subscribers[name] == nil { task.cancel() }
            for name in state.subscribers.keys where state.tasks[name]?.isCancelled != false {
                let earlier = state.tasks[name]
                // Unstructured: `cancel` ends it, or a reload that removes the subscriber.
                state.tasks[name] = Task {
                    // Both would have the lease: it is the process's.
                    await earlier?.value
                    await run(name)
                }
            }
        }
    }

    /// Begins the end: what is under way is not waited for.
    package func cancel() {
        state.withLock { state in
            state.isStarted = false
            for task in state.tasks.values { task.cancel() }
        }
    }

    /// Returns when nothing is sent any more, and the leases are free.
    package func ended() async { for task in state.withLock({ $0.tasks }).values { await task.value } }

    private static func lease(_ name: String) -> String { "events \(name)" }

    private func run(_ name: String) async {
        var round = Round()
        while !Task.isCancelled, let subscriber = state.withLock({ $0.subscribers[name] }) {
            await context.clock.pause(await pass(subscriber, &round))
        }
        report(.left(name))
        do throws(StoreFault) {
            if round.holds { _ = try await context.store.hold(Self.lease(name), by: holder, seconds: 0) }
        } catch {
            // It ends by itself.
        }
    }

    /// The lease and the failures of a subscriber, from one round to the next.
    struct Round {
        fileprivate var holds = false
        /// When the lease is renewed.
        fileprivate var renewal = MonotonicTime(nanoseconds: 0)
        fileprivate var failuresInARow = 0
        fileprivate var rounds = 0
    }

    /// One round: takes the lease, and sends what is due. Returns how long to pause before the next one, in milliseconds.
    func pass(_ subscriber: EventSubscriber, _ round: inout Round) async -> UInt64 {
        let name = subscriber.name
        do throws(AccountFailure) {
            guard try await hold(name, &round) else { return Self.pauseMilliseconds }
            let due = try await context.ask(
                await context.store.deliveries(to: name, now: context.storeTime, limit: Self.maxEvents))
            let isIdle = due.again.isEmpty && due.next == due.cursor
            if !isIdle {
                let settled = await send(due, to: subscriber, &round)
                guard try await context.ask(await context.store.settle(settled, of: name, lease: Self.lease(name), by: holder)) else {
                    round.holds = false
                    return Self.pauseMilliseconds
                }
                for waiting in settled.waiting where waiting.next == nil {
                    report(.parked(name, waiting.delivery.event.kind, waiting.delivery.event.id, reason: waiting.failure?.reason ?? "-"))
                }
            }
            if round.rounds % Self.reportRounds == 0 {
                for state in try await context.ask(await context.store.subscriptions()) where state.name == name { report(.state(state)) }
            }
            round.rounds += 1
            return isIdle ? Self.idleMilliseconds : 0
        } catch {
            // The context has logged it.
            return Self.pauseMilliseconds
        }
    }

    /// Takes the lease, or renews it in time; false while another gateway has it.
    private func hold(_ name: String, _ round: inout Round) async throws(AccountFailure) -> Bool {
        let now = context.clock.now().monotonic
        if round.holds, now < round.renewal { return true }
        let held = round.holds
        round.renewal = now.advanced(milliseconds: Self.renewMilliseconds)
        round.holds = try await context.ask(await context.store.hold(Self.lease(name), by: holder, seconds: Self.leaseSeconds))
        if held, !round.holds { report(.left(name)) }
        return round.holds
    }

    // MARK: one round

    private enum Outcome: Sendable {
        case untried(Delivery)
        case arrived(Delivery)
        case failed(Delivery, DeliveryFailure)
    }

    private func send(_ due: DueDeliveries, to subscriber: EventSubscriber, _ round: inout Round) async -> SettledDeliveries {
        let new = due.new.filter { subscriber.kinds.contains($0.kind) }.map { Delivery($0) }
        var settled = SettledDeliveries(due, now: context.storeTime)
        settled.kinds = subscriber.kinds
        // The line has had these kinds before a reload.
        settled.arrived = due.again.filter { !subscriber.kinds.contains($0.event.kind) }.map(\.event.position)
        let sent = due.again.filter { subscriber.kinds.contains($0.event.kind) } + new.filter { !due.held.contains($0.event.account) }
        let end = context.clock.now().monotonic.advanced(milliseconds: Self.roundMilliseconds)
        let outcomes = await send(Dictionary(grouping: sent, by: \.event.account).values.map(\.self), to: subscriber, until: end)
        let now = context.storeTime
        var (lag, arrived, failed, reason): (Int64, Int, Int, String?) = (0, 0, 0, nil)
        for outcome in outcomes {
            switch outcome {
            case .untried(let delivery): settled.waiting.append(.init(delivery, next: now, failure: nil))
            case .arrived(let delivery):
                arrived += 1
                settled.arrived.append(delivery.event.position)
                settled.isBack = settled.isBack || round.failuresInARow >= Self.manyFailures
                round.failuresInARow = 0
                lag = max(lag, (now.microseconds - delivery.event.at.microseconds) / 1_000)
            case .failed(let delivery, let failure):
                failed += 1
                if failure.isAway { round.failuresInARow += 1 }
                reason = failure.reason
                let (failures, first) = (delivery.failures + 1, delivery.failedAt ?? now)
                let next = OutgoingSchedule.events.next(failures: failures, failedAt: first, now: now)
                settled.waiting.append(.init(Delivery(delivery.event, failures: failures, failedAt: first), next: next, failure: failure))
            }
        }
        report(.sent(subscriber.name, arrived: arrived, failed: failed, lagMilliseconds: lag, reason: reason))
        return settled
    }

    /// Sends the events of each account in sequence, and stops at the first failure; the later ones get no outcome.
    private func send(
        _ accounts: [[Delivery]], to subscriber: EventSubscriber, until end: MonotonicTime
    ) async -> [Outcome] {
        await withTaskGroup(of: [Outcome].self) { group in
            var rest = accounts[...]
            var outcomes: [Outcome] = []
            for _ in 0..<Self.maxAccounts {
                if let next = rest.popFirst() { group.addTask { [self] in await chain(next, subscriber, end) } }
            }
            while let done = await group.next() {
                outcomes += done
                if let next = rest.popFirst() { group.addTask { [self] in await chain(next, subscriber, end) } }
            }
            return outcomes
        }
    }

    private func chain(_ deliveries: [Delivery], _ subscriber: EventSubscriber, _ end: MonotonicTime) async -> [Outcome] {
        var outcomes: [Outcome] = []
        for delivery in deliveries {
            guard !Task.isCancelled, context.clock.now().monotonic < end else { return outcomes + [.untried(delivery)] }
            if let failure = await subscriber.send(delivery.event) {
                // An attempt that the end of the process broke off has not failed.
                return outcomes + [Task.isCancelled ? .untried(delivery) : .failed(delivery, failure)]
            }
            outcomes.append(.arrived(delivery))
        }
        return outcomes
    }
}
