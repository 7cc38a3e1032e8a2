import Wire

/// A JWS signature algorithm (RFC 7518 §3.1, RFC 8037 §3.1). There is no case for `none` (RFC 8725 §3.2).
package enum SigningAlgorithm: UInt8, CaseIterable, Sendable {
    case HS256, HS384, HS512
    case RS256, RS384, RS512
    case PS256, PS384, PS512
    case ES256, ES384, ES512
    case EdDSA

    /// The kind of key and the form of the signature.
    enum Family: Sendable {
        case hmac
        case rsaPKCS1
        case rsaPSS
        case ecdsa
        case ed25519
    }

    /// The value of `alg`, case-sensitive.
    package var name: String { nameLiteral.rawBytes.text }

    var nameBytes: RawSpan { @_lifetime(immortal) get { nameLiteral.rawBytes } }

    private var nameLiteral: StaticString {
        switch self {
        case .HS256: "HS256"
        case .HS384: "HS384"
        case .HS512: "HS512"
        case .RS256: "RS256"
        case .RS384: "RS384"
        case .RS512: "RS512"
        case .PS256: "PS256"
        case .PS384: "PS384"
        case .PS512: "PS512"
        case .ES256: "ES256"
        case .ES384: "ES384"
        case .ES512: "ES512"
        case .EdDSA: "EdDSA"
        }
    }

    /// The algorithm with exactly this `alg`; nil if unknown.
    package init?(name: String) {
        guard let match = Self.allCases.first(where: { $0.name == name || $0.otherName?.description == name }) else { return nil }
        self = match
    }

    /// A second value of `alg`: the fully specified name (RFC 9864 §2.2), as only one curve is taken.
    var otherName: StaticString? { self == .EdDSA ? "Ed25519" : nil }

    var family: Family {
        switch self {
        case .HS256, .HS384, .HS512: .hmac
        case .RS256, .RS384, .RS512: .rsaPKCS1
        case .PS256, .PS384, .PS512: .rsaPSS
        case .ES256, .ES384, .ES512: .ecdsa
        case .EdDSA: .ed25519
        }
    }

    /// Whether the verifier's key can also sign.
    package var isSymmetric: Bool { family == .hmac }
}

/// A set of algorithms, one bit each.
package struct AlgorithmSet: OptionSet, Hashable, Sendable {
    package let rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    package init(_ algorithm: SigningAlgorithm) { rawValue = 1 << UInt16(algorithm.rawValue) }

    package init(_ algorithms: [SigningAlgorithm]) {
        self = algorithms.reduce(into: []) { $0.insert(Self($1)) }
    }

    package static let hmac = Self([.HS256, .HS384, .HS512])
    package static let rsa = Self([.RS256, .RS384, .RS512, .PS256, .PS384, .PS512])
    package static let ecdsa = Self([.ES256, .ES384, .ES512])
    package static let ed25519 = Self(.EdDSA)
    /// All algorithms whose verification key cannot sign.
    package static let asymmetric: Self = [.rsa, .ecdsa, .ed25519]

    package func contains(_ algorithm: SigningAlgorithm) -> Bool { contains(Self(algorithm)) }

    /// The members, in the order of the enum.
    package var members: [SigningAlgorithm] { SigningAlgorithm.allCases.filter { contains($0) } }
}
