import COpenSSL
import Wire

/// Django's password hash, `pbkdf2_sha256$ITERATIONS$SALT$TAG`: PBKDF2 (RFC 8018 §5.2) with HMAC-SHA-256, the salt as plain
/// text, the tag in padded base64. Verified only; new hashes are argon2id.
struct PBKDF2Hash: Sendable, Equatable {
    /// More iterations would occupy a thread for several seconds.
    private static let maximumIterations: Int32 = 10_000_000
    private static let tagBytes = 32

    let text: String
    private let iterations: Int32
    private let salt: [UInt8]
    private let tag: [UInt8]

    /// Parses Django's form; nil for any other, and for more than `maximumIterations`.
    init?(parsing text: String) {
        let parts = text.split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "pbkdf2_sha256", parts[1].utf8.allSatisfy(\.isASCIIDigit),
            let iterations = Int32(parts[1]), (1...Self.maximumIterations).contains(iterations),
            (1...128).contains(parts[2].utf8.count),
            let tag = String(parts[3]).withRawBytes({ Base64.decode($0, isPadded: true) }), tag.count == Self.tagBytes
        else { return nil }
        self.text = text
        self.iterations = iterations
        salt = Array(parts[2].utf8)
        self.tag = tag
    }

    /// Whether the hash is of `password`, compared in constant time; nil if memory runs out.
    func matches(_ password: RawSpan) -> Bool? {
        var other = [UInt8](repeating: 0, count: tag.count)
        let made = unsafe password.withUnsafeBytes { password in
            unsafe PKCS5_PBKDF2_HMAC(
                password.bindMemory(to: CChar.self).baseAddress, Int32(password.count), salt, Int32(salt.count),
                iterations, HashFunction.sha256.native, Int32(other.count), &other)
        }
        guard made == 1 else {
            ERR_clear_error()
            return nil
        }
        return Digest.constantTimeEquals(other.rawBytes, tag.rawBytes)
    }
}
