package import Wire

/// Bounds the sessions of one account (`TOLLGATE_MAX_SESSIONS`). Pure; stores apply it inside the transaction that opens a session.
package struct SessionBound: Sendable, Equatable {
    /// Of an account without a tier, or with one that is not in `byTier`.
    private let most: Int
    private let byTier: [String: Int]
    private let order: TierOrder
    /// How long a tier counts beyond its end.
    private let graceSeconds: Int64

    package init(_ most: Int, byTier: [String: Int] = [:], order: TierOrder = .none, graceSeconds: Int64 = 0) {
        self.most = most
        self.byTier = byTier
        self.order = order
        self.graceSeconds = graceSeconds
    }

    package static let none = SessionBound(.max)

    /// The most sessions of an account; `entitlement` is asked for only where it matters.
    package func most<Failure: Error>(at now: WallTime, _ entitlement: () throws(Failure) -> Entitlement?) throws(Failure) -> Int {
        guard !byTier.isEmpty, let tier = try entitlement()?.tier(at: now, graceSeconds: graceSeconds, order) else { return most }
        return byTier[tier] ?? most
    }

    /// Of the audit event of a session that ends so.
    package static let detail = "too-many"
    /// The most that one sign-in ends: an account that had many more before there was a bound comes down to it step by step.
    package static let maxAtOnce = 20

    /// The sessions that end so that one more fits, the longest unused first.
    package static func ending(_ open: [(id: UUID, lastUsedAt: WallTime)], most: Int) -> [UUID] {
        let excess = open.count + 1 - most
        guard excess > 0 else { return [] }
        return open.sorted { ($0.lastUsedAt, $0.id) < ($1.lastUsedAt, $1.id) }.prefix(min(excess, maxAtOnce)).map(\.id)
    }
}
