/// An issuer whose tokens are accepted, and what they must satisfy.
package struct TrustedIssuer: Sendable {
    /// The operator's name for it; goes upstream as `X-Token-Issuer`.
    package var name: String
    /// The exact `iss`; nil matches only tokens that have none.
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

    package init(
        name: String, issuer: String?, audiences: [String], algorithms: AlgorithmSet, keys: KeySet?,
        userClaim: String = "sub", tierClaim: String = "tier", emailClaim: String = "email",
        maxLifetimeSeconds: Int64? = nil, isOwn: Bool = false
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

/// Everything that verification depends on besides the token and the time: an immutable snapshot, shared by all workers.
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

    /// At most `maximumRequirements` requirements.
    package init(issuers: [TrustedIssuer], clockSkewSeconds: Int64 = 30, requirements: [ClaimRequirement] = []) {
        precondition(requirements.count <= Self.maximumRequirements)
        self.issuers = issuers
        self.clockSkewSeconds = clockSkewSeconds
        self.requirements = requirements
        liveKeySerials = Set(issuers.flatMap { $0.keys?.keys ?? [] }.map(\.serial))
    }
}
