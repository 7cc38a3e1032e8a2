import Wire

/// The claims of a token whose signature and claims have been verified. Only `TokenVerifier` creates one, so a value is proof.
///
/// Texts are UTF-8 and safe in a header; an absent claim is empty.
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
    /// When the user signed in (`auth_time`), in seconds since 1970; nil if the token does not say.
    package let authenticatedAt: Int64?
    /// Bit n: requirement n of the trust is satisfied.
    package let requirementMask: UInt64
    /// Bit n: the token has scope n of the trust.
    package let scopeMask: UInt64
    /// Its audiences: bit n for resource n of the trust, and `Trust.ownAudience`.
    package let audienceMask: UInt64
    /// Whether the gateway issued the token.
    package let isOwn: Bool
    /// The contract that issued an own token; nil for a minted one.
    package let contract: ContractID?
    /// Whether `actor_type` or `actor_id` has a value of any type. `actorType` and `actorID` hold strings only.
    package let hasActor: Bool
    /// Whether the token has an email that counts as verified: for own tokens if `email_verified` is true, for outside issuers
    /// unless it is false.
    package let isEmailProven: Bool
    /// The key whose proof must come with the token (`cnf.jkt`, RFC 9449 §6.1); nil for a token that is bound to no key.
    package let owner: KeyThumbprint?
    /// True only if the verifier was called with `takesExpired`.
    package let isExpired: Bool

    /// All texts in one allocation.
    private let bytes: [UInt8]
    private let texts: IdentityTexts

    /// 1 to 256 bytes.
    package var userID: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.userID] } }
    package var email: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.email] } }
    /// The display name of the user: as they have chosen it, and no proof of anything.
    package var name: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.name] } }
    /// The tier claim, unchecked; it may be no configured tier.
    package var tier: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.tier] } }
    /// `sid`.
    package var sessionID: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.sessionID] } }
    package var actorType: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.actorType] } }
    package var actorID: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.actorID] } }
    /// `jti`.
    package var tokenID: RawSpan { @_lifetime(borrow self) get { bytes.rawBytes[texts.tokenID] } }

    /// Checks the claims of a token with a valid signature against its issuer's rules. Expiry is checked last, so that `expired`
    /// means that everything else is in order.
    init(
        _ proof: ProvenSignature, _ claims: borrowing JSONMembers, issuer index: Int, _ trust: Trust, _ now: WallTime,
        takesExpired: Bool, scratch: inout ByteBuffer
    ) throws(TokenFault) {
        let rules = trust.rules[index]
        try claims.check(rules.use)
        audienceMask = try trust.audienceMask(claims, issuer: index)
        let times = try TokenTimes(claims)
        try times.checkLifetime(rules.maxLifetimeSeconds)
        owner = try claims.owner()
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
        authenticatedAt = times.authenticatedAt
        requirementMask = trust.requirementMask(claims)
        scopeMask = trust.scopeMask(claims)
        isOwn = rules.isOwn
        contract = rules.isOwn ? claims.contract : nil
        hasActor = claims.hasValue("actor_type") || claims.hasValue("actor_id")
        isEmailProven = !texts.email.isEmpty && claims.isEmailVerified(ifAbsent: !rules.isOwn)
    }
}

extension JSONMembers {
    fileprivate var contract: ContractID? {
        guard case .string(let name)? = self["client_id"] else { return nil }
        for contract in ContractID.allCases where text(name, equals: Array(contract.name.utf8).rawBytes) { return contract }
        return nil
    }

    /// The thumbprint in `cnf`; nil where `cnf` names no key by one. One that cannot be read refuses the token, which would otherwise count
    /// without a proof.
    fileprivate func owner() throws(TokenFault) -> KeyThumbprint? {
        switch self["cnf"] {
        case nil, .null?: return nil
        case .object(let slice)?:
            var members = JSONMembers()
            do throws(JSONMembers.Fault) { try members.load(slice, of: self) } catch { throw .badClaim }
            guard let member = members["jkt"] else { return nil }
            guard case .string = member, let text = members.string("jkt"),
                let thumbprint = text.withRawBytes({ KeyThumbprint(base64url: $0) })
            else { throw .badClaim }
            return thumbprint
        case .string?, .halved?, .number?, .bool?, .array?: throw .badClaim
        }
    }

    /// Whether the member exists and is neither `null` nor an empty string.
    fileprivate func hasValue(_ name: StaticString) -> Bool {
        switch self[name] {
        case nil, .null?: false
        case .string(let text)?: !text.slice.isEmpty
        case .halved?, .number?, .bool?, .array?, .object?: true
        }
    }
}
