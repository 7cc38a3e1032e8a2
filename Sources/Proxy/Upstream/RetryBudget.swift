/// Retry budget: bounds retries to a fifth of the requests, so that they do not overload a failing upstream. Each request earns a
/// fifth of a retry, and at most ten are saved.
struct RetryBudget: Equatable, Sendable {
    static let most = 50
    static let perRetry = 5

    private var fifths = most

    mutating func requestSent() {
        if fifths < Self.most { fifths += 1 }
    }

    /// Spends one retry, if there is one.
    mutating func spend() -> Bool {
        guard fifths >= Self.perRetry else { return false }
        fifths -= Self.perRetry
        return true
    }
}
