package import Accounts
package import Gate
package import Wire

/// How an account's tier name becomes what workers compare: the configured tiers, and the grace after a tier's end.
package struct TierScale: Sendable {
    private let tiers: TierList
    private let graceSeconds: Int64
    /// How long a deleted account counts as gone before it is looked up, in seconds: an import may make it again.
    private static let deletedSeconds: Int64 = 10

    package init(tiers: TierList, graceSeconds: Int64) {
        self.tiers = tiers
        self.graceSeconds = graceSeconds
    }

    /// An account's tier. One that is not configured counts as the lowest. Without an entitlement there is no account: an
    /// own user's was deleted, which is newer than any answer about it that is under way; an outside issuer's may be made later.
    package func status(
        of user: TokenUser, _ entitlement: Entitlement?, _ source: UserTier.Source, at now: WallTime
    ) -> UserTier {
        guard let entitlement else {
            // In whole seconds, as the age of the answer to the next question is.
            let freshUntil = source == .pushed ? WallTime(seconds: now.seconds + Self.deletedSeconds) : nil
            return UserTier(
                user: user, status: .noAccount, version: user.issuer == nil ? .max : -1, source: source, learnedAt: now.seconds,
                freshUntil: freshUntil)
        }
        return UserTier(
            user: user, status: status(entitlement.tier, until: entitlement.until), version: entitlement.version, source: source,
            learnedAt: now.seconds)
    }

    /// An own account's tier and email; nil if there is none.
    package func status(
        of user: TokenUser, standing: AccountStanding?, _ source: UserTier.Source, at now: WallTime
    ) -> UserTier {
        var status = status(of: user, standing?.entitlement, source, at: now)
        if let standing { status.email = standing.email?.text ?? "" }
        return status
    }

    /// The answer of a tier server.
    package func status(of user: TokenUser, _ known: KnownTier) -> UserTier {
        UserTier(
            user: user, status: status(known.name, until: nil), version: 0, learnedAt: known.askedAt.seconds, freshUntil: known.freshUntil)
    }

    private func status(_ tier: String?, until: WallTime?) -> TierStatus {
        .tier(tier.flatMap { tiers.rank(of: $0) } ?? .lowest, until: until.map { $0.seconds + graceSeconds } ?? .max)
    }
}
