import Wire

/// What a token is for. One that says it is for something else is refused.
package enum TokenUse: Sendable {
    /// A bearer of requests; tokens that do not say what they are for count as such.
    case access
    /// Says `refresh` in `token_type`.
    case refresh
    /// An ID token (OpenID Connect Core §2), which says who signed in.
    case identity
}

/// An issuer whose tokens are accepted, and what they must satisfy.
package struct TrustedIssuer: Sendable {
    /// The operator's name for it; goes upstream as `X-Token-Issuer` where `issuer` is nil.
    package var name: String
    /// The exact `iss`, which goes upstream as `X-Token-Issuer`; nil matches only tokens that have none.
    package var issuer: String?
    /// Accepted `aud` values, of which one must match; empty: not checked.
    package var audiences: [String]
    package var algorithms: AlgorithmSet
    /// nil while no key was ever had.
    package var keys: KeySet?
    package var userClaim = "sub"
    package var tierClaim = "tier"
    package var emailClaim = "email"
    /// Bound on exp − iat, in seconds.
    package var maxLifetimeSeconds: Int64?
    /// Whether the tokens are the gateway's own.
    package var isOwn = false
    package var use = TokenUse.access

    package init(
        name: String, issuer: String?, audiences: [String], algorithms: AlgorithmSet, keys: KeySet?,
        userClaim: String = "sub", tierClaim: String = "tier", emailClaim: String = "email",
        maxLifetimeSeconds: Int64? = nil, isOwn: Bool = false, use: TokenUse = .access
    ) {
        self.name = name
        self.issuer = issuer
        self.audiences = audiences
        self.algorithms = algorithms
        self.keys = keys
        self.userClaim = userClaim
        self.tierClaim = tierClaim
        self.emailClaim = emailClaim
        self.maxLifetimeSeconds = maxLifetimeSeconds
        self.isOwn = isOwn
        self.use = use
    }

    fileprivate func hasSameRules(as other: Self) -> Bool {
        name == other.name && issuer == other.issuer && audiences == other.audiences && algorithms == other.algorithms
            && userClaim == other.userClaim && tierClaim == other.tierClaim && emailClaim == other.emailClaim
            && maxLifetimeSeconds == other.maxLifetimeSeconds && isOwn == other.isOwn && use == other.use
    }
}

/// A top-level claim that a route asks for: a string, number or boolean of this text, or an array that contains it.
package struct ClaimRequirement: Sendable, Hashable {
    package var name: String
    package var value: String

    package init(name: String, value: String) {
        self.name = name
        self.value = value
    }
}

/// Everything that verification depends on besides the token and the time: an immutable snapshot, for all workers.
package final class Trust: Sendable {
    /// What fits into `VerifiedToken.requirementMask`.
    package static let maximumRequirements = 64

    /// In the order that `issuerIndex` counts.
    package let issuers: [TrustedIssuer]
    /// Leeway on `exp` and `nbf`.
    package let clockSkewSeconds: Int64
    /// Bit n of `VerifiedToken.requirementMask` answers for requirement n.
    package let requirements: [ClaimRequirement]
    /// The serials of all keys in here: what was verified by any other key no longer counts.
    package let liveKeySerials: Set<UInt32>

    /// The same issuers and requirements in the form that tokens are compared with.
    let rules: [IssuerRules]
    let required: [(name: [UInt8], value: [UInt8])]

    /// At most `maximumRequirements` requirements; a skew below 0 counts as 0, above a day as a day.
    package init(issuers: [TrustedIssuer], clockSkewSeconds: Int64 = 30, requirements: [ClaimRequirement] = []) {
        precondition(requirements.count <= Self.maximumRequirements)
        self.issuers = issuers
        self.clockSkewSeconds = min(max(clockSkewSeconds, 0), 86400)
        self.requirements = requirements
        liveKeySerials = Set(issuers.flatMap { $0.keys?.keys ?? [] }.map(\.serial))
        rules = issuers.map(IssuerRules.init)
        required = requirements.map { (Array($0.name.utf8), Array($0.value.utf8)) }
    }

    /// Whether `other` differs from this in nothing but keys: what one verified, the other would too, and alike, as long
    /// as the key lives. Otherwise nothing that was verified under one counts under the other.
    package func hasSameRules(as other: Trust) -> Bool {
        clockSkewSeconds == other.clockSkewSeconds && requirements == other.requirements
            && issuers.elementsEqual(other.issuers) { $0.hasSameRules(as: $1) }
    }
}

/// A trusted issuer's rules as bytes. A class, so that using them counts one reference and not one for each array.
final class IssuerRules: Sendable {
    let issuer: [UInt8]?
    let audiences: [[UInt8]]
    let algorithms: AlgorithmSet
    let keys: [VerificationKey]?
    let userClaim: [UInt8]
    let tierClaim: [UInt8]
    let emailClaim: [UInt8]
    let maxLifetimeSeconds: Int64?
    let isOwn: Bool
    let use: TokenUse

    init(_ issuer: TrustedIssuer) {
        self.issuer = issuer.issuer.map { Array($0.utf8) }
        audiences = issuer.audiences.map { Array($0.utf8) }
        algorithms = issuer.algorithms
        keys = issuer.keys?.keys
        userClaim = Array(issuer.userClaim.utf8)
        tierClaim = Array(issuer.tierClaim.utf8)
        emailClaim = Array(issuer.emailClaim.utf8)
        maxLifetimeSeconds = issuer.maxLifetimeSeconds
        isOwn = issuer.isOwn
        use = issuer.use
    }

    /// Whether the token's `iss` is exactly this issuer's, or both have none.
    func isNamed(by claims: borrowing JSONMembers) -> Bool {
        switch claims["iss"] {
        case nil: issuer == nil
        case .string(let text)?: issuer.map { claims.text(text, equals: $0.rawBytes) } ?? false
        case .number?, .bool?, .null?, .array?, .object?: false
        }
    }
}
