/// Retry budget: bounds retries to a share of the requests, so that they do not overload a failing upstream. Each request earns that
/// share of a retry, and at most ten are saved. One per worker and upstream.
struct RetryBudget: Equatable, Sendable {
    /// In hundredths of a retry.
    static let most = 1_000
    static let perRetry = 100

    /// Retries for a hundred requests.
    private var percent: Int
    private var hundredths: Int

    /// A budget that has saved all that it may.
    init(percent: Int = 20) {
        self.percent = percent
        hundredths = percent > 0 ? Self.most : 0
    }

    mutating func requestSent() {
        if hundredths < Self.most { hundredths = min(hundredths + percent, Self.most) }
    }

    /// Spends one retry, if there is one.
    mutating func spend() -> Bool {
        guard hundredths >= Self.perRetry else { return false }
        hundredths -= Self.perRetry
        return true
    }

    /// Adopts another share, and begins anew.
    mutating func adopt(percent: Int) {
        guard percent != self.percent else { return }
        self = RetryBudget(percent: percent)
    }
}
