import COpenSSL
import Wire

/// A key's secret or asymmetric key, checked to be strong enough for the algorithms in `fitting` (RFC 8725 §3.5).
struct KeyMaterial: Sendable {
    enum Content: Sendable {
        case secret([UInt8])
        case rsa(NativeKey)
        case curve(EllipticCurve, NativeKey)
        case ed25519(NativeKey)
    }

    let content: Content
    /// The algorithms that this key could be used for.
    let fitting: AlgorithmSet

    /// A shared secret of at least 32 bytes. PEM text is refused: with a public key as the HMAC secret everyone could sign
    /// (RFC 8725 §2.1).
    init(secret: [UInt8], named name: String) throws(KeyFault) {
        guard !Self.looksLikePEM(secret.rawBytes) else {
            throw KeyFault("\(name) is PEM text, which is no shared secret")
        }
        let fitting = AlgorithmSet(
            SigningAlgorithm.allCases.filter { $0.isSymmetric && secret.count >= $0.hash.byteCount })
        guard !fitting.isEmpty else {
            throw KeyFault("\(name) has \(secret.count) bytes, but a shared secret needs at least 32")
        }
        content = .secret(secret)
        self.fitting = fitting
    }

    /// An asymmetric key from a JWK, PEM block or certificate.
    init(_ key: NativeKey, named name: String) throws(KeyFault) {
        if key.isA("RSA") {
            try Self.checkRSA(key, named: name)
            content = .rsa(key)
            fitting = .rsa
        } else if key.isA("EC") {
            let curve = try Self.checkedCurve(of: key, named: name)
            content = .curve(curve, key)
            fitting = AlgorithmSet(curve.algorithm)
        } else if key.isA("ED25519") {
            content = .ed25519(key)
            fitting = .ed25519
        } else {
            throw KeyFault("\(name) is of a kind that is not supported; RSA, P-256, P-384, P-521 and Ed25519 are")
        }
    }

    /// The asymmetric key; nil for a secret.
    var native: NativeKey? {
        switch content {
        case .secret: nil
        case .rsa(let key), .curve(_, let key), .ed25519(let key): key
        }
    }

    /// Requires 2,048 bits (RFC 7518 §3.3) to 8,192 bits, and an exponent that is odd, above 1 and at most 32 bits long. The bounds keep
    /// a verification, which an event loop makes, below a millisecond: 0.6 ms where 16,384 bits with 64 take 4.5 ms.
    private static func checkRSA(_ key: NativeKey, named name: String) throws(KeyFault) {
        guard let modulus = key.number(OSSL_PKEY_PARAM_RSA_N), let exponent = key.number(OSSL_PKEY_PARAM_RSA_E) else {
            throw KeyFault("\(name) cannot be read as an RSA key")
        }
        guard key.bits >= 2048 else { throw KeyFault("\(name) has \(key.bits) bits, but RSA needs at least 2048") }
        guard key.bits <= 8192 else { throw KeyFault("\(name) has \(key.bits) bits, but RSA may have at most 8192") }
        guard let low = modulus.last, low & 1 == 1 else { throw KeyFault("\(name) has an even RSA modulus") }
        guard let last = exponent.last, last & 1 == 1, exponent != [1] else {
            throw KeyFault("\(name) has an RSA exponent that is even or 1")
        }
        guard exponent.count <= 4 else { throw KeyFault("\(name) has an RSA exponent of more than 32 bits") }
        guard !ROCAFingerprint.isOn(modulus) else {
            throw KeyFault(
                "\(name) has the ROCA fingerprint (CVE-2017-15361): its private key can be computed; replace it with a key from OpenSSL or a patched device",
                isForgeable: true)
        }
    }

    private static func checkedCurve(of key: NativeKey, named name: String) throws(KeyFault) -> EllipticCurve {
        guard let group = key.groupName, let curve = EllipticCurve.allCases.first(where: { $0.nativeName == group })
        else { throw KeyFault("\(name) is on a curve that is not supported; P-256, P-384 and P-521 are") }
        guard key.passesPublicCheck else { throw KeyFault("\(name) is no valid point of \(curve.jwkName)") }
        return curve
    }

    static func looksLikePEM(_ bytes: RawSpan) -> Bool {
        var offset = 0
        while let dash = bytes.firstIndex(of: UInt8(ascii: "-"), from: offset) {
            if bytes.dropping(dash).hasPrefix("-----BEGIN ") { return true }
            offset = dash + 1
        }
        return false
    }
}
