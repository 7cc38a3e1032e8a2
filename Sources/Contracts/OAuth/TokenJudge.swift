package import Accounts
import Credentials
package import Gate
package import Wire

/// Judges tokens on the control plane, by the rules of the workers: the same keys, issuers and tiers, and the same ended sessions.
///
/// Only access tokens are ever active. A refresh token is for the gateway alone, and an identity token for one upstream: a service
/// that asks about a bearer must hear that they are none.
package struct TokenJudge: Sendable {
    /// The parts of a running gateway that a judgement needs.
    package struct Sources: Sendable {
        /// The policy in force.
        package var policy: @Sendable () -> Policy
        package var tier: @Sendable (TokenUser) async -> UserTier
        package var subject: @Sendable (TokenUser) async -> SubjectStatus
        /// Whether an outside token was signed out here, by its id; nil if that cannot be known now.
        package var hasEnded: @Sendable (UUID) async -> Bool?
        /// The issuer, by its index in the policy's trust, signed with an unknown key.
        package var keysWanted: @Sendable (Int) -> Void
        package var now: @Sendable () -> WallTime

        package init(
            policy: @escaping @Sendable () -> Policy, tier: @escaping @Sendable (TokenUser) async -> UserTier,
            subject: @escaping @Sendable (TokenUser) async -> SubjectStatus,
            hasEnded: @escaping @Sendable (UUID) async -> Bool?, keysWanted: @escaping @Sendable (Int) -> Void,
            now: @escaping @Sendable () -> WallTime
        ) {
            self.policy = policy
            self.tier = tier
            self.subject = subject
            self.hasEnded = hasEnded
            self.keysWanted = keysWanted
            self.now = now
        }
    }

    private let sources: Sources
    private let sessions: Sessions

    package init(_ sources: Sources, sessions: Sessions) {
        self.sources = sources
        self.sessions = sessions
    }

    /// Verifies a token that its holder wants to revoke.
    func read(_ token: String) -> RevokedAccessToken {
        let policy = sources.policy()
        guard case .success(let verified) = verify(token, policy) else { return .none }
        guard policy.hasAccounts, verified.isOwn, !verified.hasActor, let session = CallerSession(verified) else {
            return .withoutSession
        }
        return .ofSession(session)
    }

    /// nil for a token that a gateway refuses as a bearer. Throws if that cannot be known now.
    func judge(_ token: String) async throws(AccountFailure) -> JudgedToken? {
        let policy = sources.policy()
        switch verify(token, policy) {
        case .success(let verified):
            return verified.isOwn ? try await own(verified, policy) : try await outside(verified, token, policy)
        case .failure(let fault):
            if let issuer = fault.issuerOfUnknownKey ?? fault.issuerWithoutKeys { sources.keysWanted(issuer) }
            if fault.issuerWithoutKeys != nil { throw .unavailable(retryAfterSeconds: 10) }
            return nil
        }
    }

    private func verify(_ token: String, _ policy: Policy) -> Result<VerifiedToken, TokenFault> {
        var verifier = TokenVerifier()
        let result = token.withRawBytes { verifier.verify($0, trust: policy.trust, now: sources.now()) }
        // A token for a resource alone is good there, and nowhere else.
        if case .success(let token) = result, token.audienceMask & Trust.ownAudience == 0 { return .failure(.wrongAudience) }
        return result
    }

    private func own(_ token: VerifiedToken, _ policy: Policy) async throws(AccountFailure) -> JudgedToken? {
        let issuer = policy.trust.issuers[token.issuerIndex]
        var judged = JudgedToken(token, issuer, audiences: issuer.audiences, policy)
        guard policy.hasAccounts, UUID(parsing: token.userID) != nil else { return judged }
        if let session = CallerSession(token) {
            guard let signIn = try await sessions.open(session) else { return nil }
            judged.client = signIn.session?.contract.name
            judged.username = signIn.account.emailConfirmedAt == nil ? nil : signIn.account.email?.text
            judged.username = judged.username ?? signIn.account.username?.text
        }
        let known = await sources.tier(TokenUser(judged.user))
        guard !known.marks.isBarred(at: sources.now()) else { return nil }
        switch known.status {
        case .tier(let tier, let until): judged.set(tier, until: until, at: sources.now(), policy)
        case .noAccount: break
        case .unavailable: throw .unavailable(retryAfterSeconds: 1)
        }
        return judged
    }

    private func outside(
        _ token: VerifiedToken, _ text: String, _ policy: Policy
    ) async throws(AccountFailure) -> JudgedToken? {
        let issuer = policy.trust.issuers[token.issuerIndex]
        let audiences = text.withRawBytes { UnverifiedClaims($0, userClaim: issuer.userClaim) }?.audiences ?? []
        var judged = JudgedToken(token, issuer, audiences: audiences, policy)
        let named = TokenUser(judged.user, of: issuer.name)
        var account: UUID?
        if policy.hasAccounts, issuer.hasAccounts {
            guard let id = text.withRawBytes({ VerifiedToken.id(of: $0) }) else { return nil }
            guard let hasEnded = await sources.hasEnded(id) else { throw .unavailable(retryAfterSeconds: 1) }
            if hasEnded { return nil }
            switch await sources.subject(named) {
            case .account(let found): account = found
            case .unknown: break
            case .refused: return nil
            case .unavailable: throw .unavailable(retryAfterSeconds: 1)
            }
        }
        if let account { judged.user = account.text }
        let source = policy.tierSources[token.issuerIndex]
        guard source != .claim else { return judged }
        switch await sources.tier(source == .account ? account.map { TokenUser($0.text) } ?? named : named).status {
        case .tier(let tier, let until): judged.set(tier, until: until, at: sources.now(), policy)
        case .noAccount: judged.set(.lowest, until: .max, at: sources.now(), policy)
        case .unavailable: judged.tier = nil
        }
        return judged
    }
}

