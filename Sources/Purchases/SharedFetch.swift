internal import Accounts
internal import Synchronization

/// A value that is fetched once for all who want it at the same time. Any task.
final class SharedFetch<Value: Sendable>: Sendable {
    private enum Step {
        case known(Value)
        case fetching(Task<Result<Value, StorefrontFault>, Never>)
    }

    private struct State {
        var value: Value?
        var task: Task<Result<Value, StorefrontFault>, Never>?
    }

    private let state = Mutex(State())

    /// The value that was fetched last.
    var last: Value? { state.withLock { $0.value } }

    /// The value if `isGood`, else a fetched one.
    func value(
        where isGood: (Value) -> Bool, _ fetch: @escaping @Sendable () async throws(StorefrontFault) -> Value
    ) async throws(StorefrontFault) -> Value {
        let step = state.withLock { state -> Step in
            if let value = state.value, isGood(value) { return .known(value) }
            if let task = state.task { return .fetching(task) }
            // Awaited by all who want the value; it ends with the time of its request.
            let task = Task { await self.result(fetch) }
            state.task = task
            return .fetching(task)
        }
        switch step {
        case .known(let value): return value
        case .fetching(let task): return try await task.value.get()
        }
    }

    private func result(_ fetch: @Sendable () async throws(StorefrontFault) -> Value) async -> Result<Value, StorefrontFault> {
        do throws(StorefrontFault) {
            let value = try await fetch()
            state.withLock { $0 = State(value: value) }
            return .success(value)
        } catch {
            state.withLock { $0.task = nil }
            return .failure(error)
        }
    }
}
