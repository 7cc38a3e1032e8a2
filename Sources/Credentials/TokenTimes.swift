import Wire

/// A token's dates (RFC 7519 §4.1), in seconds since 1970, rounded down.
struct TokenTimes {
    /// Past the year 9999 a date is a mistake, such as milliseconds in place of seconds.
    private static let latest: Int64 = 253_402_300_799

    let expiresAt: Int64
    let notBefore: Int64?
    let issuedAt: Int64?

    /// `exp` must be a date; `nbf` may be missing, but nothing else than a date; `iat` may be any number, and is left out
    /// where it is no date.
    init(_ claims: borrowing JSONMembers) throws(TokenFault) {
        guard let expiresAt = Self.date("exp", claims) else { throw .noExpiry }
        self.expiresAt = expiresAt
        notBefore = Self.date("nbf", claims)
        if notBefore == nil && claims["nbf"] != nil { throw .badClaim }
        switch claims["iat"] {
        case nil, .number?: issuedAt = Self.date("iat", claims)
        case .string?, .bool?, .null?, .array?, .object?: throw .badClaim
        }
    }

    func checkLifetime(_ maximum: Int64?) throws(TokenFault) {
        guard let maximum else { return }
        guard let issuedAt, expiresAt - issuedAt <= maximum else { throw .lifetimeTooLong }
    }

    /// `skew` seconds of leeway, on both ends.
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
