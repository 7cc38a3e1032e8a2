import COpenSSL
import Synchronization
import Wire

extension KeyMaterial {
    /// The signature of `message` in the form of RFC 7518 §3; nil without a private key or if OpenSSL fails.
    func sign(_ message: RawSpan, _ algorithm: SigningAlgorithm) -> [UInt8]? {
        switch content {
        case .secret(let secret): return Digest.hmac(message, key: secret.rawBytes, hash: algorithm.hash)
        case .rsa(let key): return key.sign(message, algorithm)
        case .curve(let curve, let key): return key.sign(message, algorithm).flatMap { Self.halves(ofDER: $0, curve) }
        case .ed25519(let key): return key.sign(message, algorithm)
        }
    }

    /// r and s, each padded to the length of the field (RFC 7518 §3.4).
    private static func halves(ofDER der: [UInt8], _ curve: EllipticCurve) -> [UInt8]? {
        let width = curve.fieldBytes
        var halves = [UInt8](repeating: 0, count: 2 * width)
        let isRead = unsafe der.withUnsafeBufferPointer { bytes in
            var next = bytes.baseAddress
            guard let signature = unsafe d2i_ECDSA_SIG(nil, &next, bytes.count) else { return false }
            defer { unsafe ECDSA_SIG_free(signature) }
            return unsafe halves.withUnsafeMutableBufferPointer { out in
                guard let start = out.baseAddress else { return false }
                let number = Int32(width)
                return unsafe BN_bn2binpad(ECDSA_SIG_get0_r(signature), start, number) == number
                    && BN_bn2binpad(ECDSA_SIG_get0_s(signature), start + width, number) == number
            }
        }
        return isRead ? halves : nil
    }
}

extension NativeKey {
    /// The signature in OpenSSL's form (DER for ECDSA); nil without a private key.
    fileprivate func sign(_ message: RawSpan, _ algorithm: SigningAlgorithm) -> [UInt8]? {
        defer { ERR_clear_error() }
        let begun = begun.withLock { begun in
            if begun?.algorithm != algorithm { begun = BegunSignature(self, algorithm) }
            return begun
        }
        guard let begun, let context = unsafe EVP_MD_CTX_new() else { return nil }
        defer { unsafe EVP_MD_CTX_free(context) }
        guard unsafe EVP_MD_CTX_copy_ex(context, begun.context) == 1 else { return nil }
        return unsafe message.withUnsafeBytes { bytes in
            let start = unsafe bytes.bindMemory(to: UInt8.self).baseAddress
            var count = 0
            guard unsafe EVP_DigestSign(context, nil, &count, start, bytes.count) == 1 else { return nil }
            var signature = [UInt8](repeating: 0, count: count)
            guard unsafe EVP_DigestSign(context, &signature, &count, start, bytes.count) == 1 else { return nil }
            return Array(signature.prefix(count))
        }
    }
}

/// A context in which a signature has begun, to be copied for each: else OpenSSL looks all of its parts up by their names.
@safe final class BegunSignature: Sendable {
    // Proof for `nonisolated(unsafe)`: nothing changes it once it is made, and a copy only counts references, atomically.
    @unsafe fileprivate nonisolated(unsafe) let context: OpaquePointer
    fileprivate let algorithm: SigningAlgorithm

    fileprivate init?(_ key: NativeKey, _ algorithm: SigningAlgorithm) {
        guard let context = unsafe EVP_MD_CTX_new() else { return nil }
        unsafe self.context = context
        self.algorithm = algorithm
        var options: OpaquePointer?
        let hash = algorithm.family == .ed25519 ? nil : unsafe algorithm.hash.native
        guard unsafe EVP_DigestSignInit(context, &options, hash, nil, key.pointer) == 1 else { return nil }
        guard algorithm.family == .rsaPSS else { return }
        guard unsafe EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1,
            unsafe EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1
        else { return nil }
    }

    deinit { unsafe EVP_MD_CTX_free(context) }
}
