import Credentials
import HTTP
import Wire

/// Checks of a verified token against the accounts: whether its session was revoked, and the user's current tier.
extension Admission {
    /// `Retry-After` when the accounts cannot be read, in seconds.
    static var accountsRetrySeconds: UInt32 { 1 }

    /// Whether the session was not revoked; sets the tier of the decision and its fields for the upstream. False with
    /// `.lookUp` if the tier must be looked up first.
    mutating func isLive(_ identity: Identity, _ now: Int64, _ decision: inout Decision) -> Bool {
        if identity.isOwn && revoked.contains(identity.session) {
            decision.sessionEndedAt = revoked.endedAt(identity.session)
            decision.refuse(.unauthorized(.revoked), .refused, .revoked)
            return false
        }
        guard policy.hasAccounts && identity.mayHaveAccount else {
            decision.tierOrigin = .claim
            set(identity.tier, &decision)
            return true
        }
        guard let known = tierCache.status(of: identity.user, at: now) else {
            decision.verdict = .lookUp
            return false
        }
        decision.tierOrigin = known.origin
        switch known.status {
        case .noAccount: set(identity.tier, &decision)
        case .tier(let tier, _): set(tier, &decision)
        case .unavailable: break
        }
        return true
    }

    private func set(_ tier: Tier, _ decision: inout Decision) {
        let texts = policy.texts
        decision.tier = tier
        decision.requestEdits.append(rendered: texts.rawBytes[policy.tierLines[min(Int(tier.rawValue), policy.tierLines.count - 1)]])
    }

    /// Refuses tokens of these sessions from now on. `now` is in seconds since 1970.
    package mutating func revoke(_ sessions: [RevokedSession], at now: Int64) {
        for session in sessions {
            let key = session.id.withRawBytes { LimitSubject.session($0, issuer: ownIssuer, limiter.hash) }
            revoked.insert(key, until: session.until, endedAt: session.endedAt, at: now)
        }
    }

    /// Updates the tier cache.
    package mutating func learn(_ users: [UserTier]) {
        for user in users {
            let key = user.user.withRawBytes { LimitSubject.user($0, issuer: ownIssuer, limiter.hash) }
            tierCache.learn(user, of: key)
        }
    }

    /// Empties the tier cache, so that every user is looked up again.
    package mutating func forgetUsers() { tierCache.removeAll() }

    /// The issuer of the gateway's own tokens, as identities name it.
    private var ownIssuer: String {
        policy.trust.issuers.first(where: \.isOwn).map { $0.issuer ?? $0.name } ?? ""
    }
}
