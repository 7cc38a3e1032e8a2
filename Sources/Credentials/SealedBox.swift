import COpenSSL
import Wire

/// Authenticated encryption of secrets at rest: AES-256-GCM (NIST SP 800-38D) with a key derived from a shared secret by HKDF
/// (RFC 5869). Any thread.
///
/// A box is a version (1 byte), a random nonce (12), the ciphertext, and a tag (16) that covers the ciphertext and the name.
/// Random nonces allow 2^32 boxes under one secret and label. What is sealed for requests has a label of its own each day.
package struct SealedBox: Sendable {
    private static let version: UInt8 = 1
    private static let nonceBytes = 12
    private static let tagBytes = 16
    private static let overhead = 1 + nonceBytes + tagBytes

    private let key: [UInt8]

    /// Derives the key from `secret`; different labels give independent keys.
    package init(secret: [UInt8], label: String) {
        key = Self.derive(secret, label)
    }

    /// Encrypts `secret`. Opening needs the same `name`, the additional authenticated data.
    package func seal(_ secret: [UInt8], as name: String, random: RandomBytes = SecureRandom.bytes) -> [UInt8] {
        let nonce = random(Self.nonceBytes)
        precondition(nonce.count == Self.nonceBytes, "a nonce has 12 bytes")
        var tag = [UInt8](repeating: 0, count: Self.tagBytes)
        guard let encrypted = cipher(secret, nonce, name, &tag, encrypts: true) else {
            preconditionFailure("OpenSSL could not encrypt")
        }
        return [Self.version] + nonce + encrypted + tag
    }

    /// Decrypts a box; nil if it was sealed with another secret or name, or is damaged.
    package func open(_ sealed: [UInt8], as name: String) -> [UInt8]? {
        guard sealed.count >= Self.overhead, sealed[0] == Self.version else { return nil }
        let nonce = Array(sealed[1..<1 + Self.nonceBytes])
        let encrypted = Array(sealed[(1 + Self.nonceBytes)..<(sealed.count - Self.tagBytes)])
        var tag = Array(sealed.suffix(Self.tagBytes))
        return cipher(encrypted, nonce, name, &tag, encrypts: false)
    }

    /// Encrypts or decrypts `input`; nil if the tag does not match.
    private func cipher(
        _ input: [UInt8], _ nonce: [UInt8], _ name: String, _ tag: inout [UInt8], encrypts: Bool
    ) -> [UInt8]? {
        guard let context = unsafe EVP_CIPHER_CTX_new() else { preconditionFailure("out of memory") }
        defer { unsafe EVP_CIPHER_CTX_free(context) }
        let direction: Int32 = encrypts ? 1 : 0
        let name = Array(name.utf8)
        var output = [UInt8](repeating: 0, count: input.count + Self.tagBytes)
        var count: Int32 = 0
        guard unsafe EVP_CipherInit_ex2(context, EVP_aes_256_gcm(), key, nonce, direction, nil) == 1,
            unsafe EVP_CipherUpdate(context, nil, &count, name, Int32(name.count)) == 1,
            unsafe EVP_CipherUpdate(context, &output, &count, input, Int32(input.count)) == 1
        else { return nil }
        let length = Int(count)
        if !encrypts, unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, Int32(tag.count), &tag) != 1 { return nil }
        var rest = [UInt8](repeating: 0, count: Self.tagBytes)
        guard unsafe EVP_CipherFinal_ex(context, &rest, &count) == 1 else { return nil }
        if encrypts, unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, Int32(tag.count), &tag) != 1 { return nil }
        return Array(output.prefix(length))
    }

    private static func derive(_ secret: [UInt8], _ label: String) -> [UInt8] {
        guard let kdf = unsafe EVP_KDF_fetch(nil, "HKDF", nil), let context = unsafe EVP_KDF_CTX_new(kdf) else {
            preconditionFailure("OpenSSL has no HKDF")
        }
        defer {
            unsafe EVP_KDF_CTX_free(context)
            unsafe EVP_KDF_free(kdf)
        }
        var (secret, info, key) = (secret, Array(label.utf8), [UInt8](repeating: 0, count: 32))
        var hash = Array("SHA256".utf8CString)
        let made = unsafe secret.withUnsafeMutableBytes { secret in
            unsafe info.withUnsafeMutableBytes { info in
                unsafe hash.withUnsafeMutableBufferPointer { hash in
                    let parameters = unsafe [
                        OSSL_PARAM_construct_utf8_string(name("digest"), hash.baseAddress, 0),
                        OSSL_PARAM_construct_octet_string(name("key"), secret.baseAddress, secret.count),
                        OSSL_PARAM_construct_octet_string(name("info"), info.baseAddress, info.count),
                        OSSL_PARAM_construct_end(),
                    ]
                    return unsafe EVP_KDF_derive(context, &key, key.count, parameters)
                }
            }
        }
        precondition(made == 1, "OpenSSL could not derive a key")
        return key
    }

    /// The name of an OSSL_PARAM, which keeps the pointer; a literal lives as long as the process.
    private static func name(_ text: StaticString) -> UnsafePointer<CChar> {
        unsafe UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)
    }
}
