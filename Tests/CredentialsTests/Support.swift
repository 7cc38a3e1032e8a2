import Wire

@testable import Credentials

/// The current time of these tests, in seconds since 1970.
let now: Int64 = 1_700_000_000

/// Keys that are generated once for all tests.
enum Keys {
    static let hs256 = make(.HS256)
    static let rs256 = make(.RS256)
    static let es256 = make(.ES256)
    static let es384 = make(.ES384)
    static let eddsa = make(.EdDSA)

    static func make(_ algorithm: SigningAlgorithm) -> SigningKey {
        do { return try SigningKey.generate(algorithm) } catch { fatalError(error.message) }
    }
}

extension StringProtocol {
    var bytes: [UInt8] { Array(utf8) }
    var base64URL: String { Base64URL.encode(bytes.rawBytes) }
}

/// Tokens with arbitrary content and a valid signature.
enum Forge {
    static let claims = #"{"iss":"https://issuer.test","aud":"api","sub":"u1","exp":1700000600}"#

    /// Signs exactly this header and payload with `key`.
    static func token(
        header: String, payload: String = claims, key: SigningKey, as algorithm: SigningAlgorithm? = nil
    )
        -> String
    {
        let input = header.base64URL + "." + payload.base64URL
        return input + "." + signature(of: input, key, algorithm ?? key.algorithm)
    }

    /// A token with an ordinary header for `key`.
    static func token(payload: String = claims, key: SigningKey) -> String {
        token(header: #"{"alg":"\#(key.algorithm.name)","kid":"\#(key.kid ?? "")"}"#, payload: payload, key: key)
    }

    static func signature(of input: String, _ key: SigningKey, _ algorithm: SigningAlgorithm) -> String {
        Base64URL.encode(signatureBytes(of: input, key, algorithm).rawBytes)
    }

    static func signatureBytes(of input: String, _ key: SigningKey, _ algorithm: SigningAlgorithm) -> [UInt8] {
        key.verificationKey.material.sign(input.bytes.rawBytes, algorithm) ?? []
    }
}

/// A trust in one issuer, `https://issuer.test`, with the audience `api`.
func trust(
    _ keys: [SigningKey], algorithms: AlgorithmSet? = nil, issuer: String? = "https://issuer.test",
    audiences: [String] = ["api"], maxLifetime: Int64? = nil, userClaim: String = "sub", skew: Int64 = 30,
    requirements: [ClaimRequirement] = []
) -> Trust {
    Trust(
        issuers: [
            TrustedIssuer(
                name: "test", issuer: issuer, audiences: audiences,
                algorithms: algorithms ?? AlgorithmSet(keys.map(\.algorithm)),
                keys: KeySet(keys.map(\.verificationKey)), userClaim: userClaim, maxLifetimeSeconds: maxLifetime)
        ], clockSkewSeconds: skew, requirements: requirements)
}

/// The result of a new verifier for `token`.
func verify(_ token: String, _ trust: Trust, at seconds: Int64 = now) -> Result<VerifiedToken, TokenFault> {
    verify(token.bytes, trust, at: seconds)
}

func verify(_ token: [UInt8], _ trust: Trust, at seconds: Int64 = now) -> Result<VerifiedToken, TokenFault> {
    var verifier = TokenVerifier()
    return verifier.verify(token.rawBytes, trust: trust, now: WallTime(seconds: seconds))
}

/// The fault of a new verifier for `token`; nil if it accepts it.
func fault(_ token: String, _ trust: Trust, at seconds: Int64 = now) -> TokenFault? {
    verify(token, trust, at: seconds).fault
}

extension Result where Failure == TokenFault {
    var fault: TokenFault? {
        switch self {
        case .success: nil
        case .failure(let fault): fault
        }
    }
}

/// A key set of one JWK, which must be valid.
func keySet(_ jwks: String) throws(KeyFault) -> KeySet { try KeySet(jwks: jwks.bytes.rawBytes) }

func jwksKeySet(_ jwks: [UInt8]) throws(KeyFault) -> KeySet { try KeySet(jwks: jwks.rawBytes) }

func pemKeySet(_ pem: [UInt8], _ algorithms: AlgorithmSet = .asymmetric) throws(KeyFault) -> KeySet {
    try KeySet(pem: pem.rawBytes, algorithms: algorithms)
}

func signingKey(_ pem: [UInt8], _ algorithm: SigningAlgorithm) throws(KeyFault) -> SigningKey {
    try SigningKey(pem: pem.rawBytes, algorithm: algorithm)
}

func secretKey(_ secret: String, _ algorithm: SigningAlgorithm = .HS256) throws(KeyFault) -> SigningKey {
    let bytes = secret.bytes
    return try SigningKey(secret: bytes.rawBytes, algorithm: algorithm)
}

func keyRing(_ text: String) throws(KeyFault) -> SigningKeyRing {
    let bytes = text.bytes
    return try SigningKeyRing(parsing: bytes.rawBytes)
}

func inspect(_ token: String) throws(TokenFault) -> TokenInspection {
    let bytes = token.bytes
    return try TokenInspection(bytes.rawBytes)
}
