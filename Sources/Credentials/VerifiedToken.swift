import Wire

/// What a token said whose signature and claims held. Only the verifier makes one: to have it is the proof.
///
/// Texts are UTF-8 without control characters, fit for a header, and empty where the token does not say.
package struct VerifiedToken: Sendable {
    /// Index into `Trust.issuers`.
    package let issuerIndex: Int
    /// The key that verified it, and its algorithm.
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

    private let texts: [UInt8]
    private let slices: Texts

    struct Texts {
        var userID = Slice()
        var email = Slice()
        var tier = Slice()
        var sessionID = Slice()
        var actorType = Slice()
        var actorID = Slice()
        var tokenID = Slice()
    }

    /// 1 to 256 bytes.
    package var userID: RawSpan { @_lifetime(borrow self) get { texts.rawBytes[slices.userID] } }
    package var email: RawSpan { @_lifetime(borrow self) get { texts.rawBytes[slices.email] } }
    /// The tier claim as it stands; it may name no tier known here.
    package var tier: RawSpan { @_lifetime(borrow self) get { texts.rawBytes[slices.tier] } }
    /// `sid`.
    package var sessionID: RawSpan { @_lifetime(borrow self) get { texts.rawBytes[slices.sessionID] } }
    package var actorType: RawSpan { @_lifetime(borrow self) get { texts.rawBytes[slices.actorType] } }
    package var actorID: RawSpan { @_lifetime(borrow self) get { texts.rawBytes[slices.actorID] } }
    /// `jti`.
    package var tokenID: RawSpan { @_lifetime(borrow self) get { texts.rawBytes[slices.tokenID] } }
}
