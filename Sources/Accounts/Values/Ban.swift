package import Wire

/// Keeps an account from signing in, and its tokens from counting.
package struct Ban: Sendable, Hashable {
    package let bannedAt: WallTime
    /// nil for good. Then it is over without a further change; the sessions that it ended stay ended.
    package let until: WallTime?
    /// For the operator; the user is not told.
    package let reason: String?

    package init(bannedAt: WallTime, until: WallTime?, reason: String?) {
        self.bannedAt = bannedAt
        self.until = until
        self.reason = reason
    }

    package func isInForce(at now: WallTime) -> Bool { until.map { now < $0 } ?? true }
}
