/// A valid proof of possession of a device key (RFC 9449). Only `DeviceProofVerifier` creates one, so a value is proof.
///
/// That it is used once, and that its nonce is one of the gateway's, is for the caller to check.
package struct DeviceProof: Sendable {
    /// The most seconds of a proof's age.
    package static let maximumAgeSeconds: Int64 = 60
    /// The algorithms that proofs may have: as `algs` of a challenge (RFC 9449 §7.1), and as a set.
    package static let algorithmNames: StaticString = "ES256 EdDSA Ed25519 RS256 PS256"
    static let algorithms = AlgorithmSet([.ES256, .EdDSA, .RS256, .PS256])

    /// The key that made it.
    package let thumbprint: KeyThumbprint
    /// `iat`, in seconds since 1970.
    package let issuedAt: Int64
    /// Half of a SHA-256 digest of key and `jti`: the same for no other proof.
    package let tokenIDDigest: UInt128
    /// nil for none, or a text that the gateway never gave.
    package let nonce: ProofNonce?

    /// The last second in which it counts; after that it need not be remembered.
    package var endsAt: Int64 { issuedAt + Self.maximumAgeSeconds }
}

/// The reason why a proof is refused.
package enum DeviceProofFault: Error, Equatable, Sendable, CaseIterable {
    /// None was sent.
    case missing
    /// The token or the session is bound to no key, so that no proof helps.
    case unbound
    /// More than one was sent.
    case repeated
    /// More than 4 KiB, no JWT, or a claim that is absent or of another type.
    case malformed
    /// `typ` is not `dpop+jwt`, or the header demands an extension.
    case wrongType
    case algorithm
    /// `jwk` is no public key for the algorithm, or holds a private one.
    case badKey
    /// A key, but not the one that the token or session is bound to.
    case otherKey
    case badSignature
    /// `htm`, `htu` and `ath` are not those of the request.
    case wrongMethod, wrongURL, wrongToken
    /// `iat` is too old or in the future.
    case stale
    /// `nonce` is none of the gateway's that count.
    case nonce
    /// It was used before.
    case replayed

    /// The way to mend it.
    package enum Remedy: Sendable {
        /// To send a proof; to refresh the token with one; to use the nonce of the answer; to make a new one, as that was used, or wrong.
        case prove, bind, useNonce, repeatAnew, correct
    }

    package var remedy: Remedy { row.remedy }

    /// `error` of the challenge in `WWW-Authenticate` (RFC 9449 §7.1, §9).
    package var errorCode: StaticString {
        switch remedy {
        case .prove: "use_dpop_proof"
        case .bind: "invalid_token"
        case .useNonce: "use_dpop_nonce"
        case .repeatAnew, .correct: "invalid_dpop_proof"
        }
    }

    /// The `error_description` of the challenge: ASCII without quotes or backslashes.
    package var errorDescription: StaticString { row.description }

    private var row: (remedy: Remedy, description: StaticString) {
        switch self {
        case .missing: (.prove, "The token is bound to a key, and the request has no proof of it")
        case .unbound: (.bind, "The token is not bound to a key; refresh it with a proof")
        case .repeated: (.correct, "The request has more than one proof")
        case .malformed: (.correct, "The proof is malformed")
        case .wrongType: (.correct, "The proof is not of the type dpop+jwt")
        case .algorithm: (.correct, "The proof's algorithm is not supported")
        case .badKey: (.correct, "The proof's key is not usable")
        case .otherKey: (.correct, "The proof is by another key than the token is bound to")
        case .badSignature: (.correct, "The proof's signature does not hold")
        case .wrongMethod: (.correct, "The proof is for another method")
        case .wrongURL: (.correct, "The proof is for another URL")
        case .wrongToken: (.correct, "The proof is for another token")
        case .stale: (.correct, "The proof is too old, or of the future")
        case .nonce: (.useNonce, "The proof has no nonce that counts")
        case .replayed: (.repeatAnew, "The proof was used before")
        }
    }
}
