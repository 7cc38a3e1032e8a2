import Credentials
import HTTP
import Wire

/// Request to refresh an expired token before its HTTP request continues.
package struct RefreshOrder: Sendable, Hashable {
    /// Name of the issuer's trust line, or the gateway's own.
    package var issuer: String
    package var isOwn: Bool
    package var user: String
    /// `sid`; empty if it has none.
    package var session: String
    /// The caller's `X-Refresh-Token`.
    package var token: [UInt8]

    package init(issuer: String, isOwn: Bool, user: String, session: String, token: [UInt8]) {
        self.issuer = issuer
        self.isOwn = isOwn
        self.user = user
        self.session = session
        self.token = token
    }
}

/// Tokens that an auth server issued for a refresh token; not verified yet.
package struct RefreshedTokens: Sendable, Hashable {
    package var access: [UInt8]
    /// nil if the refresh token stays valid.
    package var refresh: [UInt8]?

    package init(access: [UInt8], refresh: [UInt8]?) {
        self.access = access
        self.refresh = refresh
    }

    /// Whether a refresh token may be a header value: visible ASCII, at most 8 KiB.
    package static func isSendable(_ token: [UInt8]) -> Bool {
        (1...8_192).contains(token.count) && token.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }
}

/// Result of a refresh.
package enum TokenRefreshOutcome: Sendable, Hashable {
    case refreshed(RefreshedTokens)
    /// Definite refusal: the token is invalid.
    case refused
    /// The auth server was late, down or not understood.
    case unavailable(retryAfterSeconds: UInt32)
}

/// Role of this request in the single flight of a refresh.
package enum RefreshRole: UInt8, CaseIterable, Sendable {
    /// No refresh was needed.
    case none
    case leader
    /// Another request of this gateway refreshed.
    case follower
    /// Another gateway refreshed.
    case remote

    package var text: StaticString {
        switch self {
        case .none: "none"
        case .leader: "leader"
        case .follower, .remote: "follower"
        }
    }
}

/// Result of a refresh order. A class, so that an idle connection stores one pointer for it.
package final class RefreshAnswer: Sendable {
    package let outcome: TokenRefreshOutcome
    package let role: RefreshRole

    package init(_ outcome: TokenRefreshOutcome, _ role: RefreshRole) {
        self.outcome = outcome
        self.role = role
    }
}

/// Transparent refresh: only of an expired token, and only for an internal caller that sent a refresh token.
extension Admission {
    /// Reads `X-Refresh-Token` of an internal caller into the decision, unless it is unusable. Ignored from any other
    /// caller.
    mutating func readRefreshToken(_ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer, _ decision: inout Decision) {
        guard let index = head.fields.first(.xRefreshToken) else { return }
        if decision.internalCaller < 0 {
            decision.internalCaller = InternalCaller.match(
                policy.internals, head, bytes, decision.client, peer.certificateNames)
        }
        guard decision.internalCaller >= 0 else { return }
        decision.offersRefresh = true
        let value = head.fields[index].value
        // Two refresh tokens are ambiguous.
        guard !head.fields.isRepeated(.xRefreshToken), RefreshedTokens.isSendable(bytes[value].array) else { return }
        decision.refreshToken = value
    }

