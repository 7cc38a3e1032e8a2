/// A valid proof of possession of a device key (RFC 9449). Only `DeviceProofVerifier` creates one, so a value is proof.
///
/// That it is used once, and that its nonce is one of the gateway's, is for the caller to check.
package struct DeviceProof: Sendable {
    /// The most seconds of a proof's age.
    package static let maximumAgeSeconds: Int64 = 60
    /// The algorithms that proofs may have: as `algs` of a challenge (RFC 9449 §7.1), and as a set.
    package static let algorithmNames: StaticString = "ES256 EdDSA RS256 PS256"
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

    /// The stable identifier in logs and metrics.
    package var reason: StaticString {
        switch self {
        case .missing: "proof_missing"
        case .unbound: "proof_unbound"
        case .repeated: "proof_repeated"
        case .malformed: "proof_malformed"
        case .wrongType: "proof_type"
        case .algorithm: "proof_algorithm"
        case .badKey: "proof_key"
        case .otherKey: "proof_other_key"
        case .badSignature: "proof_signature"
        case .wrongMethod: "proof_method"
        case .wrongURL: "proof_url"
        case .wrongToken: "proof_token"
        case .stale: "proof_stale"
        case .nonce: "proof_nonce"
        case .replayed: "proof_replayed"
        }
    }

    /// `error` of the challenge in `WWW-Authenticate` (RFC 9449 §7.1, §9).
    package var errorCode: StaticString {
        switch self {
        case .missing: "use_dpop_proof"
        case .unbound: "invalid_token"
        case .nonce: "use_dpop_nonce"
        case .repeated, .malformed, .wrongType, .algorithm, .badKey, .otherKey, .badSignature, .wrongMethod, .wrongURL, .wrongToken,
            .stale, .replayed:
            "invalid_dpop_proof"
        }
    }

    /// The `error_description` of the challenge: ASCII without quotes or backslashes.
    package var errorDescription: StaticString {
        switch self {
        case .missing: "The token is bound to a key, and the request has no proof of it"
        case .unbound: "The token is not bound to a key; refresh it with a proof"
        case .repeated: "The request has more than one proof"
        case .malformed: "The proof is malformed"
        case .wrongType: "The proof is not of the type dpop+jwt"
        case .algorithm: "The proof's algorithm is not supported"
        case .badKey: "The proof's key is not usable"
        case .otherKey: "The proof is by another key than the token is bound to"
        case .badSignature: "The proof's signature does not hold"
        case .wrongMethod: "The proof is for another method"
        case .wrongURL: "The proof is for another URL"
        case .wrongToken: "The proof is for another token"
        case .stale: "The proof is too old, or of the future"
        case .nonce: "The proof has no nonce that counts"
        case .replayed: "The proof was used before"
        }
    }
}