/// An access token that a gateway accepts, and what it means here.
struct JudgedToken {
    private let token: VerifiedToken
    private let issuer: String?
    private let audiences: [String]
    /// The user as upstreams learn it.
    var user: String
    /// The tier's name, and whether it is premium; nil if unknown.
    var tier: (name: String, isPremium: Bool)?
    /// The contract that opened the session.
    var client: String?
    var username: String?

    /// With the tier that the token claims.
    init(_ token: VerifiedToken, _ issuer: TrustedIssuer, audiences: [String], _ policy: Policy) {
        self.token = token
        self.issuer = issuer.issuer
        self.audiences = audiences
        user = token.userID.text
        let claimed = policy.tiers.rank(of: token.tier) ?? .lowest
        tier = (policy.tiers.name(of: claimed), policy.tiers.isPremium(claimed))
    }

    /// `until` is in seconds since 1970; then the tier is the lowest.
    mutating func set(_ tier: Tier, until: Int64, at now: WallTime, _ policy: Policy) {
        let current = now.seconds < until ? tier : .lowest
        self.tier = (policy.tiers.name(of: current), policy.tiers.isPremium(current))
    }

    /// Writes the members of an answer (RFC 7662 §2.2) but for `active`.
    func write(to json: inout JSONWriter) {
        json.field("token_type", token.owner == nil ? "Bearer" : "DPoP" as StaticString)
        token.owner?.writeConfirmation(to: &json)
        json.optional("iss", issuer)
        json.field("sub", user)
        if audiences.count == 1 {
            json.field("aud", audiences[0])
        } else if !audiences.isEmpty {
            json.array("aud", audiences) { $0.string($1) }
        }
        json.field("exp", Int(token.expiresAt))
        if let issuedAt = token.issuedAt { json.field("iat", Int(issuedAt)) }
        if let signedInAt = token.authenticatedAt { json.field("auth_time", Int(signedInAt)) }
        Self.write("jti", token.tokenID, &json)
        Self.write("sid", token.sessionID, &json)
        json.optional("client_id", client)
        json.optional("username", username)
        if let tier {
            json.field("tier", tier.name)
            json.field("premium", tier.isPremium)
        }
        guard token.actorType.byteCount > 0 || token.actorID.byteCount > 0 else { return }
        json.key("act" as StaticString)
        json.beginObject()
        Self.write("sub", token.actorID, &json)
        Self.write("actor_type", token.actorType, &json)
        json.endObject()
    }

    private static func write(_ name: StaticString, _ text: RawSpan, _ json: inout JSONWriter) {
        if text.byteCount > 0 { json.field(name, text) }
    }
}

extension CallerSession {
    /// nil if the token names no session of ours.
    fileprivate init?(_ token: VerifiedToken) {
        guard let user = UUID(parsing: token.userID), let session = UUID(parsing: token.sessionID) else { return nil }
        self.init(user: user, session: session)
    }
}
