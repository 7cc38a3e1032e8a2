package import Credentials
internal import Wire

/// The tokens of a session, as a contract hands them out.
package struct TokenPair: Sendable, Equatable {
    package let access: String
    /// Seconds that the access token is good for, and the second since 1970 when it no longer is.
    package let accessSeconds: Int64
    package let accessExpiresAt: Int64
    /// nil for sessions that are not refreshed.
    package let refresh: String?
}

/// Somebody signed in: what a contract answers from.
package struct SessionGrant: Sendable, Equatable {
    package let session: Session
    package let tokens: TokenPair
}

/// Makes the tokens of sessions. Any thread.
package struct TokenMint: Sendable {
    private let issuer: String
    private let audience: String
    private let signingKey: @Sendable () -> SigningKey
    private let refreshKeys: RefreshTokenKeys
    private let refreshJWTs: RefreshJWTs
    private let random: RandomBytes

    /// `signingKey` answers the key that signs at the moment.
    package init(
        issuer: String, audience: String, signingKey: @escaping @Sendable () -> SigningKey,
        refreshKeys: RefreshTokenKeys, refreshJWTs: RefreshJWTs, random: @escaping RandomBytes = SecureRandom.bytes
    ) {
        self.issuer = issuer
        self.audience = audience
        self.signingKey = signingKey
        self.refreshKeys = refreshKeys
        self.refreshJWTs = refreshJWTs
        self.random = random
    }

    /// The pair of the place in the chain at which `session` is: a new access token, and the one refresh token of it.
    func pair(_ session: Session, _ account: Account, now: WallTime) throws(KeyFault) -> TokenPair {
        let seconds = session.contract.sessionPolicy.accessSeconds
        let claims = claims(session, account, seconds: seconds, counter: session.counter, now)
        return TokenPair(
            access: try signingKey().issue(claims), accessSeconds: seconds, accessExpiresAt: claims.expiresAt,
            refresh: try refresh(session))
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
        _ actor: ActorName, _ session: Session, _ account: Account, seconds: Int64, now: WallTime
    ) throws(KeyFault) -> String {
        var claims = claims(session, account, seconds: seconds, counter: 0, now)
        claims.actorType = actor.type
        claims.actorID = actor.id
        return try signingKey().issue(claims)
    }

    private func claims(
        _ session: Session, _ account: Account, seconds: Int64, counter: UInt64, _ now: WallTime
    ) -> TokenClaims {
        var claims = TokenClaims(
            issuer: issuer, audience: audience, subject: account.id.text, issuedAt: now.seconds,
            expiresAt: now.seconds + seconds)
        claims.tokenID = AccessTokenID(counter: counter, random: random(8).rawBytes.load64(0)).text
        claims.sessionID = session.id.text
        if let email = account.email {
            claims.email = email.text
            claims.isEmailVerified = account.emailConfirmedAt != nil
        }
        return claims
    }
}

extension TokenMint {
    /// What a refresh token of `contract` asks for; a forgery is told here, before anything is looked up.
    func request(_ token: String, _ contract: ContractID, rule: RefreshRule, now: WallTime) throws(AccountError)
        -> RefreshRequest
    {
        switch contract.sessionPolicy.refresh {
        case .rotating:
            guard let said = token.withRawBytes({ refreshKeys.verify($0) }), said.contract == contract.rawValue else {
                throw .invalidRefreshToken
            }
            return RefreshRequest(session: said.session, contract: contract, counter: said.counter, rule: rule)
        case .kept:
            let said = try kept(token, now: now)
            guard said.contract == contract else { throw .invalidRefreshToken }
            return RefreshRequest(session: said.session, contract: contract, counter: nil, rule: rule)
        case .none: throw .invalidRefreshToken
        }
    }
}

extension TokenMint {
    /// The contract and the session that a refresh token of any contract is of.
    func place(of token: String, now: WallTime) throws(AccountError) -> (contract: ContractID, session: UUID) {
        if let said = token.withRawBytes({ refreshKeys.verify($0) }), let contract = ContractID(rawValue: said.contract) {
            return (contract, said.session)
        }
        return try kept(token, now: now)
    }

    /// The contract and the session that a JWT is of. Older ones do not name their contract: only `password` issued any.
    private func kept(_ token: String, now: WallTime) throws(AccountError) -> (contract: ContractID, session: UUID) {
        switch token.withRawBytes({ refreshJWTs.verify($0, now: now) }) {
        case .success(let said):
            guard let contract = ContractID(rawValue: said.contract ?? ContractID.password.rawValue) else {
                throw .invalidRefreshToken
            }
            return (contract, said.session)
        case .failure(let fault): throw fault.isExpired ? .refreshTokenExpired : .invalidRefreshToken
        }
    }
}

/// The `jti` of an access token: which pair of its session it belongs to, and what makes it the only one of its name.
package struct AccessTokenID: Sendable, Equatable {
    /// 0 for a token beside the pairs.
    package let counter: UInt64
    let random: UInt64

    init(counter: UInt64, random: UInt64) {
        self.counter = counter
        self.random = random
    }

    /// What a verified token of the gateway's own says in `jti`; nil if it was not issued for a session.
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
