internal import Accounts
internal import Synchronization
internal import Threads
internal import Wire

/// Waits until a change counts at every live gateway of the database, for a bounded time.
///
/// Where another gateway lives, a fence is raised in the change log, behind the change. Each gateway that reads it says so in its row once
/// its workers have taken what it has read, and the rows are read until all have. They are read, and not hinted at: a hint would let
/// every gateway read the log once for each answer of each other.
final class ChangeFence: Sendable {
    private typealias State = ChangeFenceState<CheckedContinuation<Bool, Never>>

    /// Between two looks at the rows: the answers of gateways that are well come within a few milliseconds.
    private static let pauses: ClosedRange<UInt64> = 1...20

    private let id: UUID
    private let context: AccountContext
    private let patience: UInt64
    private let appliedHere: @Sendable () async -> Bool
    private let report: @Sendable (ClusterReport) -> Void
    private let state = Mutex(State())
    private let seen = Mutex(Seen())

    private struct Seen {
        /// The fence that was raised last.
        var fence: Int64?
        /// The names of gateways that had not passed all fences when the rows were last read.
        var late: [String] = []
    }

    /// `id` is that of the gateway's row; `patience` is in milliseconds. `appliedHere` waits until the workers of this gateway have taken every change that was committed
    /// before; false if the log cannot be read.
    init(
        of id: UUID, _ context: AccountContext, patience: UInt64, appliedHere: @escaping @Sendable () async -> Bool,
        report: @escaping @Sendable (ClusterReport) -> Void
    ) {
        self.id = id
        self.context = context
        self.patience = patience
        self.appliedHere = appliedHere
        self.report = report
    }

    /// Whether every change that was committed before the call counts everywhere; false if a gateway has not said so in time. `hint` tells
    /// the other gateways that the log has grown.
    func isPassed(_ hint: @escaping @Sendable () -> Void) async -> Bool {
        await withCheckedContinuation { waiter in
            let (number, begins) = state.withLock { $0.joined(waiter) }
            // Unstructured, as the call ends with whichever comes first. This one ends with its time.
            Task {
                await pause(milliseconds: patience)
                expire(number)
            }
            guard begins else { return }
            // This one ends with the last waiter.
            Task(executorPreference: context.executor) { [self] in await serve(hint) }
        }
    }

    private func expire(_ number: UInt64) {
        guard let waiter = state.withLock({ $0.expired(number) }) else { return }
        let names = seen.withLock { $0.late }
        if !names.isEmpty { report(.gatewaysLate(names)) }
        waiter.resume(returning: false)
    }

    private func release(_ waiters: [CheckedContinuation<Bool, Never>], _ isPassed: Bool = true) {
        for waiter in waiters { waiter.resume(returning: isPassed) }
    }

    private func serve(_ hint: @Sendable () -> Void) async {
        var length = Self.pauses.lowerBound
        while true {
            do throws(StoreFault) {
                if let newest = state.withLock({ $0.unfenced }) {
                    length = Self.pauses.lowerBound
                    try await raise(upTo: newest, hint)
                }
                try await lookForAnswers()
            } catch {
                // The store is asked again until the time of all waiters is over.
            }
            if state.withLock({ $0.isOver() }) { return }
            await pause(milliseconds: length)
            length = min(length * 2, Self.pauses.upperBound)
        }
    }

    private func raise(upTo newest: UInt64, _ hint: @Sendable () -> Void) async throws(StoreFault) {
        let former = seen.withLock { seen in
            seen.late = []
            return seen.fence
        }
        let fence = try await others().isEmpty ? nil : context.store.raiseFence(by: id, inPlaceOf: former)
        if fence != nil {
            seen.withLock { $0.fence = fence }
            hint()
        }
        guard await appliedHere() else { return release(state.withLock { $0.answered(upTo: newest) }, false) }
        if let fence { state.withLock { $0.raised(fence, upTo: newest) } } else { release(state.withLock { $0.answered(upTo: newest) }) }
    }

    private func lookForAnswers() async throws(StoreFault) {
        guard let oldest = state.withLock({ $0.oldestFence }) else { return }
        let others = try await others()
        seen.withLock { $0.late = others.filter { $0.passed < oldest }.map(\.name).sorted() }
        release(state.withLock { $0.passed(others.map(\.passed).min() ?? .max) })
    }

    private func others() async throws(StoreFault) -> [LiveGateway] {
        try await context.store.gateways(besides: id)
    }
}
