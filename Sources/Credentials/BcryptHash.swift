import CCrypt
import Wire

/// A bcrypt hash, as `$2b$12$…` (also `$2a$`, `$2y$`) or as Django keeps it: `bcrypt$` before it, or `bcrypt_sha256$`, then of
/// the password's SHA-256 in hexadecimal. Only verified, never made.
struct BcryptHash: Sendable, Equatable {
    /// As the base-2 logarithm of the rounds. Above it a stored hash would hold a thread for several seconds.
    private static let costs = 4...14
    /// bcrypt reads no more of a password.
    private static let longest = 72

    let text: String
    private let hash: String
    private let isDigested: Bool

    /// nil for another form, and for a cost that is not borne.
    init?(parsing text: String) {
        let digested = "bcrypt_sha256$", plain = "bcrypt$"
        isDigested = text.hasPrefix(digested)
        let hash = isDigested ? text.dropFirst(digested.count) : text.hasPrefix(plain) ? text.dropFirst(plain.count) : text[...]
        let parts = hash.split(separator: "$", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0].isEmpty, ["2a", "2b", "2y"].contains(parts[1]), parts[2].utf8.count == 2,
            parts[2].utf8.allSatisfy(\.isASCIIDigit), let cost = Int(parts[2]), Self.costs.contains(cost),
            parts[3].utf8.count == 53, parts[3].utf8.allSatisfy(Self.isInAlphabet)
        else { return nil }
        self.text = text
        self.hash = String(hash)
    }

    private static func isInAlphabet(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "/")
    }

    /// Whether `password` is the one; nil without memory. A password with a NUL is not, for bcrypt would stop there; and not one
    /// of more than 72 bytes that is not digested first, for bcrypt would take any other with the same beginning.
    func matches(_ password: RawSpan) -> Bool? {
        var phrase = isDigested ? Self.digest(password) : password.array
        guard phrase.count <= Self.longest, !phrase.contains(0) else { return false }
        phrase.append(0)
        var made = [CChar](repeating: 0, count: Int(CCRYPT_BCRYPT_SIZE))
        let isMade = unsafe phrase.withUnsafeBytes { phrase in
            unsafe ccrypt_bcrypt(phrase.bindMemory(to: CChar.self).baseAddress, hash, &made)
        }
        guard isMade == 1 else { return nil }
        let other = made.dropLast().map { UInt8(bitPattern: $0) }
        return Digest.constantTimeEquals(other.rawBytes, Array(hash.utf8).rawBytes)
    }

    private static func digest(_ password: RawSpan) -> [UInt8] {
        var text = ByteBuffer()
        for byte in Digest.sha256(password) { text.append(hex: UInt64(byte), digits: 2) }
        return text.readable.array
    }
}
