import Wire

/// What a token said whose signature and claims held. Only the verifier makes one: to have it is the proof.
///
/// Texts are UTF-8 without control characters, fit for a header, and empty where the token does not say.
package struct VerifiedToken: Sendable {
    /// Index into `Trust.issuers`.
    package let issuerIndex: Int
    /// The key that verified it: its serial, its own `kid`, and the algorithm it was used with.
    package let keySerial: UInt32
    package let keyID: String?
    package let algorithm: SigningAlgorithm
    /// `exp`, in seconds since 1970, without leeway.
    package let expiresAt: Int64
    /// `iat`, in seconds since 1970.
    package let issuedAt: Int64?
    /// Bit n: requirement n of the trust holds.
    package let requirementMask: UInt64
    package let isOwn: Bool
    /// Whether `actor_type` or `actor_id` says that the bearer acts as somebody: also where neither is a text, which
    /// `actorType` and `actorID` leave out.
    package let hasActor: Bool
    /// Whether the token has an email and vouches for it. The gateway's own must say so; an outside issuer is taken to know
    /// its users' emails unless its token says that this one is not verified.
    package let isEmailProven: Bool
    /// Never, but where the verifier was told to take such a token.
    package let isExpired: Bool

    /// All texts, one behind the other: one allocation for all of them.
    private let bytes: [UInt8]
    private let texts: IdentityTexts

    /// 1 to 256 bytes.
    package var userID: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.userID] } }
    package var email: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.email] } }
    /// The tier claim as it stands; it may name no tier known here.
    package var tier: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.tier] } }
    /// `sid`.
    package var sessionID: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.sessionID] } }
    package var actorType: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.actorType] } }
    package var actorID: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.actorID] } }
    /// `jti`.
    package var tokenID: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.tokenID] } }

    /// Holds the claims of a token with a proven signature against the rules of its issuer. Expiry comes last, so that
    /// `expired` says that everything else is in order.
    init(
        _ proof: ProvenSignature, _ claims: borrowing JSONMembers, issuer index: Int, _ trust: Trust, _ now: WallTime,
        takesExpired: Bool, scratch: inout ByteBuffer
    ) throws(TokenFault) {
        let rules = trust.rules[index]
        try claims.check(rules.use)
        try claims.checkAudience(rules.audiences)
        let times = try TokenTimes(claims)
        try times.checkLifetime(rules.maxLifetimeSeconds)
        texts = try IdentityTexts(claims, rules, into: &scratch)
        let isExpired = try times.isExpired(now: now, skew: trust.clockSkewSeconds)
        if isExpired && !takesExpired { throw .expired }
        self.isExpired = isExpired
        bytes = scratch.readable.array
        issuerIndex = index
        keySerial = proof.key.serial
        keyID = proof.key.kid
        algorithm = proof.algorithm
        expiresAt = times.expiresAt
        issuedAt = times.issuedAt
        requirementMask = trust.requirementMask(claims)
        isOwn = rules.isOwn
        hasActor = claims.says("actor_type") || claims.says("actor_id")
        isEmailProven = !texts.email.isEmpty && claims.vouchesForEmail(bySilence: !rules.isOwn)
    }
}

extension JSONMembers {
    /// Whether the member is there, and neither `null` nor an empty text.
    fileprivate func says(_ name: StaticString) -> Bool {
        switch self[name] {
        case nil, .null?: false
        case .string(let text)?: !text.slice.isEmpty
        case .number?, .bool?, .array?, .object?: true
        }
    }
}
