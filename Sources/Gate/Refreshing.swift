import Credentials
import HTTP
import Wire

/// An expired token that is to be refreshed before its request goes on, and with what.
package struct RefreshOrder: Sendable, Hashable {
    /// Who issued it, by the name of its trust line, or the gateway's own.
    package var issuer: String
    package var isOwn: Bool
    package var user: String
    /// `sid`; empty if it has none.
    package var session: String
    /// What the caller sent as `X-Refresh-Token`.
    package var token: [UInt8]

    package init(issuer: String, isOwn: Bool, user: String, session: String, token: [UInt8]) {
        self.issuer = issuer
        self.isOwn = isOwn
        self.user = user
        self.session = session
        self.token = token
    }
}

/// The tokens that an auth server gave in exchange for a refresh token. Nobody has looked at them yet.
package struct RefreshedTokens: Sendable, Hashable {
    package var access: [UInt8]
    /// nil: the one that was sent stays.
    package var refresh: [UInt8]?

    package init(access: [UInt8], refresh: [UInt8]?) {
        self.access = access
        self.refresh = refresh
    }

    /// A refresh token that may stand in a header: visible ASCII, and not too much of it.
    package static func isSendable(_ token: [UInt8]) -> Bool {
        (1...8_192).contains(token.count) && token.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }
}

/// What came of a refresh.
package enum TokenRefreshOutcome: Sendable, Hashable {
    case refreshed(RefreshedTokens)
    /// A definite no.
    case refused
    /// The auth server was late, away or not understood.
    case unavailable(retryAfterSeconds: UInt32)
}

/// Whose work brought an outcome.
package enum RefreshRole: UInt8, CaseIterable, Sendable {
    /// The token was good still.
    case none
    case leader
    /// Another request's.
    case follower
    /// Another gateway's.
    case remote

    package var text: StaticString {
        switch self {
        case .none: "none"
        case .leader: "leader"
        case .follower, .remote: "follower"
        }
    }
}

/// The answer to an order. A class, so that a connection at rest holds no more than a pointer for it.
package final class RefreshAnswer: Sendable {
    package let outcome: TokenRefreshOutcome
    package let role: RefreshRole

    package init(_ outcome: TokenRefreshOutcome, _ role: RefreshRole) {
        self.outcome = outcome
        self.role = role
    }
}

/// Only an expired token is refreshed, and only for an internal caller that sent a refresh token along.
extension Admission {
    /// Whether an internal caller sent `X-Refresh-Token`; leaves in the decision where it stands, unless it is unusable.
    /// From anybody else it counts for nothing.
    mutating func noteRefreshToken(_ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer, _ decision: inout Decision) {
        guard let index = head.fields.first(.xRefreshToken) else { return }
        if decision.internalCaller < 0 {
            decision.internalCaller = InternalCaller.match(
                policy.internals, head, bytes, decision.client, peer.certificateNames)
        }
        guard decision.internalCaller >= 0 else { return }
        decision.offersRefresh = true
        let value = head.fields[index].value
        // Of two nobody can say which is meant.
        guard !head.fields.isRepeated(.xRefreshToken), RefreshedTokens.isSendable(bytes[value].array) else { return }
        decision.refreshToken = value
    }

    /// The token is good but for its age: asks for a refresh, or takes what came of one. Answers whether the request may
    /// go on.
    mutating func applyRefresh(
        _ expired: VerifiedToken, _ answer: RefreshAnswer?, _ now: WallTime, _ decision: inout Decision
    ) -> Bool {
        let identity = Identity(
            expired, trust: policy.trust, tiers: policy.tiers, hash: limiter.hash, edits: &decision.requestEdits)
        guard let identity else { return refuse(.unsafeClaim, &decision) }
        guard policy.refreshes(expired) else { return refuse(.expired, &decision) }
        if identity.isOwn && revoked.contains(identity.session) {
            decision.sessionEndedAt = revoked.endedAt(identity.session)
            decision.refuse(.unauthorized(.revoked), .refused, .revoked)
            return false
        }
        guard let answer else {
            decision.identity = identity
            decision.verdict = .refresh
            return false
        }
        decision.refreshRole = answer.role
        switch answer.outcome {
        case .refused: return refuse(.expired, &decision)
        case .unavailable(let seconds): return refuseUnrefreshed(seconds, &decision)
        case .refreshed(let tokens): return take(tokens, instead: identity, now, &decision)
        }
    }

