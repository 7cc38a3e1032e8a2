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

    /// An account's tier. One that is not configured counts as the lowest. Without an entitlement there is no account: of an
    /// own user it was deleted, which is final, because its id is never used again; an outside issuer's may be made later.
    package func status(
        of user: TokenUser, _ entitlement: Entitlement?, _ source: UserTier.Source, at now: WallTime
    ) -> UserTier {
        guard let entitlement else {
            return UserTier(
                user: user, status: .noAccount, version: user.issuer == nil ? .max : -1, source: source, learnedAt: now.seconds)
        }
        return UserTier(
            user: user, status: status(entitlement.tier, until: entitlement.until), version: entitlement.version, source: source,
            learnedAt: now.seconds)
    }

    /// The answer of a tier server.
    package func status(of user: TokenUser, _ known: KnownTier) -> UserTier {
        UserTier(user: user, status: status(known.name, until: nil), version: 0, learnedAt: known.askedAt.seconds, freshUntil: known.freshUntil)
    }

    private func status(_ tier: String?, until: WallTime?) -> TierStatus {
        .tier(tier.flatMap { tiers.rank(of: $0) } ?? .lowest, until: until.map { $0.seconds + graceSeconds } ?? .max)
    }
}
