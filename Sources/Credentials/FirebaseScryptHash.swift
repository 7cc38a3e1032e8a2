import COpenSSL
import Wire

/// Firebase Authentication's password hash, in the form that Supabase's auth server gave it:
/// `$fbscrypt$v=1,n=MEM_COST,r=ROUNDS,p=1,ss=SALT_SEPARATOR,sk=SIGNER_KEY$SALT$HASH`, all bytes in padded base64. Verified only.
///
/// The hash is the project's signer key, encrypted by AES-256 in counter mode from a zero IV. The cipher's key is the first half of
/// scrypt (RFC 7914) of the password, with the account's salt and then the project's separator as its salt.
struct FirebaseScryptHash: Sendable, Equatable {
    /// Memory of one check: 128 · r · 2^n bytes. Firebase's own parameters (n=14, r=8) take 16 MiB.
    private static let maximumMemory: UInt64 = 64 << 20
    private static let derivedBytes = 64

    let text: String
    private let logCost: UInt64
    private let blockSize: UInt64
    /// The account's salt and the separator.
    private let salt: [UInt8]
    private let signerKey: [UInt8]
    private let hash: [UInt8]

    /// nil for another form, and for a cost that is not borne.
    init?(parsing text: String) {
        let parts = text.split(separator: "$", omittingEmptySubsequences: false)
        guard text.utf8.count <= 512, parts.count == 5, parts[0].isEmpty, parts[1] == "fbscrypt" else { return nil }
        let names = ["v=", "n=", "r=", "p=", "ss=", "sk="]
        let parameters = parts[2].split(separator: ",", omittingEmptySubsequences: false)
        guard parameters.count == names.count, zip(parameters, names).allSatisfy({ $0.hasPrefix($1) }) else { return nil }
        let values = zip(parameters, names).map { $0.dropFirst($1.count) }
        guard values[0] == "1", let logCost = Self.number(values[1], 1...16), let blockSize = Self.number(values[2], 1...64),
            values[3] == "1", logCost < 16 * blockSize, (128 * blockSize) << logCost <= Self.maximumMemory,
            let separator = Self.bytes(values[4], 0...32), let signerKey = Self.bytes(values[5], 16...128),
            let salt = Self.bytes(parts[3], 1...64), let hash = Self.bytes(parts[4], signerKey.count...signerKey.count)
        else { return nil }
        self.text = text
        self.logCost = logCost
        self.blockSize = blockSize
        self.salt = salt + separator
        self.signerKey = signerKey
        self.hash = hash
    }

    private static func number(_ digits: Substring, _ range: ClosedRange<UInt64>) -> UInt64? {
        guard (1...2).contains(digits.utf8.count), digits.utf8.allSatisfy(\.isASCIIDigit), let number = UInt64(digits),
            range.contains(number)
        else { return nil }
        return number
    }

    private static func bytes(_ text: Substring, _ counts: ClosedRange<Int>) -> [UInt8]? {
        guard let bytes = String(text).withRawBytes({ Base64.decode($0, isPadded: true) }), counts.contains(bytes.count) else { return nil }
        return bytes
    }

    /// Whether the hash is of `password`, compared in constant time; nil if memory runs out.
    func matches(_ password: RawSpan) -> Bool? {
        var derived = [UInt8](repeating: 0, count: Self.derivedBytes)
        let isDerived = unsafe password.withUnsafeBytes { password in
            unsafe EVP_PBE_scrypt(
                password.bindMemory(to: CChar.self).baseAddress, password.count, salt, salt.count, 1 << logCost, blockSize, 1,
                // OpenSSL counts some KiB more than the memory of the algorithm.
                Self.maximumMemory + (1 << 20), &derived, derived.count)
        }
        guard isDerived == 1, let other = Self.encrypt(signerKey, key: Array(derived.prefix(32))) else {
            ERR_clear_error()
            return nil
        }
        return Digest.constantTimeEquals(other.rawBytes, hash.rawBytes)
    }

    private static func encrypt(_ input: [UInt8], key: [UInt8]) -> [UInt8]? {
        guard let context = unsafe EVP_CIPHER_CTX_new() else { return nil }
        defer { unsafe EVP_CIPHER_CTX_free(context) }
        let zero = [UInt8](repeating: 0, count: 16)
        var output = [UInt8](repeating: 0, count: input.count)
        var count: Int32 = 0
        guard unsafe EVP_EncryptInit_ex2(context, EVP_aes_256_ctr(), key, zero, nil) == 1,
            unsafe EVP_EncryptUpdate(context, &output, &count, input, Int32(input.count)) == 1
        else { return nil }
        return output
    }
}
