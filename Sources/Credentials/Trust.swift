import Wire

/// The use of a token. A token that declares another use is refused.
package enum TokenUse: Sendable {
    /// An access token, sent as a bearer (RFC 6750). Tokens that declare no use count as such.
    case access
    /// A refresh token: `token_type` is `refresh`.
    case refresh
    /// An ID token (OpenID Connect Core §2).
    case identity
    /// An attestation of the app, which never counts as a bearer.
    case attestation
}

/// A trusted issuer and the rules for its tokens.
package struct TrustedIssuer: Sendable {
    /// The operator's name for it. Sent upstream as `X-Token-Issuer` if `issuer` is nil.
    package var name: String
    /// The exact `iss`, sent upstream as `X-Token-Issuer`; nil matches only tokens without `iss`.
    package var issuer: String?
    /// The accepted `aud` values, one of which must match; empty: `aud` is not checked.
    package var audiences: [String]
    package var algorithms: AlgorithmSet
    /// nil until the keys have been fetched once.
    package var keys: KeySet?
    package var userClaim = "sub"
    package var tierClaim = "tier"
    package var emailClaim = "email"
    /// The maximum of `exp` − `iat` in seconds; nil for none.
    package var maxLifetimeSeconds: Int64?
    /// Whether the tokens are the gateway's own.
    package var isOwn = false
    /// Named by upstreams as `X-Token-Issuer` of API keys, which have a place among the issuers but no tokens.
    package static let apiKeys = TrustedIssuer(name: "key", issuer: "key", audiences: [], algorithms: AlgorithmSet([]), keys: nil)
    /// Whether its subjects stand for accounts (`accounts=on`).
    package var hasAccounts = false
    package var use = TokenUse.access

    package init(
        name: String, issuer: String?, audiences: [String], algorithms: AlgorithmSet, keys: KeySet?,
        userClaim: String = "sub", tierClaim: String = "tier", emailClaim: String = "email",
        maxLifetimeSeconds: Int64? = nil, isOwn: Bool = false, hasAccounts: Bool = false, use: TokenUse = .access
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
        self.hasAccounts = hasAccounts
        self.use = use
    }

    fileprivate func hasSameRules(as other: Self) -> Bool {
        name == other.name && issuer == other.issuer && audiences == other.audiences && algorithms == other.algorithms
            && userClaim == other.userClaim && tierClaim == other.tierClaim && emailClaim == other.emailClaim
            && maxLifetimeSeconds == other.maxLifetimeSeconds && isOwn == other.isOwn && hasAccounts == other.hasAccounts
            && use == other.use
    }
}

/// A claim that a route requires (`claims=`): a top-level string, number or boolean with this text, or an array that contains it.
package struct ClaimRequirement: Sendable, Hashable {
    package var name: String
    package var value: String

    package init(name: String, value: String) {
        self.name = name
        self.value = value
    }
}

/// An immutable snapshot of everything that verification depends on except the token and the time. Shared by all workers.
package final class Trust: Sendable {
    /// The bits of `VerifiedToken.requirementMask`.
    package static let maximumRequirements = 64

    /// `VerifiedToken.issuerIndex` is an index into this array.
    package let issuers: [TrustedIssuer]
    /// Leeway on `exp` and `nbf`, 0 to 86,400 s.
    package let clockSkewSeconds: Int64
    /// Requirement n is bit n of `VerifiedToken.requirementMask`.
    package let requirements: [ClaimRequirement]
    /// The scopes that routes ask for. Scope n is bit n of `VerifiedToken.scopeMask`.
    package let scopes: [String]
    /// Resource n is bit n of `VerifiedToken.audienceMask`.
    package let resources: [ResourceAudience]
    /// The serials of all keys here. A cached token that another key verified is no longer valid.
    package let liveKeySerials: Set<UInt32>

    /// Issuers and requirements as bytes, the form in which tokens are compared.
    let rules: [IssuerRules]
    let required: [(name: [UInt8], value: [UInt8])]
    let scopeNames: [[UInt8]]
    let resourceURLs: [[UInt8]]

    /// A snapshot with at most `maximumRequirements` requirements, and as many scopes. The clock skew is clamped to 0...86,400 s.
    package init(
        issuers: [TrustedIssuer], clockSkewSeconds: Int64 = 30, requirements: [ClaimRequirement] = [], scopes: [String] = [],
        resources: [ResourceAudience] = []
    ) {
        precondition(resources.count <= Self.maximumResources)
        precondition(max(requirements.count, scopes.count) <= Self.maximumRequirements)
        self.issuers = issuers
        self.clockSkewSeconds = min(max(clockSkewSeconds, 0), 86400)
        self.requirements = requirements
        self.scopes = scopes
        self.resources = resources
        resourceURLs = resources.map { Array($0.url.utf8) }
        scopeNames = scopes.map { Array($0.utf8) }
        liveKeySerials = Set(issuers.flatMap { $0.keys?.keys ?? [] }.map(\.serial))
        rules = issuers.map(IssuerRules.init)
        required = requirements.map { (Array($0.name.utf8), Array($0.value.utf8)) }
    }

    /// Whether `other` differs in keys only. Then cached tokens stay valid as long as their key is live; otherwise all are dropped.
    package func hasSameRules(as other: Trust) -> Bool {
        clockSkewSeconds == other.clockSkewSeconds && requirements == other.requirements && scopes == other.scopes
            && resources == other.resources
            && issuers.elementsEqual(other.issuers) { $0.hasSameRules(as: $1) }
    }
}

/// A trusted issuer's rules as bytes. A class, so that using it retains one object and not each array.
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

    /// Whether the token's `iss` equals this issuer's, or both have none.
    func matchesIssuer(of claims: borrowing JSONMembers) -> Bool {
        switch claims["iss"] {
        case nil: issuer == nil
        case .string(let text)?: issuer.map { claims.text(text, equals: $0.rawBytes) } ?? false
        case .halved?, .number?, .bool?, .null?, .array?, .object?: false
        }
    }
}