    /// The new token is looked at like any other, and must be of the same user, session and actor.
    private mutating func take(
        _ tokens: RefreshedTokens, instead expired: Identity, _ now: WallTime, _ decision: inout Decision
    ) -> Bool {
        swap(&decision.requestEdits, &expiredEdits)
        decision.removeIdentity()
        guard readRefreshed(tokens.access.rawBytes, now, &decision), let identity = decision.identity else {
            return refuseUnrefreshed(Self.refreshRetrySeconds, &decision)
        }
        guard identity.isSame(as: expired, decision.requestEdits.http1, expiredEdits.http1) else {
            decision.removeIdentity()
            decision.refuse(.unauthorized(.token(.expired)), .refused, .refreshMismatch)
            return false
        }
        guard isLive(identity, now.seconds, &decision) else { return false }
        decision.auth = .accepted
        decision.refreshed = tokens
        decision.addTokens(tokens, expiresAt: identity.expiresAt)
        return true
    }

    /// Verifies a token that is only on its way to its owner: it is not remembered and counts as not seen, so that the
    /// first request that brings it tells that it has arrived.
    private mutating func readRefreshed(_ token: RawSpan, _ now: WallTime, _ decision: inout Decision) -> Bool {
        switch verifier.verify(token, trust: policy.trust, now: now) {
        case .success(let verified):
            decision.verifiedAlgorithm = verifier.lastAlgorithm
            decision.identity = Identity(
                verified, trust: policy.trust, tiers: policy.tiers, hash: limiter.hash, edits: &decision.requestEdits)
            if let key = verified.keyID { decision.keyBytes.append(key) }
            return decision.identity != nil
        case .failure(let fault):
            if let issuer = fault.issuerOfUnknownKey ?? fault.issuerWithoutKeys { decision.effects.keysWanted = issuer }
            return false
        }
    }

    private static var refreshRetrySeconds: UInt32 { 1 }

    private func refuseUnrefreshed(_ seconds: UInt32, _ decision: inout Decision) -> Bool {
        decision.removeIdentity()
        decision.refuse(.unavailable(.refresh, retryAfterSeconds: seconds), .unavailable, .refreshUnavailable)
        return false
    }

    /// What to ask for, of a decision that says `.refresh`; `bytes` are the head's.
    package func refreshOrder(_ decision: borrowing Decision, _ bytes: RawSpan) -> RefreshOrder {
        let issuer = decision.identity.map { policy.trust.issuers[Int($0.issuerIndex)] }
        return RefreshOrder(
            issuer: issuer?.name ?? "", isOwn: issuer?.isOwn ?? false, user: decision.userID.text,
            session: decision.sessionID.text, token: bytes[decision.refreshToken].array)
    }
}

extension Policy {
    /// Whether there is somebody who could refresh this token: for the gateway's own, the session that it names, of which no
    /// refresh brings a token with which to act as somebody.
    func refreshes(_ token: VerifiedToken) -> Bool {
        guard token.isOwn else { return refreshers.contains(trust.issuers[token.issuerIndex].name) }
        return hasAccounts && !token.hasActor && UUID(parsing: token.sessionID) != nil && UUID(parsing: token.userID) != nil
    }
}

extension Identity {
    /// Whether both tokens speak of one user, in one session where both name one, and of one actor.
    fileprivate func isSame(as other: Identity, _ fields: RawSpan, _ otherFields: RawSpan) -> Bool {
        let hasSessions = sessionID.count > 0 && other.sessionID.count > 0
        return issuerIndex == other.issuerIndex && fields[userID].equals(otherFields[other.userID])
            && (!hasSessions || fields[sessionID].equals(otherFields[other.sessionID]))
            && fields[actor].equals(otherFields[other.actor])
    }
}

extension Decision {
    /// Brings the new tokens to the caller, and to no cache on the way.
    fileprivate mutating func addTokens(_ tokens: RefreshedTokens, expiresAt: Int64) {
        answerEdits.add("Cache-Control", "no-store")
        answerEdits.add("X-New-Access-Token", tokens.access.rawBytes)
        if let refresh = tokens.refresh { answerEdits.add("X-New-Refresh-Token", refresh.rawBytes) }
        answerEdits.add("X-New-Token-Expires-At", decimal: Int(expiresAt))
    }

    /// The upstream gets the client's `Authorization`, the new token in its place, or none, as the route has it.
    mutating func editAuthorization() {
        guard forwardsAuthorization else { return requestEdits.remove(.authorization) }
        guard let tokens = refreshed else { return }
        requestEdits.remove(.authorization)
        requestEdits.begin("Authorization")
        requestEdits.append("Bearer ")
        requestEdits.append(tokens.access.rawBytes)
        requestEdits.end()
    }
}
