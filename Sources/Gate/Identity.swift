package import Credentials
import Wire

/// Who a verified token says is calling, as Admission needs it on every request: facts without a pointer, and slices of
/// a *block*, the bytes of the key id with the header lines for the upstream behind it, but for those of the tier.
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
    /// What the token claims; whether that counts is the standing's matter.
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
    /// In the block: where the header lines begin that a route with `forward=email` sends, each with its CRLF. They go on to
    /// its end.
    let allLinesStart: Int
    /// The same for every other route. What those do not send stands before it: whether the email is proven, and the email
    /// itself if it is not.
    let linesStart: Int
    /// In the block: where the lines of the actor begin, which end it.
    let actorStart: Int
    let userID: Slice
    let sessionID: Slice
    let keyID: Slice

    /// Renders the block of `token` into `block`, which is emptied first. An unknown tier is the lowest. nil if a value
    /// cannot stand in a header, which is no reason to leave it out: without it the upstream would see somebody else.
    init?(
        _ token: VerifiedToken, trust: Trust, tiers: TierList, hash: KeyedHash, block: inout ByteBuffer
    ) {
        let issuer = trust.issuers[token.issuerIndex]
        let tier = token.tier.byteCount == 0 ? .lowest : tiers.rank(of: token.tier) ?? .lowest
        var writer = IdentityWriter()
        block.removeAll()
        if let kid = token.keyID { block.append(kid) }
        keyID = Slice(start: 0, count: block.count)
        allLinesStart = block.count
        let issuerText = issuer.issuer ?? issuer.name
        var linesStart = 0
        var actorStart = 0
        for header in IdentityHeader.allCases {
            switch header {
            case .userID: writer.write(header, token.userID, &block)
            case .userEmailVerified: writer.write(header, Self.word(token.isEmailProven).rawBytes, &block)
            case .userEmail:
                linesStart = block.count
                writer.write(header, token.email, &block)
                if !token.isEmailProven { linesStart = block.count }
            // Written for each request: a tier may change while a token lasts.
            case .userTier, .userPremium: break
            case .sessionID: writer.write(header, token.sessionID, &block)
            case .tokenIssuer: issuerText.withRawBytes { writer.write(header, $0, &block) }
            case .actorType:
                actorStart = block.count
                writer.write(header, token.actorType, &block)
            case .actorID: writer.write(header, token.actorID, &block)
            }
        }
        guard writer.isSafe else { return nil }
        self.linesStart = linesStart
        self.actorStart = actorStart
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

/// Writes header lines and remembers where the values that logs want are.
private struct IdentityWriter {
    var isSafe = true
    var userID = Slice()
    var sessionID = Slice()

    mutating func write(_ header: IdentityHeader, _ value: RawSpan, _ block: inout ByteBuffer) {
        guard value.byteCount > 0 else { return }
        if !IdentityHeaders.isSafe(value) { isSafe = false }
        block.append(header.name)
        block.append(": " as StaticString)
        let slice = Slice(start: block.count, count: value.byteCount)
        block.append(value)
        block.append("\r\n" as StaticString)
        if header == .userID { userID = slice }
        if header == .sessionID { sessionID = slice }
    }
}
