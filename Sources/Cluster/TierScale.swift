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
        let (status, freshUntil) = status(of: entitlement.grants, at: now)
        return UserTier(
            user: user, status: status, version: entitlement.version, source: source, learnedAt: now.seconds, freshUntil: freshUntil)
    }

    /// The highest tier in force, to its end. Where a lower one goes on from there, the tier is looked up again at that second.
    private func status(of grants: [Grant], at now: WallTime) -> (TierStatus, freshUntil: WallTime?) {
        let all = grants.map { (rank: rank(of: $0.tier), end: end(of: $0.until)) }
        // In whole seconds, as workers compare them: a grant that is over for them must not be sent to them again.
        let held = all.filter { $0.end > now.seconds }
        let best = held.max { ($0.rank, $0.end) < ($1.rank, $1.end) } ?? all.max { $0.end < $1.end }
        guard let best else { return (.tier(.lowest, until: .max), nil) }
        let goesOn = held.contains { $0.rank > .lowest && $0.end > best.end }
        return (.tier(best.rank, until: best.end), goesOn ? WallTime(seconds: best.end) : nil)
    }

    /// An own account's tier, email and marks; nil if there is none.
    package func status(
        of user: TokenUser, standing: AccountStanding?, _ source: UserTier.Source, at now: WallTime
    ) -> UserTier {
        var status = status(of: user, standing?.entitlement, source, at: now)
        guard let standing else {
            // A push without a standing tells of an erasure.
            if source == .pushed { status.marks = AccountMarks(.erased) }
            return status
        }
        status.email = standing.email?.text ?? ""
        status.marks = AccountMarks(standing)
        if standing == .erased { status.freshUntil = WallTime(seconds: now.seconds + Self.deletedSeconds) }
        return status
    }

    /// The answer of a tier server.
    package func status(of user: TokenUser, _ known: KnownTier) -> UserTier {
        UserTier(
            user: user, status: .tier(known.name.map(rank) ?? .lowest, until: .max), version: 0, learnedAt: known.askedAt.seconds,
            freshUntil: known.freshUntil)
    }

    private func rank(of tier: String) -> Tier { tiers.rank(of: tier) ?? .lowest }
    /// The whole second from which on it is over, and not before.
    private func end(of until: WallTime?) -> Int64 {
        guard let end = until?.advanced(seconds: graceSeconds) else { return .max }
        return end.seconds + (end > WallTime(seconds: end.seconds) ? 1 : 0)
    }
}

extension AccountMarks {
    fileprivate init(_ standing: AccountStanding) {
        let bar: Bar? = standing.isClosed ? .closed : standing.ban.map { .banned(until: $0.until) }
        self.init(
            bar: bar, attributes: standing.attributes == .none ? [] : standing.attributes.json,
            merges: standing.merges.map { AnnouncedMerge(from: $0.from, until: $0.until.seconds) })
    }
}
