package import Credentials
import HTTP
import Wire

/// Verified identity of a caller, as Admission uses it on every request: values without references, and the slices of its fields.
///
/// Only made from the result of `TokenVerifier`, or from an API key that was found.
package struct Identity: Sendable {
    /// Index into the policy's issuers.
    package let issuerIndex: Int32
    package let keySerial: UInt32
    /// `exp`, in seconds since 1970.
    package let expiresAt: Int64
    /// `iat`, in seconds since 1970; 0 if unknown.
    package let issuedAt: Int64
    /// When the user signed in (`auth_time`), in seconds since 1970; nil if the token does not say.
    let signedInAt: Int64?
    /// nil of an API key.
    package let algorithm: SigningAlgorithm?
    /// The API key that stands in for a token.
    let apiKey: UUID?
    /// The tier that the token claims, the lowest if none; a tier from the accounts or a tier server overrides it.
    package let tier: Tier
    let tierClaim: TierClaim
    /// Whether the gateway issued the token.
    package let isOwn: Bool
    /// The contract that issued an own token; nil for a minted one.
    let contract: ContractID?
    /// Whether the token is bound to a key: then `Decision.owner`.
    let isBound: Bool
    /// Whether the token names an actor.
    let hasActor: Bool
    /// nil unless the issuer's subjects stand for accounts.
    package let outside: OutsideIdentity?
    /// Whether the user may have an account here, whose tier is looked up.
    let mayHaveAccount: Bool
    /// Bit n: requirement n of the policy's trust holds.
    package let claims: UInt64
    /// Bit n: the token has scope n of the policy's trust.
    let scopes: UInt64
    /// `VerifiedToken.audienceMask`.
    let audiences: UInt64
    /// Limit key of the user: issuer and user id.
    let user: LimitKey
    /// Limit key of the session, the user's without one; of an attestation, that of its single use.
    var session: LimitKey
    /// The session of an own token, whose refresh gives out newer ones; nil if its `sid` is no id of a session.
    let ownSession: UUID?
    /// Whether the email counts as verified.
    let isEmailProven: Bool
    /// Key of the email that an own token claims as proven; nil if it claims none.
    let email: LimitKey?
    var fields: IdentityFields

    /// Number of the contract that issued an own token; 0 if none did.
    package var contractNumber: UInt8 { contract?.rawValue ?? 0 }

    /// Writes the fields of `token` into `edits`, which is emptied first. An unknown tier becomes the lowest. nil if a value cannot be a
    /// header value. `text` is the token as it was sent.
    init?(
        _ token: VerifiedToken, _ text: RawSpan, trust: Trust, tiers: TierList, hash: KeyedHash, edits: inout FieldEdits
    ) {
        let issuer = trust.issuers[token.issuerIndex]
        let rank = token.tier.byteCount == 0 ? nil : tiers.rank(of: token.tier)
        let issuerText = issuer.issuer ?? issuer.name
        outside = OutsideIdentity(token, text, issuer, own: trust.ownIssuer, hash)
        guard let fields = IdentityFields(token, issuer: issuerText, into: &edits) else { return nil }
        self.fields = fields
        isEmailProven = token.isEmailProven
        email = token.isOwn && token.isEmailProven ? LimitSubject.email(token.email, hash) : nil
        issuerIndex = Int32(token.issuerIndex)
        keySerial = token.keySerial
        expiresAt = token.expiresAt
        issuedAt = token.issuedAt ?? 0
        signedInAt = token.authenticatedAt
        algorithm = token.algorithm
        apiKey = nil
        tier = rank ?? .lowest
        tierClaim = rank != nil ? .known : token.tier.byteCount == 0 ? .missing : .unknown
        isOwn = token.isOwn
        contract = token.contract
        isBound = token.owner != nil
        hasActor = token.hasActor
        mayHaveAccount = token.isOwn && UUID(parsing: token.userID) != nil
        claims = token.requirementMask
        scopes = token.scopeMask
        audiences = token.audienceMask
        user = LimitSubject.user(token.userID, issuer: issuerText, hash)
        ownSession = token.isOwn ? UUID(parsing: token.sessionID) : nil
        session = token.sessionID.byteCount == 0 ? user : LimitSubject.session(token.sessionID, issuer: issuerText, hash)
    }
}
