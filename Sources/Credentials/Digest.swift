import COpenSSL
import Wire

/// SHA-256, HMAC-SHA-256 and constant-time comparison. Any thread.
package enum Digest {
    /// The SHA-256 digest, 32 bytes (FIPS 180-4).
    package static func sha256(_ bytes: RawSpan) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: HashFunction.sha256.byteCount)
        let made = unsafe bytes.withUnsafeBytes {
            unsafe EVP_Digest($0.baseAddress, $0.count, &digest, nil, HashFunction.sha256.native, nil)
        }
        precondition(made == 1, "OpenSSL could not hash")
        return digest
    }

    /// The HMAC-SHA-256, 32 bytes (RFC 2104).
    package static func hmacSHA256(_ bytes: RawSpan, key: RawSpan) -> [UInt8] {
        hmac(bytes, key: key, hash: .sha256)
    }

    static func hmac(_ bytes: RawSpan, key: RawSpan, hash: HashFunction) -> [UInt8] {
        MACContext(key: key, hash: hash).authenticate(bytes)
    }

    /// Whether both are equal, in time that depends only on their lengths. For every comparison with a secret.
    package static func constantTimeEquals(_ left: RawSpan, _ right: RawSpan) -> Bool {
        guard left.byteCount == right.byteCount else { return false }
        return unsafe left.withUnsafeBytes { mine in
            unsafe right.withUnsafeBytes { unsafe CRYPTO_memcmp(mine.baseAddress, $0.baseAddress, $0.count) == 0 }
        }
    }
}
