package import Credentials
internal import Wire

/// The tokens of a session that a contract hands out.
package struct TokenPair: Sendable, Equatable {
    package let access: String
    /// Lifetime of the access token in seconds, and its `exp`.
    package let accessSeconds: Int64
    package let accessExpiresAt: Int64
    /// nil for sessions that are not refreshed.
    package let refresh: String?
}

/// A session and its current tokens.
package struct SessionGrant: Sendable, Equatable {
    package let session: Session
    package let tokens: TokenPair
}

/// Issues access and refresh tokens of sessions, and verifies refresh tokens. Any thread.
package struct TokenMint: Sendable {
    private let issuer: String
    private let audience: String
    private let signingKey: @Sendable () -> SigningKey
    private let refreshKeys: RefreshTokenKeys
    private let refreshJWTs: RefreshJWTs
    private let policies: SessionPolicies
    /// Whether access tokens have the user's name.
    private let tellsNames: Bool
    private let random: RandomBytes

    /// `signingKey` returns the active signing key.
    package init(
        issuer: String, audience: String, signingKey: @escaping @Sendable () -> SigningKey,
        refreshKeys: RefreshTokenKeys, refreshJWTs: RefreshJWTs, policies: SessionPolicies = SessionPolicies(),
        tellsNames: Bool = false, random: @escaping RandomBytes = SecureRandom.bytes
    ) {
        self.issuer = issuer
        self.audience = audience
        self.signingKey = signingKey
        self.refreshKeys = refreshKeys
        self.refreshJWTs = refreshJWTs
        self.policies = policies
        self.tellsNames = tellsNames
        self.random = random
    }

    /// Whether a signature takes far longer than all else that a request takes.
    var signsSlowly: Bool { AlgorithmSet.rsa.contains(signingKey().algorithm) }

    /// The pair for the current counter of `session`: a new access token, and the refresh token of that counter. `storeSkew`: the
    /// microseconds by which the gateway's clock, which shows `now` and by which tokens are checked, is ahead of the store's.
    func pair(_ session: Session, _ account: Account, now: WallTime, storeSkew: Int64 = 0) throws(KeyFault) -> TokenPair {
        let seconds = policies[session.contract].accessSeconds
        let claims = claims(session, account, seconds: seconds, counter: session.counter, now, storeSkew)
        return TokenPair(
            access: try signingKey().issue(claims), accessSeconds: seconds, accessExpiresAt: claims.expiresAt,
            refresh: try refresh(session))
    }

    /// `exp` of the access token that was issued when the session was opened or last refreshed, or its user signed in again.
    func accessExpiry(of session: Session, storeSkew: Int64) -> Int64 {
        session.lastUsedAt.ahead(by: storeSkew).seconds + policies[session.contract].accessSeconds
    }

    private func refresh(_ session: Session) throws(KeyFault) -> String? {
        switch session.contract.sessionPolicy.refresh {
        case .rotating:
            let contract = session.contract.rawValue
            return refreshKeys.issue(RefreshToken(contract: contract, session: session.id, counter: session.counter))
        case .kept:
            return try refreshJWTs.issue(
                user: session.user, session: session.id, contract: session.contract.rawValue, id: session.id.text,
                issuedAt: session.createdAt.seconds, expiresAt: session.deadline.seconds)
        case .none: return nil
        }
    }

    /// An access token with which the session's user acts as `actor`.
    func actorToken(
        _ actor: ActorName, _ session: Session, _ account: Account, seconds: Int64, now: WallTime, storeSkew: Int64
    ) throws(KeyFault) -> String {
        var claims = claims(session, account, seconds: seconds, counter: 0, now, storeSkew)
        claims.actorType = actor.type
        claims.actorID = actor.id
        return try signingKey().issue(claims)
    }

    private static let entitlementSeconds: Int64 = 86_400

    /// The purchases of an account, for an app that is offline; nil where tokens are signed with a secret.
    func entitlement(
        of account: UUID, now: WallTime, until: WallTime?, _ write: (inout JSONWriter) -> Void
    ) throws(KeyFault) -> String? {
        var json = JSONWriter()
        json.beginObject()
        json.field("iss", issuer)
        json.field("aud", "entitlement" as StaticString)
        json.field("sub", account.text)
        json.field("iat", Int(now.seconds))
        json.field("exp", Int(min(now.seconds + Self.entitlementSeconds, until?.seconds ?? .max)))
        write(&json)
        json.endObject()
        let claims = json.finish()
        guard let token = try signingKey().entitlementToken(claims.readable) else { return nil }
        return token.rawBytes.text
    }

    private func claims(
        _ session: Session, _ account: Account, seconds: Int64, counter: UInt64, _ now: WallTime, _ storeSkew: Int64
    ) -> TokenClaims {
        var claims = TokenClaims(
            issuer: issuer, audience: audience, subject: account.id.text, issuedAt: now.seconds,
            expiresAt: now.seconds + seconds)
        claims.tokenID = AccessTokenID(counter: counter, random: random(8).rawBytes.load64(0)).text
        claims.sessionID = session.id.text
        claims.contract = session.contract
        claims.deviceKey = session.deviceKey
        claims.authenticatedAt = session.signedInAt.map { min($0.ahead(by: storeSkew), now).seconds }
        if let email = account.email {
            claims.email = email.text
            claims.isEmailVerified = account.emailConfirmedAt != nil
        }
        if tellsNames { claims.name = account.name?.full }
        return claims
    }
}