    /// Handles a token that is valid but expired: asks for a refresh, or applies its result. Returns whether the request
    /// continues.
    mutating func applyRefresh(
        _ expired: VerifiedToken, _ answer: RefreshAnswer?, _ now: WallTime, _ decision: inout Decision
    ) -> Bool {
        let identity = Identity(
            expired, RawSpan(), trust: policy.trust, tiers: policy.tiers, hash: hash, edits: &decision.identityLines)
        guard let identity else { return refuse(.unsafeClaim, &decision) }
        guard identity.audiences & policy.gates[decision.routeIndex].audiences != 0 else { return refuse(.wrongAudience, &decision) }
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
        case .refreshed(let tokens): return adopt(tokens, insteadOf: identity, now, &decision)
        }
    }

    /// Verifies the new token; it must have the same user, session and actor.
    private mutating func adopt(
        _ tokens: RefreshedTokens, insteadOf expired: Identity, _ now: WallTime, _ decision: inout Decision
    ) -> Bool {
        swap(&decision.identityLines, &expiredLines)
        decision.removeIdentity()
        guard readRefreshed(tokens.access.rawBytes, now, &decision), let identity = decision.identity else {
            return refuseUnrefreshed(Self.refreshRetrySeconds, &decision)
        }
        guard identity.isSame(as: expired, decision.identityLines, expiredLines) else {
            decision.removeIdentity()
            decision.refuse(.unauthorized(.token(.expired)), .refused, .refreshMismatch)
            return false
        }
        guard identity.audiences & policy.gates[decision.routeIndex].audiences != 0 else { return refuse(.wrongAudience, &decision) }
        guard isLive(identity, now, &decision) else { return false }
        decision.auth = .accepted
        decision.refreshed = tokens
        decision.addTokens(tokens, expiresAt: identity.expiresAt)
        return true
    }

    /// Verifies without caching, so that the client's first use confirms delivery.
    private mutating func readRefreshed(_ token: RawSpan, _ now: WallTime, _ decision: inout Decision) -> Bool {
        switch verifier.verify(token, trust: policy.trust, now: now) {
        case .success(let verified):
            decision.verifiedAlgorithm = verifier.lastAlgorithm
            decision.owner = verified.owner
            decision.identity = Identity(
                verified, token, trust: policy.trust, tiers: policy.tiers, hash: hash, edits: &decision.identityLines)
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

    /// The order for a decision `.refresh`; `bytes` are the head's.
    package func refreshOrder(_ decision: borrowing Decision, _ bytes: RawSpan) -> RefreshOrder {
        let issuer = decision.identity.map { policy.trust.issuers[Int($0.issuerIndex)] }
        return RefreshOrder(
            issuer: issuer?.name ?? "", isOwn: issuer?.isOwn ?? false, user: decision.userID.text,
            session: decision.sessionID.text, token: bytes[decision.refreshToken].array)
    }
}

extension Policy {
    /// Whether this token can be refreshed: by a configured auth server, or, if the gateway issued it, by the session it
    /// names. A refresh never issues a token with an actor.
    func refreshes(_ token: VerifiedToken) -> Bool {
        guard token.isOwn else { return refreshers.contains(trust.issuers[token.issuerIndex].name) }
        return hasAccounts && !token.hasActor && UUID(parsing: token.sessionID) != nil && UUID(parsing: token.userID) != nil
    }
}

extension Identity {
    /// Whether both tokens have the same user, actor, and session where both name one.
    fileprivate func isSame(as other: Identity, _ lines: borrowing FieldEdits, _ otherLines: borrowing FieldEdits) -> Bool {
        func agree(_ header: IdentityHeader) -> Bool { lines[fields[header]].equals(otherLines[other.fields[header]]) }
        let hasSessions = !fields[.sessionID].isEmpty && !other.fields[.sessionID].isEmpty
        return issuerIndex == other.issuerIndex && agree(.userID) && (!hasSessions || agree(.sessionID)) && agree(.actorType)
            && agree(.actorID)
    }
}

extension Decision {
    /// Returns the new tokens to the caller, uncacheable.
    fileprivate mutating func addTokens(_ tokens: RefreshedTokens, expiresAt: Int64) {
        answerEdits.add("Cache-Control", "no-store")
        answerEdits.add("X-New-Access-Token", tokens.access.rawBytes)
        if let refresh = tokens.refresh { answerEdits.add("X-New-Refresh-Token", refresh.rawBytes) }
        answerEdits.add("X-New-Token-Expires-At", decimal: Int(expiresAt))
    }

    /// Forwards the client's `Authorization`, or its token from elsewhere in the head, replaces it by the new token, or removes it, as the
    /// route says.
    mutating func editAuthorization(_ head: RawSpan) {
        guard forwardsAuthorization else { return requestEdits.remove(.authorization) }
        if let tokens = refreshed {
            addAuthorization(tokens.access.rawBytes)
        } else if let token = handshake?.token {
            addAuthorization(head[token])
        }
    }

    private mutating func addAuthorization(_ token: RawSpan) {
        requestEdits.remove(.authorization)
        requestEdits.begin("Authorization")
        requestEdits.append("Bearer ")
        requestEdits.append(token)
        requestEdits.end()
    }
}
