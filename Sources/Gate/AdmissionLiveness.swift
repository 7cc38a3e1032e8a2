import Credentials
import HTTP
import Wire

/// What the accounts say of a token that holds: whether its session still stands, and what tier its user has now.
extension Admission {
    /// How long a client is told to wait for accounts that cannot be asked.
    static var accountsRetrySeconds: UInt32 { 1 }

    /// Whether the token still counts; leaves the tier in the decision, and the lines that tell the upstream of it.
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

    /// Tokens of these sessions are refused from now on. `now` is in seconds since 1970.
    package mutating func revoke(_ sessions: [RevokedSession], at now: Int64) {
        for session in sessions {
            let key = session.id.withRawBytes { LimitSubject.session($0, issuer: ownIssuer, limiter.hash) }
            revoked.insert(key, until: session.until, endedAt: session.endedAt, at: now)
        }
    }

    /// Takes in what the accounts say of users.
    package mutating func learn(_ users: [UserTier]) {
        for user in users {
            let key = user.user.withRawBytes { LimitSubject.user($0, issuer: ownIssuer, limiter.hash) }
            tierCache.learn(user, of: key)
        }
    }

    /// Whoever comes next is asked for anew.
    package mutating func forgetUsers() { tierCache.removeAll() }

    /// As identities of the gateway's own name their issuer.
    private var ownIssuer: String {
        policy.trust.issuers.first(where: \.isOwn).map { $0.issuer ?? $0.name } ?? ""
    }
}
