import COpenSSL
import Wire

/// Verifier of RSA and ECDSA signatures under one key and algorithm. One thread at a time.
///
/// The context is initialised once: OpenSSL allows any number of verifications after one `EVP_PKEY_verify_init`, so a token costs
/// a digest and the arithmetic.
@safe final class DigestVerifier {
    private let context: OpaquePointer
    private let hash: HashFunction
    /// The only length of a signature (RFC 8017 §8.2.2, RFC 7518 §3.4).
    private let signatureBytes: Int
    private let curve: EllipticCurve?

    init?(rsa key: NativeKey, _ algorithm: SigningAlgorithm) {
        hash = algorithm.hash
        signatureBytes = (key.bits + 7) / 8
        curve = nil
        guard let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, key.pointer, nil) else { return nil }
        unsafe self.context = context
        let isPSS = algorithm.family == .rsaPSS
        let padding = isPSS ? RSA_PKCS1_PSS_PADDING : RSA_PKCS1_PADDING
        guard unsafe EVP_PKEY_verify_init(context) == 1, unsafe EVP_PKEY_CTX_set_rsa_padding(context, padding) == 1,
            unsafe EVP_PKEY_CTX_set_signature_md(context, hash.native) == 1
        else { return nil }
        guard isPSS else { return }
        // The salt is as long as the hash, and MGF1 uses the same hash (RFC 7518 §3.5).
        guard unsafe EVP_PKEY_CTX_set_rsa_mgf1_md(context, hash.native) == 1,
            unsafe EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1
        else { return nil }
    }

    init?(_ curve: EllipticCurve, _ key: NativeKey, _ algorithm: SigningAlgorithm) {
        hash = algorithm.hash
        signatureBytes = 2 * curve.fieldBytes
        self.curve = curve
        guard let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, key.pointer, nil) else { return nil }
        unsafe self.context = context
        guard unsafe EVP_PKEY_verify_init(context) == 1,
            unsafe EVP_PKEY_CTX_set_signature_md(context, hash.native) == 1
        else { return nil }
    }

    deinit { unsafe EVP_PKEY_CTX_free(context) }

    /// Whether `signature`, in the form of RFC 7518 §3.3 to §3.5, is valid for `message`. `der` is scratch memory.
    func isValid(
        _ signature: RawSpan, over message: RawSpan, _ digester: inout Digester, _ der: inout ByteBuffer
    ) -> Bool {
        guard signature.byteCount == signatureBytes else { return false }
        let digest = digester.digest(message, hash)
        guard curve != nil else { return check(signature, of: digest) }
        der.removeAll()
        DER.appendSignature(halves: signature, to: &der)
        return check(der.readable, of: digest)
    }

    /// Whether `signature`, for a curve an Ecdsa-Sig-Value in DER, is valid for `message`: the form of WebAuthn §6.5.5.
    func isValid(encoded signature: RawSpan, over message: RawSpan, _ digester: inout Digester) -> Bool {
        check(signature, of: digester.digest(message, hash))
    }

    private func check(_ signature: RawSpan, of digest: RawSpan) -> Bool {
        let result = unsafe signature.withUnsafeBytes { signature in
            unsafe digest.withUnsafeBytes {
                unsafe EVP_PKEY_verify(
                    context, signature.bindMemory(to: UInt8.self).baseAddress, signature.count,
                    $0.bindMemory(to: UInt8.self).baseAddress, $0.count)
            }
        }
        if result == 1 { return true }
        // TLS on this thread reads the same error queue and would take our errors for its own.
        ERR_clear_error()
        return false
    }
}

/// Verifier of Ed25519 signatures (RFC 8032) under one key. One thread at a time.
@safe final class Ed25519Verifier {
    private let context: OpaquePointer
    private let key: NativeKey

    init(_ key: NativeKey) {
        guard let context = unsafe EVP_MD_CTX_new() else { preconditionFailure("out of memory") }
        unsafe self.context = context
        self.key = key
    }

    deinit { unsafe EVP_MD_CTX_free(context) }

    func isValid(_ signature: RawSpan, over message: RawSpan) -> Bool {
        guard signature.byteCount == 64 else { return false }
        let result = unsafe signature.withUnsafeBytes { signature in
            unsafe message.withUnsafeBytes {
                // OpenSSL takes an Ed25519 context for one message only; a reset is cheap beside the arithmetic.
                guard unsafe EVP_MD_CTX_reset(context) == 1,
                    unsafe EVP_DigestVerifyInit(context, nil, nil, nil, key.pointer) == 1
                else { return Int32(0) }
                return unsafe EVP_DigestVerify(
                    context, signature.bindMemory(to: UInt8.self).baseAddress, signature.count,
                    $0.bindMemory(to: UInt8.self).baseAddress, $0.count)
            }
        }
        if result == 1 { return true }
        ERR_clear_error()
        return false
    }
}
