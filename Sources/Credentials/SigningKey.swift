import Wire

/// A private key or secret of the gateway's own, that issues tokens.
package struct SigningKey: Sendable {
    package let algorithm: SigningAlgorithm
    /// What its tokens carry as `kid`: the RFC 7638 thumbprint, or nil for a secret that was given.
    package let kid: String?
    /// What verifies its tokens.
    package let verificationKey: VerificationKey

    /// A new key. RSA has 2,048 bits, an HMAC secret the length of its hash.
    package static func generate(_ algorithm: SigningAlgorithm) throws(KeyFault) -> Self { throw KeyFault("not built yet") }

    /// A shared secret; see `VerificationKey.init(secret:)` for what is refused.
    package init(secret: RawSpan, algorithm: SigningAlgorithm = .HS256) throws(KeyFault) { throw KeyFault("not built yet") }

    /// A private key or secret as `pem` wrote it, or any unencrypted private key that fits the algorithm.
    package init(pem: RawSpan, algorithm: SigningAlgorithm) throws(KeyFault) { throw KeyFault("not built yet") }

    /// The private key as PEM (PKCS #8), or the secret as a PEM block `SYMMETRIC KEY`. Secret: for a file of mode 0600.
    package func pem() throws(KeyFault) -> [UInt8] { throw KeyFault("not built yet") }

    /// A signed token in compact form.
    package func issue(_ claims: TokenClaims) throws(KeyFault) -> String { throw KeyFault("not built yet") }
}
