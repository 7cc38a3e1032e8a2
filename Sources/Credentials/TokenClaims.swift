/// What a token to be issued says. Absent members are left out.
package struct TokenClaims: Sendable {
    /// A claim of the issuer's own choosing.
    package enum Value: Sendable, Equatable {
        case string(String)
        case integer(Int64)
        case boolean(Bool)
        case strings([String])
    }

    package var issuer: String?
    package var audience: String?
    package var subject: String
    /// Seconds since 1970.
    package var issuedAt: Int64
    package var expiresAt: Int64
    package var tokenID: String?
    package var sessionID: String?
    package var email: String?
    package var tier: String?
    package var tokenType: String?
    package var actorType: String?
    package var actorID: String?
    /// Further claims; a name that stands above, or twice, is a fault when the token is issued.
    package var others: [(name: String, value: Value)] = []

    package init(issuer: String?, audience: String?, subject: String, issuedAt: Int64, expiresAt: Int64) {
        self.issuer = issuer
        self.audience = audience
        self.subject = subject
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
    }
}
