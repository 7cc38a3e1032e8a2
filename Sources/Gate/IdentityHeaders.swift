public import Wire

/// The headers that tell an upstream who calls: the one table, from which they are written and by which whatever a
/// client sends under their names is removed. A row here is injected and stripped; it cannot be only one of the two.
package enum IdentityHeader: UInt8, CaseIterable, Sendable {
    case userID, userEmail, userTier, userPremium, sessionID
    /// The token's `iss`; the trust line's name where its tokens have none.
    case tokenIssuer
    case actorType, actorID

    package var name: StaticString {
        switch self {
        case .userID: "X-User-Id"
        case .userEmail: "X-User-Email"
        case .userTier: "X-User-Tier"
        case .userPremium: "X-User-Premium"
        case .sessionID: "X-Session-Id"
        case .tokenIssuer: "X-Token-Issuer"
        case .actorType: "X-Actor-Type"
        case .actorID: "X-Actor-Id"
        }
    }
}

/// Which names are the gateway's own.
public enum IdentityHeaders {
    /// What only the gateway reads: stripped, never injected.
    private static let credentials: [StaticString] = ["X-Internal-Key", "X-Refresh-Token"]
    /// What only the gateway writes into an answer.
    private static let answers: [StaticString] = ["X-New-Access-Token", "X-New-Refresh-Token", "X-New-Token-Expires-At"]

    /// What the gateway writes about the connection; in their usual spelling these are rewritten, in any other removed.
    private static let forwarding: [StaticString] = [
        "X-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host",
    ]

    private static let requestNames = IdentityHeader.allCases.map(\.name) + credentials + forwarding

    /// The lengths of the shortest and of the longest owned request name.
    @usableFromInline static let shortest = 9
    @usableFromInline static let longest = 17

    /// Whether a request or trailer field of this name must not reach an upstream as it came.
    ///
    /// Case does not count, and every character that is no letter or digit counts as `-`: CGI and its heirs turn
    /// `X-User-Id`, `x_user_id` and `X.User.Id` into the same variable.
    @inlinable public static func owns(_ name: RawSpan) -> Bool {
        let count = name.byteCount
        guard count >= shortest, count <= longest, name[0] | 0x20 == UInt8(ascii: "x") else { return false }
        return isListed(name)
    }

    @usableFromInline static func isListed(_ name: RawSpan) -> Bool {
        for own in requestNames where matches(name, own.rawBytes) { return true }
        return false
    }

    /// Whether a field of an upstream's answer has a name under which only the gateway may answer.
    package static func ownsInAnswer(_ name: RawSpan) -> Bool {
        guard name.byteCount >= 18, name[0] | 0x20 == UInt8(ascii: "x") else { return false }
        for own in answers where matches(name, own.rawBytes) { return true }
        return false
    }

    private static func matches(_ name: RawSpan, _ own: RawSpan) -> Bool {
        guard name.byteCount == own.byteCount else { return false }
        for offset in 0..<own.byteCount where folded(name[offset]) != folded(own[offset]) { return false }
        return true
    }

    private static func folded(_ byte: UInt8) -> UInt8 {
        byte.isASCIILetter || byte.isASCIIDigit ? byte.lowercasedASCII : UInt8(ascii: "-")
    }

    /// What an upstream is told of a tier: whole lines, each with its CRLF.
    static func tierLines(_ tier: Tier, _ tiers: TierList) -> [UInt8] {
        let premium = tiers.isPremium(tier) ? "true" : "false"
        let text = "\(IdentityHeader.userTier.name): \(tiers.name(of: tier))\r\n\(IdentityHeader.userPremium.name): \(premium)\r\n"
        return Array(text.utf8)
    }

    /// Whether `value` stands in a header as it is: no control characters, and no space at its ends, which the
    /// upstream's parser would remove, so that two users became one.
    static func isSafe(_ value: RawSpan) -> Bool {
        let count = value.byteCount
        guard count > 0 else { return true }
        if value[0] == 0x20 || value[count - 1] == 0x20 { return false }
        for offset in 0..<count where value[offset] < 0x20 || value[offset] == 0x7F { return false }
        return true
    }
}