extension WallTime {
    /// The same moment by a clock that is ahead by so many microseconds.
    fileprivate func ahead(by skew: Int64) -> Self { Self(microseconds: microseconds &+ skew) }
}

extension TokenMint {
    /// The refresh that a token of `contract` asks for. Forgeries are refused here, before the store is asked.
    func request(
        _ token: String, _ contract: ContractID, rule: RefreshRule, now: WallTime
    ) throws(AccountError<RefreshTokenRefusal>) -> RefreshRequest {
        switch contract.sessionPolicy.refresh {
        case .rotating:
            guard let claims = token.withRawBytes({ refreshKeys.verify($0) }), claims.contract == contract.rawValue else {
                throw .refused(.invalid)
            }
            return RefreshRequest(
                session: claims.session, contract: contract, counter: claims.counter, rule: rule,
                idleSeconds: policies[contract].idleSeconds)
        case .kept:
            let origin = try jwtOrigin(of: token, now: now)
            guard origin.contract == contract else { throw .refused(.invalid) }
            return RefreshRequest(session: origin.session, contract: contract, counter: nil, rule: rule)
        case .none: throw .refused(.invalid)
        }
    }

    /// The refresh that a token asks for at the endpoint of its own contract.
    func request(ofOwn token: String, rule: RefreshRule, now: WallTime) throws(AccountError<RefreshTokenRefusal>) -> RefreshRequest {
        try request(token, try origin(of: token, now: now).contract, rule: rule, now: now)
    }

    /// The contract and session that a refresh token was issued for, whatever the contract.
    func origin(
        of token: String, now: WallTime
    ) throws(AccountError<RefreshTokenRefusal>) -> (contract: ContractID, session: UUID) {
        if let claims = token.withRawBytes({ refreshKeys.verify($0) }), let contract = ContractID(rawValue: claims.contract) {
            return (contract, claims.session)
        }
        return try jwtOrigin(of: token, now: now)
    }

    /// Whether a refresh token is, or claims to be, of this gateway: no outside issuer gets to see it.
    func hasIssued(_ token: String, now: WallTime) -> Bool {
        if token.hasPrefix("v1.") { return true }
        switch token.withRawBytes({ refreshJWTs.verify($0, now: now) }) {
        case .success: return true
        case .failure(let fault): return fault.isExpired
        }
    }

    /// The contract and session of a refresh token that is a JWT. JWTs of older releases do not name their contract; only
    /// `password` issued them.
    private func jwtOrigin(
        of token: String, now: WallTime
    ) throws(AccountError<RefreshTokenRefusal>) -> (contract: ContractID, session: UUID) {
        switch token.withRawBytes({ refreshJWTs.verify($0, now: now) }) {
        case .success(let claims):
            guard let contract = ContractID(rawValue: claims.contract ?? ContractID.password.rawValue) else {
                throw .refused(.invalid)
            }
            return (contract, claims.session)
        case .failure(let fault): throw .refused(fault.isExpired ? .expired : .invalid)
        }
    }
}

/// The `jti` of an access token: the counter of its pair, and random bits that make it unique.
package struct AccessTokenID: Sendable, Equatable {
    /// 0 for an actor token, which belongs to no pair.
    package let counter: UInt64
    let random: UInt64

    init(counter: UInt64, random: UInt64) {
        self.counter = counter
        self.random = random
    }

    /// Reads the `jti` of a verified own token; nil if the token was not issued for a session.
    package init?(parsing text: RawSpan) {
        guard text.byteCount == 22, let bytes = Base64URL.decode(text) else { return nil }
        counter = bytes.rawBytes.load64(0).byteSwapped
        random = bytes.rawBytes.load64(8).byteSwapped
    }

    var text: String {
        var bytes = ByteBuffer(capacity: 16)
        bytes.append(highBytes: counter, count: 8)
        bytes.append(highBytes: random, count: 8)
        return Base64URL.encode(bytes.readable)
    }
}
