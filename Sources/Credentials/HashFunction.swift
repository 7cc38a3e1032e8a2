import COpenSSL

/// The hash functions of signature algorithms (FIPS 180-4).
enum HashFunction: UInt8, CaseIterable, Sendable {
    case sha256, sha384, sha512

    /// The length of a digest in bytes.
    var byteCount: Int {
        switch self {
        case .sha256: 32
        case .sha384: 48
        case .sha512: 64
        }
    }

    /// The name in OpenSSL.
    var nativeName: String {
        switch self {
        case .sha256: "SHA256"
        case .sha384: "SHA384"
        case .sha512: "SHA512"
        }
    }

    /// OpenSSL's implementation, fetched once: fetching it for each digest costs more than the digest.
    @unsafe var native: OpaquePointer {
        switch self {
        case .sha256: unsafe Self.nativeSHA256
        case .sha384: unsafe Self.nativeSHA384
        case .sha512: unsafe Self.nativeSHA512
        }
    }

    // Proof for `nonisolated(unsafe)`: a fetched EVP_MD is immutable, and these live as long as the process.
    private nonisolated(unsafe) static let nativeSHA256 = unsafe fetch(.sha256)
    private nonisolated(unsafe) static let nativeSHA384 = unsafe fetch(.sha384)
    private nonisolated(unsafe) static let nativeSHA512 = unsafe fetch(.sha512)

    private static func fetch(_ hash: Self) -> OpaquePointer {
        guard let found = unsafe EVP_MD_fetch(nil, hash.nativeName, nil) else {
            preconditionFailure("OpenSSL has no \(hash.nativeName)")
        }
        return unsafe found
    }
}

extension SigningAlgorithm {
    /// The hash function of the signature; Ed25519 contains SHA-512 (RFC 8032).
    var hash: HashFunction {
        switch self {
        case .HS256, .RS256, .PS256, .ES256: .sha256
        case .HS384, .RS384, .PS384, .ES384: .sha384
        case .HS512, .RS512, .PS512, .ES512, .EdDSA: .sha512
        }
    }
}
