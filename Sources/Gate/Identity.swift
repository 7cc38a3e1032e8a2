package import Credentials
import HTTP
import Wire

/// Who a verified token says is calling, as Admission needs it on every request: facts without a pointer, and slices of
/// the fields for the upstream as `FieldEdits` renders them, but for those of the tier.
///
/// Only the verifier's result makes one.
package struct Identity: Sendable {
    /// Index into the policy's issuers.
    package let issuerIndex: Int32
    package let keySerial: UInt32
    /// `exp`, in seconds since 1970.
    package let expiresAt: Int64
    /// `iat`, in seconds since 1970; 0 if unknown.
    package let issuedAt: Int64
    package let algorithm: SigningAlgorithm
    /// What the token claims; whether that counts is the tier's matter.
    package let tier: Tier
    package let isOwn: Bool
    /// Whether the bearer acts as somebody.
    let hasActor: Bool
    /// Whether the gateway issued it to a user who may have an account, whose tier is looked up.
    let mayHaveAccount: Bool
    /// Bit n: requirement n of the policy's trust holds.
    package let claims: UInt64
    /// What limits count the user by: issuer and user id.
    let user: LimitKey
    /// What limits count the session by; the user where there is none.
    let session: LimitKey
    /// How many bytes of the fields only a route with `forward=email` sends: whether the email is proven, and the email itself
    /// if it is not. They come first.
    let emailLength: Int
    /// The fields of the actor; empty if the token names none.
    let actor: Slice
    let userID: Slice
    let sessionID: Slice

    /// Writes the fields of `token` into `edits`, which is emptied first. An unknown tier is the lowest. nil if a value
    /// cannot stand in a header, which is no reason to leave it out: without it the upstream would see somebody else.
    init?(
        _ token: VerifiedToken, trust: Trust, tiers: TierList, hash: KeyedHash, edits: inout FieldEdits
    ) {
        let issuer = trust.issuers[token.issuerIndex]
        let tier = token.tier.byteCount == 0 ? .lowest : tiers.rank(of: token.tier) ?? .lowest
        var writer = IdentityWriter()
        edits.removeAll()
        let issuerText = issuer.issuer ?? issuer.name
        var emailLength = 0
        var actorStart = 0
        for header in IdentityHeader.allCases {
            switch header {
            case .userID: writer.write(header, token.userID, &edits)
            case .userEmailVerified: writer.write(header, Self.word(token.isEmailProven).rawBytes, &edits)
            case .userEmail:
                emailLength = edits.http1.byteCount
                writer.write(header, token.email, &edits)
                if !token.isEmailProven { emailLength = edits.http1.byteCount }
            // Written for each request: a tier may change while a token lasts.
            case .userTier, .userPremium: break
            case .sessionID: writer.write(header, token.sessionID, &edits)
            case .tokenIssuer: issuerText.withRawBytes { writer.write(header, $0, &edits) }
            case .actorType:
                actorStart = edits.http1.byteCount
                writer.write(header, token.actorType, &edits)
            case .actorID: writer.write(header, token.actorID, &edits)
            }
        }
        guard writer.isSafe else { return nil }
        self.emailLength = emailLength
        actor = Slice(start: actorStart, count: edits.http1.byteCount - actorStart)
        userID = writer.userID
        sessionID = writer.sessionID
        issuerIndex = Int32(token.issuerIndex)
        keySerial = token.keySerial
        expiresAt = token.expiresAt
        issuedAt = token.issuedAt ?? 0
        algorithm = token.algorithm
        self.tier = tier
        isOwn = token.isOwn
        hasActor = token.hasActor
        mayHaveAccount = token.isOwn && UUID(parsing: token.userID) != nil
        claims = token.requirementMask
        user = LimitSubject.user(token.userID, issuer: issuerText, hash)
        session = token.sessionID.byteCount == 0 ? user : LimitSubject.session(token.sessionID, issuer: issuerText, hash)
    }

    private static func word(_ value: Bool) -> StaticString { value ? "true" : "false" }
}

/// Writes fields and remembers where the values that logs want are.
private struct IdentityWriter {
    var isSafe = true
    var userID = Slice()
    var sessionID = Slice()

    mutating func write(_ header: IdentityHeader, _ value: RawSpan, _ edits: inout FieldEdits) {
        guard value.byteCount > 0 else { return }
        if !IdentityHeaders.isSafe(value) { isSafe = false }
        let slice = edits.add(header.name, value)
        if header == .userID { userID = slice }
        if header == .sessionID { sessionID = slice }
    }
}
