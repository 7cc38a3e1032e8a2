import Credentials
import HTTP
package import Wire

/// The part of an identity that only tokens have whose issuer's subjects stand for accounts (`accounts=on`).
package struct OutsideIdentity: Sendable {
    /// The id under which the token can be refused.
    package let tokenID: UUID
    /// Its key in the list of ended sessions.
    let endKey: LimitKey
    /// The key of the trust line and the subject.
    let subject: LimitKey

    /// `text` is the token as it was sent.
    init?(_ token: VerifiedToken, _ text: RawSpan, _ issuer: TrustedIssuer, own: String, _ hash: KeyedHash) {
        guard issuer.hasAccounts, let id = VerifiedToken.id(of: text) else { return nil }
        tokenID = id
        endKey = id.text.withRawBytes { LimitSubject.session($0, issuer: own, hash) }
        subject = LimitSubject.subject(token.userID, of: issuer.name, hash)
    }
}

extension Admission {
    /// Finds the account of an outside identity. False if the request is refused, or waits for the look-up (`.lookUp`).
    mutating func findAccount(
        _ outside: OutsideIdentity, _ now: Int64, _ tierKey: inout LimitKey?, _ decision: inout Decision
    ) -> Bool {
        guard !revoked.contains(outside.endKey) else {
            decision.sessionEndedAt = revoked.endedAt(outside.endKey)
            return refuseEnded(&decision)
        }
        guard let known = subjects.find(outside.subject, at: now, hash) else {
            decision.verdict = .lookUp
            decision.effects.asksSubject = true
            return false
        }
        switch known.status {
        case .account(let id):
            decision.account = id
            tierKey = known.tierKey
            return true
        case .unknown: return true
        case .refused: return refuseEnded(&decision)
        case .unavailable:
            let refusal = Refusal.unavailable(.accounts, retryAfterSeconds: Self.accountsRetrySeconds)
            decision.removeIdentity()
            decision.refuse(refusal, .unavailable, .accountsUnavailable)
            return false
        }
    }

    private func refuseEnded(_ decision: inout Decision) -> Bool {
        decision.refuse(.unauthorized(.revoked), .refused, .revoked)
        return false
    }

    /// Whether a decision `.lookUp` asks for the account of the subject, not for a tier.
    package func asksSubject(_ decision: borrowing Decision) -> Bool { decision.effects.asksSubject }

    package mutating func learn(_ known: [KnownSubject]) {
        for known in known {
            guard let issuer = known.user.issuer else { continue }
            var key: LimitKey?
            if case .account(let id) = known.status { key = tierKey(of: TokenUser(id.text)) }
            subjects.learn(
                known.status, of: LimitSubject.subject(known.user.bytes, of: issuer, hash), tierKey: key, at: known.learnedAt)
        }
    }
}

extension Decision {
    /// The field of the user gets the id of the account that was found.
    mutating func replaceUser() {
        guard let account, identity != nil else { return }
        var subject = ByteBuffer()
        swap(&subject, &subjectBytes)
        subject.append(userID)
        swap(&subject, &subjectBytes)
        identity?.fields.replaceUser(account, in: &identityLines)
    }
}
