import COpenSSL
import Wire

/// A reusable OpenSSL hash context: no allocation for each digest. One thread at a time.
@safe struct Digester: ~Copyable {
    private let context: OpaquePointer
    /// The latest digest; the longest has 64 bytes.
    private var bytes = [UInt8](repeating: 0, count: 64)

    init() {
        guard let context = unsafe EVP_MD_CTX_new() else { preconditionFailure("out of memory") }
        unsafe self.context = context
    }

    deinit { unsafe EVP_MD_CTX_free(context) }

    /// The digest of `message`; valid until the next call.
    @_lifetime(&self)
    mutating func digest(_ message: RawSpan, _ hash: HashFunction) -> RawSpan {
        var count: UInt32 = 0
        let made = unsafe message.withUnsafeBytes { message in
            unsafe bytes.withUnsafeMutableBufferPointer {
                unsafe EVP_DigestInit_ex2(context, hash.native, nil) == 1
                    && EVP_DigestUpdate(context, message.baseAddress, message.count) == 1
                    && EVP_DigestFinal_ex(context, $0.baseAddress, &count) == 1
            }
        }
        precondition(made && Int(count) == hash.byteCount, "OpenSSL could not hash")
        return bytes.rawBytes.extracting(0..<hash.byteCount)
    }
}
