internal import Accounts

/// A value that is fetched once for all who want it at the same time.
actor SharedFetch<Value: Sendable> {
    /// The value that was fetched last.
    private(set) var last: Value?
    private var task: Task<Result<Value, StorefrontFault>, Never>?

    /// The value if `isGood`, else a fetched one.
    func value(
        where isGood: @Sendable (Value) -> Bool, _ fetch: @escaping @Sendable () async throws(StorefrontFault) -> Value
    ) async throws(StorefrontFault) -> Value {
        if let last, isGood(last) { return last }
        // Awaited by all who want the value; it ends with the time of its request.
        let task = self.task ?? Task { await result(fetch) }
        self.task = task
        return try await task.value.get()
    }

    private func result(_ fetch: @Sendable () async throws(StorefrontFault) -> Value) async -> Result<Value, StorefrontFault> {
        defer { task = nil }
        do throws(StorefrontFault) {
            let value = try await fetch()
            last = value
            return .success(value)
        } catch {
            return .failure(error)
        }
    }
}
