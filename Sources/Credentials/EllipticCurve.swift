/// The ECDSA curves, each of which belongs to one algorithm (RFC 7518 §3.4).
enum EllipticCurve: CaseIterable, Sendable {
    case p256, p384, p521

    /// `crv` in a JWK (RFC 7518 §6.2.1.1).
    var jwkName: String {
        switch self {
        case .p256: "P-256"
        case .p384: "P-384"
        case .p521: "P-521"
        }
    }

    /// The group's name in OpenSSL.
    var nativeName: String {
        switch self {
        case .p256: "prime256v1"
        case .p384: "secp384r1"
        case .p521: "secp521r1"
        }
    }

    /// The length in bytes of a coordinate, and of r and s in a signature.
    var fieldBytes: Int {
        switch self {
        case .p256: 32
        case .p384: 48
        case .p521: 66
        }
    }

    var algorithm: SigningAlgorithm {
        switch self {
        case .p256: .ES256
        case .p384: .ES384
        case .p521: .ES512
        }
    }

    /// The curve's object identifier in DER (RFC 5480 §2.1.1.1).
    var objectIdentifier: [UInt8] {
        switch self {
        case .p256: [0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]
        case .p384: [0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x22]
        case .p521: [0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x23]
        }
    }
}
