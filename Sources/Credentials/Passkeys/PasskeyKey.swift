import Wire

/// The public key of a passkey: of ES256, EdDSA or RS256, as strong as a key of the same algorithm must be in a key set.
struct PasskeyKey {
    let algorithm: SigningAlgorithm
    private let native: NativeKey

    /// Reads a COSE_Key (RFC 9052 §7) with the parameters of RFC 9053 §7 and RFC 8230 §4.
    init(cose: CBOR) throws(PasskeyFault) {
        let der: [UInt8]?
        switch (cose[1], cose[3], cose[-1]) {
        case (.integer(2)?, .integer(-7)?, .integer(1)?):
            algorithm = .ES256
            der = Self.curveDER(cose[-2]?.bytes, cose[-3]?.bytes)
        // -19 is the fully specified one (RFC 9864 §2.2).
        case (.integer(1)?, .integer(-8)?, .integer(6)?), (.integer(1)?, .integer(-19)?, .integer(6)?):
            algorithm = .EdDSA
            der = cose[-2]?.bytes.flatMap { $0.count == 32 ? DER.ed25519PublicKey($0.rawBytes) : nil }
        case (.integer(3)?, .integer(-257)?, .bytes(let modulus)?):
            algorithm = .RS256
            der = cose[-2]?.bytes.map { DER.rsaPublicKey(modulus: modulus.rawBytes, exponent: $0.rawBytes) }
        case _: throw PasskeyFault("the public key is not one of ES256, EdDSA (Ed25519) or RS256")
        }
        guard let der else { throw PasskeyFault("the public key lacks a parameter, or one has the wrong length") }
        native = try Self.checked(der, algorithm)
    }

    /// A key that was kept.
    init(der: [UInt8], _ algorithm: SigningAlgorithm) throws(PasskeyFault) {
        self.algorithm = algorithm
        native = try Self.checked(der, algorithm)
    }

    /// SubjectPublicKeyInfo in DER; nil if OpenSSL cannot export it.
    var der: [UInt8]? { native.publicDER }

    /// Whether `signature`, in the form of WebAuthn §6.5.5, is valid for `message`.
    func verifies(_ signature: [UInt8], over message: [UInt8]) -> Bool {
        guard algorithm != .EdDSA else { return Ed25519Verifier(native).isValid(signature.rawBytes, over: message.rawBytes) }
        var digester = Digester()
        let verifier = algorithm == .ES256 ? DigestVerifier(.p256, native, algorithm) : DigestVerifier(rsa: native, algorithm)
        return verifier?.isValid(encoded: signature.rawBytes, over: message.rawBytes, &digester) ?? false
    }

    private static func curveDER(_ x: [UInt8]?, _ y: [UInt8]?) -> [UInt8]? {
        guard let x, let y, x.count == EllipticCurve.p256.fieldBytes, y.count == x.count else { return nil }
        return DER.curvePublicKey(.p256, x: x.rawBytes, y: y.rawBytes)
    }

    private static func checked(_ der: [UInt8], _ algorithm: SigningAlgorithm) throws(PasskeyFault) -> NativeKey {
        guard let key = NativeKey(publicDER: der) else { throw PasskeyFault("the public key is not valid") }
        do throws(KeyFault) {
            guard try KeyMaterial(key, named: "the public key").fitting.contains(algorithm) else {
                throw KeyFault("the public key does not fit its algorithm")
            }
        } catch { throw PasskeyFault(error.message) }
        return key
    }
}
