import COpenSSL
import Wire

/// Reusable HMAC context (RFC 2104) for one key, whose pads are hashed only once. One thread at a time.
@safe final class MACContext {
    private let context: OpaquePointer
    let hash: HashFunction

    init(key: RawSpan, hash: HashFunction) {
        guard let context = unsafe EVP_MAC_CTX_new(Self.hmac) else { preconditionFailure("out of memory") }
        unsafe self.context = context
        self.hash = hash
        precondition(unsafe Self.setKey(of: context, key, hash), "OpenSSL took no HMAC key")
    }

    deinit { unsafe EVP_MAC_CTX_free(context) }

    /// The authentication code of `message`.
    func authenticate(_ message: RawSpan) -> [UInt8] {
        let code = code(of: message)
        return (0..<hash.byteCount).map { code[$0] }
    }

    /// Whether `code` is the full, untruncated code of `message`, compared in constant time.
    func isValid(_ code: RawSpan, over message: RawSpan) -> Bool {
        guard code.byteCount == hash.byteCount else { return false }
        let own = self.code(of: message)
        return unsafe Digest.constantTimeEquals(code, own.span.bytes.extracting(0..<hash.byteCount))
    }

    /// The code of `message`, padded with zeros to 64 bytes, the longest digest.
    private func code(of message: RawSpan) -> InlineArray<64, UInt8> {
        var code = InlineArray<64, UInt8>(repeating: 0)
        var span = code.mutableSpan
        var count = 0
        let made = unsafe message.withUnsafeBytes { bytes in
            unsafe span.withUnsafeMutableBufferPointer { out in
                // Without a key, OpenSSL restarts from the stored pads.
                unsafe EVP_MAC_init(context, nil, 0, nil) == 1
                    && EVP_MAC_update(context, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count) == 1
                    && EVP_MAC_final(context, out.baseAddress, &count, out.count) == 1
            }
        }
        precondition(made && count == hash.byteCount, "OpenSSL could not make an HMAC")
        return code
    }

    private static func setKey(of context: OpaquePointer, _ key: RawSpan, _ hash: HashFunction) -> Bool {
        var name = Array(hash.nativeName.utf8CString)
        var parameter = Array(OSSL_MAC_PARAM_DIGEST.utf8CString)
        return unsafe name.withUnsafeMutableBufferPointer { name in
            unsafe parameter.withUnsafeMutableBufferPointer { parameter in
                let parameters = unsafe [
                    OSSL_PARAM_construct_utf8_string(parameter.baseAddress, name.baseAddress, 0),
                    OSSL_PARAM_construct_end(),
                ]
                return unsafe key.withUnsafeBytes {
                    // An empty key is valid, but a null pointer would mean "keep the key".
                    let start = unsafe $0.bindMemory(to: UInt8.self).baseAddress ?? UnsafePointer(bitPattern: 1)
                    return unsafe EVP_MAC_init(context, start, $0.count, parameters) == 1
                }
            }
        }
    }

    // Proof for `nonisolated(unsafe)`: a fetched EVP_MAC is immutable, and this one lives as long as the process.
    private nonisolated(unsafe) static let hmac: OpaquePointer = {
        guard let found = unsafe EVP_MAC_fetch(nil, "HMAC", nil) else { preconditionFailure("OpenSSL has no HMAC") }
        return unsafe found
    }()
}
