package import Accounts
package import Gate
package import Wire

/// How an account's tier name becomes what workers compare: the configured tiers, and the grace after a tier's end.
package struct TierScale: Sendable {
    private let tiers: TierList
    private let graceSeconds: Int64

    package init(tiers: TierList, graceSeconds: Int64) {
        self.tiers = tiers
        self.graceSeconds = graceSeconds
    }

    /// A tier that is not configured counts as the lowest. `user` is the `sub` of the account's tokens; without an
    /// entitlement the account was deleted, which is final, because its id is never used again.
    package func status(
        of user: String, _ entitlement: Entitlement?, _ source: UserTier.Source, at now: WallTime
    ) -> UserTier {
        guard let entitlement else {
            return UserTier(user: user, status: .noAccount, version: .max, source: source, learnedAt: now.seconds)
        }
        let tier = entitlement.tier.flatMap { tiers.rank(of: $0) } ?? .lowest
        let until = entitlement.until.map { $0.seconds + graceSeconds } ?? .max
        return UserTier(
            user: user, status: .tier(tier, until: until), version: entitlement.version, source: source,
            learnedAt: now.seconds)
    }
}
