package import Credentials
package import Wire

/// Redeems refresh tokens of outside issuers whose trust line has `accounts=on`.
package struct OutsideRefresh: Sendable {
    /// The answer of an issuer to a refresh token.
    package enum Outcome: Sendable, Equatable {
        /// Whose access token it gave.
        case subject(IdentityKey)
        /// A definite refusal; also where there is no issuer to be asked.
        case refused
        /// The issuer is late, down or not understood.
        case unavailable(retryAfterSeconds: Int)
        /// It was not asked, since it has said that it wants no refresh now.
        case paused(retryAfterSeconds: Int)
    }

    /// Asks the issuer whose apps speak `contract`. Single flight: parallel calls with one token share an answer.
    let redeem: @Sendable (_ token: String, _ contract: ContractID, _ address: IPAddress?) async -> Outcome
    /// Counts tokens that are refused, or that the issuer does not judge, by the client's address, so that guesses do not burden it.
    let limiter: any AttemptLimiter
    private let key: KeyedDigest

    /// `secret` keys the digests under which redeemed tokens are stored.
    package init(
        secret: [UInt8], limiter: any AttemptLimiter,
        redeem: @escaping @Sendable (_ token: String, _ contract: ContractID, _ address: IPAddress?) async -> Outcome
    ) {
        key = KeyedDigest(secret: secret, label: "tollgate outside refresh token")
        self.limiter = limiter
        self.redeem = redeem
    }

    func digest(_ token: String) -> [UInt8] { key.digest(Array(token.utf8)) }
}

/// An access token of an outside issuer whose subject stands for an account.
package struct OutsideToken: Sendable, Equatable {
    package let user: UUID
    /// Derived from the token, under which it can be refused.
    package let id: UUID
    /// `exp`, in seconds since 1970.
    package let expiresAt: Int64

    package init(user: UUID, id: UUID, expiresAt: Int64) {
        self.user = user
        self.id = id
        self.expiresAt = expiresAt
    }
}
