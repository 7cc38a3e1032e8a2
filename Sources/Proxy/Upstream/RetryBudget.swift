/// Keeps retries a small share of the traffic, so that a failing upstream is not buried under them: each request
/// earns a fifth of a retry, and at most ten are saved up.
struct RetryBudget: Equatable, Sendable {
    static let most = 50
    static let perRetry = 5

    private var fifths = most

    mutating func requestSent() {
        if fifths < Self.most { fifths += 1 }
    }

    /// Takes one retry, if there is one.
    mutating func spend() -> Bool {
        guard fifths >= Self.perRetry else { return false }
        fifths -= Self.perRetry
        return true
    }
}
