import Wire

/// A token's `exp`, `nbf` and `iat` (RFC 7519 §4.1), and `auth_time`, in seconds since 1970, rounded down.
struct TokenTimes {
    /// The end of the year 9999. Later dates are mistakes, such as milliseconds in place of seconds.
    private static let latest: Int64 = 253_402_300_799

    let expiresAt: Int64
    let notBefore: Int64?
    let issuedAt: Int64?
    /// `auth_time` (OpenID Connect Core §2): when the user signed in; nil if it is no date.
    let authenticatedAt: Int64?

    /// `exp` must be a date. `nbf` must be a date or absent. `iat` must be a number or absent, and is nil if it is no date.
    init(_ claims: borrowing JSONMembers) throws(TokenFault) {
        guard let expiresAt = Self.date("exp", claims) else { throw .noExpiry }
        self.expiresAt = expiresAt
        notBefore = Self.date("nbf", claims)
        authenticatedAt = Self.date("auth_time", claims)
        if notBefore == nil && claims["nbf"] != nil { throw .badClaim }
        switch claims["iat"] {
        case nil, .number?: issuedAt = Self.date("iat", claims)
        case .string?, .halved?, .bool?, .null?, .array?, .object?: throw .badClaim
        }
    }

    /// Throws if `exp` − `iat` exceeds `maximum` seconds or `iat` is missing; nil checks nothing.
    func checkLifetime(_ maximum: Int64?) throws(TokenFault) {
        guard let maximum else { return }
        guard let issuedAt, expiresAt - issuedAt <= maximum else { throw .lifetimeTooLong }
    }

    /// Whether `exp` has passed, with `skew` seconds of leeway; throws if `nbf` is more than that in the future.
    func isExpired(now: WallTime, skew: Int64) throws(TokenFault) -> Bool {
        let seconds = now.seconds
        if let notBefore, notBefore - skew > seconds { throw .notYetValid }
        return expiresAt + skew <= seconds
    }

    private static func date(_ name: StaticString, _ claims: borrowing JSONMembers) -> Int64? {
        guard case .number(let slice)? = claims[name], let date = claims.floor(slice) else { return nil }
        return (-latest...latest).contains(date) ? date : nil
    }
}
