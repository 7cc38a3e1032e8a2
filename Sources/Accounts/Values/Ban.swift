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

    /// A reason as the operator writes it: at most 200 bytes without control characters; nil if nothing is left.
    package static func reason(_ text: String) throws(MalformedText) -> String? { try PlainText.clean(text, limit: 200) }

    package func isInForce(at now: WallTime) -> Bool { until.map { now < $0 } ?? true }
}
