internal import Credentials
package import Wire

/// Guests: accounts that an installation of an app opened and that nothing signs in to. A guest becomes an account by its first way to sign in,
/// and keeps its id; or its user merges it into the account that is there already.
package enum GuestRule {
    /// So many merges of one account are announced at once.
    package static let mostMerges = 64

    /// A password alone signs in to nothing: it goes with an email or a username.
    package static func isGuest(_ account: Account, hasIdentities: Bool) -> Bool {
        account.openedBy == .anonymous && account.email == nil && account.phone == nil && account.username == nil && account.passkeys == 0
            && !hasIdentities
    }

    /// `account` with what it gets of `guest`, but for the grants of purchases, which follow those. Merges of the guest that are announced
    /// are announced of the account.
    package static func merged(_ guest: Account, into account: Account, _ order: TierOrder, at now: WallTime) -> Account {
        var merged = account
        merged.attributes = account.attributes.completed(by: guest.attributes)
        merged.language = account.language ?? guest.language
        merged.entitlement = account.entitlement.withBetterOperatorGrant(of: guest.entitlement, order, at: now)
        let end = now.advanced(seconds: Merge.announcedSeconds)
        merged.merges = account.merges + guest.merges + [Merge(from: guest.id, until: end)]
        merged.updatedAt = now
        return merged
    }

    /// The account of a guest that signs up with what `new` has.
    package static func joined(_ guest: Account, as new: NewAccount, now: WallTime) -> Account {
        var account = guest
        account.email = new.email
        account.username = new.username
        account.hasPassword = new.passwordHash != nil
        account.metadata = new.metadata
        account.updatedAt = now
        return account
    }
}

extension Entitlement {
    /// With the operator's grant of the other one, if that is the better of the two at `now`.
    fileprivate func withBetterOperatorGrant(of other: Entitlement, _ order: TierOrder, at now: WallTime) -> Entitlement {
        let both = [self, other].flatMap { $0.grants.filter { $0.source == Grant.operator } }
        guard let best = Entitlement(tier: nil, until: nil, version: 0, purchased: both).grant(at: now, order) else { return self }
        return Entitlement(tier: best.tier, until: best.until, version: version, purchased: purchased)
    }
}
