import HTTP
import Wire

/// The headers that tell an upstream who calls: the one table, from which they are written and by which whatever a
/// client sends under their names is removed. A row here is injected and stripped; it cannot be only one of the two.
///
/// They are written in this order: what only some routes send comes first (see `Identity.emailLength`).
package enum IdentityHeader: UInt8, CaseIterable, Sendable {
    /// Whether the email is proven; for routes with `forward=email`.
    case userEmailVerified
    case userEmail, userID, userTier, userPremium, sessionID
    /// The token's `iss`; the trust line's name where its tokens have none.
    case tokenIssuer
    case actorType, actorID

    package var name: StaticString {
        switch self {
        case .userEmailVerified: "X-User-Email-Verified"
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
package enum IdentityHeaders {
    /// What only the gateway reads: stripped, never injected.
    private static let credentials: [StaticString] = ["X-Internal-Key", "X-Refresh-Token"]
    /// What only the gateway writes into an answer.
    private static let answers: [StaticString] = ["X-New-Access-Token", "X-New-Refresh-Token", "X-New-Token-Expires-At"]

    /// What the gateway writes about the connection; in their usual spelling these are rewritten, in any other removed.
    private static let forwarding: [StaticString] = [
        "X-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-IP",
    ]

    static let requestNames = IdentityHeader.allCases.map(\.name) + credentials + forwarding

    /// What frames a message or ends at this hop. `HTTP` acts on these in their usual spelling; what only looks like one may
    /// be taken for it further on.
    static let framing: [StaticString] =
        FieldName.allCases.filter { $0.isHopByHop || $0 == .contentLength || $0 == .host || $0 == .expect }.map(\.text)

    /// Whether a request or trailer field of this name must not reach an upstream as it came, unless its route keeps it.
    package static func owns(_ name: RawSpan) -> Bool {
        let names = ReservedNames.shared
        return names.mayHold(name) && names.holds(name, except: [])
    }

    /// Whether a field of an upstream's answer has a name under which only the gateway may answer.
    package static func ownsInAnswer(_ name: RawSpan) -> Bool {
        guard name.byteCount >= 18, name[0] | 0x20 == UInt8(ascii: "x") else { return false }
        for own in answers where FoldedName.matches(name, own.rawBytes) { return true }
        return false
    }

    /// Why a field of this name, which is none of `ProxyFields`, cannot be kept.
    static func faultOfKeeping(_ name: RawSpan) -> KeptFields.Fault {
        for own in credentials where FoldedName.matches(name, own.rawBytes) { return .credential }
        for own in requestNames where FoldedName.matches(name, own.rawBytes) { return .written }
        for own in framing where FoldedName.matchesByRuns(name, own.rawBytes) { return .framing }
        switch FieldName.recognise(name) {
        case .authorization: return .credential
        case .forwarded, .traceparent: return .written
        default: return .notRemoved
        }
    }

    /// What an upstream is told of a tier, rendered.
    static func tierFields(_ tier: Tier, _ tiers: TierList) -> [UInt8] {
        var edits = FieldEdits()
        tiers.name(of: tier).withRawBytes { _ = edits.add(IdentityHeader.userTier.name, $0) }
        edits.add(IdentityHeader.userPremium.name, tiers.isPremium(tier) ? "true" : "false")
        return edits.http1.array
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
