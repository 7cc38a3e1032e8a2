package import Wire

/// Issuer and verifier of refresh tokens in JWT form, for contracts whose clients expect that. They do not rotate: one is valid
/// until it expires or its session ends. Any thread.
///
/// They are signed with a secret of their own and not with the gateway's signing keys. So rotating those does not end
/// sessions, and a refresh token never verifies as an access token.
package struct RefreshJWTs: Sendable {
    /// The claims of a valid token.
    package struct Content: Sendable, Equatable {
        package let user: UUID
        package let session: UUID
        /// The number of the contract that issued it; nil in older tokens, which lack the claim.
        package let contract: UInt8?
        /// Seconds since 1970.
        package let expiresAt: Int64
    }

    private let issuer: String
    private let key: SigningKey
    private let trust: Trust

    /// `secret` signs and verifies; `earlier` secrets only verify. Requirements as in `RefreshTokenKeys`.
    package init(
        secret: [UInt8], earlier: [[UInt8]] = [], issuer: String, clockSkewSeconds: Int64 = 30
    ) throws(KeyFault) {
        self.issuer = issuer
        let keys = try ([secret] + earlier).map { secret throws(KeyFault) in try Self.key(secret) }
        key = keys[0]
        let trusted = TrustedIssuer(
            name: "refresh", issuer: issuer, audiences: [Self.audience], algorithms: [.hmac],
            keys: KeySet(keys.map(\.verificationKey)), use: .refresh)
        trust = Trust(issuers: [trusted], clockSkewSeconds: clockSkewSeconds)
    }

    private static let audience = "refresh"

    private static func key(_ secret: [UInt8]) throws(KeyFault) -> SigningKey {
        let label: StaticString = "tollgate refresh JWT"
        return try SigningKey(secret: Digest.hmacSHA256(label.rawBytes, key: secret.rawBytes).rawBytes)
    }

    /// A token for a session of a contract; `id` becomes its `jti`. Times are seconds since 1970.
    package func issue(
        user: UUID, session: UUID, contract: UInt8, id: String, issuedAt: Int64, expiresAt: Int64
    ) throws(KeyFault) -> String {
        var claims = TokenClaims(
            issuer: issuer, audience: Self.audience, subject: user.text, issuedAt: issuedAt, expiresAt: expiresAt)
        claims.tokenID = id
        claims.sessionID = session.text
        claims.tokenType = "refresh"
        let isNew = claims.add("\(Self.contractClaim)", .integer(Int(contract)))
        precondition(isNew, "another claim is called contract")
        return try key.issue(claims)
    }

    /// Verifies a token, which may be any bytes.
    package func verify(_ text: RawSpan, now: WallTime) -> Result<Content, TokenFault> {
        var verifier = TokenVerifier()
        switch verifier.verify(text, trust: trust, now: now) {
        case .failure(let fault): return .failure(fault)
        case .success(let token):
            guard let user = UUID(parsing: token.userID), let session = UUID(parsing: token.sessionID) else {
                return .failure(.badClaim)
            }
            do throws(TokenFault) {
                let contract = try Self.contract(JSONMembers(claimsOf: text))
                return .success(Content(user: user, session: session, contract: contract, expiresAt: token.expiresAt))
            } catch {
                return .failure(error)
            }
        }
    }

    private static let contractClaim: StaticString = "contract"

    private static func contract(_ claims: borrowing JSONMembers) throws(TokenFault) -> UInt8? {
        switch claims[contractClaim] {
        case nil: return nil
        case .number(let slice)?:
            guard let number = claims.floor(slice), let contract = UInt8(exactly: number) else { throw .badClaim }
            return contract
        case .string?, .halved?, .bool?, .null?, .array?, .object?: throw .badClaim
        }
    }
}
