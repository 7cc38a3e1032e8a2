import Credentials
import HTTP
import Wire

/// Identity fields for the upstream. The one table for injecting them and for stripping what clients send under their names,
/// so a field cannot be injected without being stripped. Fields are written in this order; which of them an upstream gets depends on
/// `IdentityView` alone.
package enum IdentityHeader: UInt8, CaseIterable, Sendable {
    /// The display name of the user, in percent-encoded UTF-8.
    case userName
    case userEmailVerified, userEmail, userID, userTier, userPremium, sessionID
    /// The token's `iss`; the trust line's name if its tokens have none.
    case tokenIssuer
    case actorType, actorID
    /// The accounts that were merged into the user's and not yet confirmed by a service; for routes with `merge=announce`.
    case mergedFrom
    /// A JWT that says the same as the other fields; for routes with `identity=signed`. Rendered last: see `AdmissionIdentity`.
    case signedIdentity

    package var name: StaticString {
        switch self {
        case .userName: "X-User-Name"
        case .userEmailVerified: "X-User-Email-Verified"
        case .userID: "X-User-Id"
        case .userEmail: "X-User-Email"
        case .userTier: "X-User-Tier"
        case .userPremium: "X-User-Premium"
        case .sessionID: "X-Session-Id"
        case .tokenIssuer: "X-Token-Issuer"
        case .actorType: "X-Actor-Type"
        case .actorID: "X-Actor-Id"
        case .mergedFrom: "X-User-Merged-From"
        case .signedIdentity: "X-Tollgate-Identity"
        }
    }
}

/// Field names that belong to the gateway.
package enum IdentityHeaders {
    /// Read by the gateway only: stripped, never injected.
    private static let credentials: [StaticString] = ["X-Internal-Key", "X-Refresh-Token"]
    /// Written into answers by the gateway only, or read there by it.
    private static let answers: [StaticString] = [
        "X-New-Access-Token", "X-New-Refresh-Token", "X-New-Token-Expires-At", mergeDone,
    ]
    /// By which an upstream says that it has moved what was a merged account's.
    private static let mergeDone: StaticString = "X-Tollgate-Merge-Done"
    /// Names the route in a copy of a request (`mirror=`).
    static let mirror: StaticString = "X-Tollgate-Mirror"
    /// In front of an attribute's name. Every name that begins so is the gateway's, whichever attributes routes forward.
    static let attributePrefix: StaticString = "X-User-Attribute-"

    /// Fields about the connection. Rewritten in their usual spelling, removed in any other.
    private static let forwarding: [StaticString] = [
        "X-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-IP",
    ]

    /// Fields of a checked request that a proxy sets or removes as the answer says.
    package static let passage = IdentityHeader.allCases.map(\.name) + credentials + ["Authorization"]

    static let requestNames = IdentityHeader.allCases.map(\.name) + credentials + forwarding + [mergeDone, mirror]

    /// Fields that frame a message or are hop-by-hop. `HTTP` handles their usual spelling; look-alikes are removed, because
    /// a later hop may read them as the field.
    static let framing: [StaticString] =
        FieldName.allCases.filter { $0.isHopByHop || $0 == .contentLength || $0 == .host || $0 == .expect }.map(\.text)

    /// Whether a request or trailer field of this name is removed, unless its route keeps it.
    package static func owns(_ name: RawSpan) -> Bool {
        let names = ReservedNames.shared
        return names.mayHold(name) && names.holds(name, except: [])
    }

    /// Whether this is the name of an attribute's field, in any spelling.
    static func isAttribute(_ name: RawSpan) -> Bool {
        let count = attributePrefix.utf8CodeUnitCount
        return name.byteCount >= count && FoldedName.matches(name.extracting(first: count), attributePrefix.rawBytes)
    }

    /// Whether an upstream's answer confirms merges by a field of this name.
    package static func confirmsMerge(_ name: RawSpan) -> Bool { FoldedName.matches(name, mergeDone.rawBytes) }

    /// Whether only the gateway may send an answer field of this name.
    package static func ownsInAnswer(_ name: RawSpan) -> Bool {
        guard name.byteCount >= 18, name[0] | 0x20 == UInt8(ascii: "x") else { return false }
        for own in answers where FoldedName.matches(name, own.rawBytes) { return true }
        return false
    }

    /// Why a field of this name, which is not in `ProxyFields`, cannot be kept.
    static func faultOfKeeping(_ name: RawSpan) -> KeptFields.Fault {
        for own in credentials where FoldedName.matches(name, own.rawBytes) { return .credential }
        if isAttribute(name) { return .written }
        for own in requestNames where FoldedName.matches(name, own.rawBytes) { return .written }
        for own in framing where FoldedName.matchesByRuns(name, own.rawBytes) { return .framing }
        switch FieldName.recognise(name) {
        case .authorization: return .credential
        case .forwarded, .traceparent: return .written
        default: return .notRemoved
        }
    }

    /// The rendered fields of a tier.
    static func tierFields(_ tier: Tier, _ tiers: TierList) -> [UInt8] {
        var edits = FieldEdits()
        tiers.name(of: tier).withRawBytes { _ = edits.add(IdentityHeader.userTier.name, $0) }
        edits.add(IdentityHeader.userPremium.name, tiers.isPremium(tier) ? "true" : "false")
        return edits.http1.array
    }

    /// Whether `value` survives as a header value: no control characters, and no space at its ends, which the upstream's
    /// parser would strip and so merge two users.
    static func isSafe(_ value: RawSpan) -> Bool {
        let count = value.byteCount
        guard count > 0 else { return true }
        if value[0] == 0x20 || value[count - 1] == 0x20 { return false }
        for offset in 0..<count where value[offset] < 0x20 || value[offset] == 0x7F { return false }
        return true
    }
}
