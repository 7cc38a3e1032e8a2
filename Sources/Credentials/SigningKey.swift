import COpenSSL
package import Wire

/// A private key or secret with which the gateway signs tokens. Any thread.
package struct SigningKey: Sendable {
    package let algorithm: SigningAlgorithm
    /// The key that verifies its tokens, for this algorithm only.
    package let verificationKey: VerificationKey

    /// The `kid` of its tokens: the JWK thumbprint (RFC 7638), or nil for a configured secret.
    package var kid: String? { verificationKey.kid }

    private static let secretLabel = "SYMMETRIC KEY"

    /// Generates a key: RSA with 2,048 bits, HMAC with the length of its hash.
    package static func generate(_ algorithm: SigningAlgorithm) throws(KeyFault) -> Self {
        try Self(KeyMaterial.generate(for: algorithm), algorithm)
    }

    /// A configured secret, checked as in `VerificationKey.init(secret:)`. Its tokens have no `kid`: the thumbprint of a
    /// secret with low entropy would help to guess it (RFC 7638 §7).
    package init(secret: RawSpan, algorithm: SigningAlgorithm = .HS256) throws(KeyFault) {
        self.algorithm = algorithm
        verificationKey = try VerificationKey(secret: secret, algorithms: AlgorithmSet(algorithm))
    }

    /// Parses the output of `pem()`, or any unencrypted private key that fits the algorithm.
    package init(pem: RawSpan, algorithm: SigningAlgorithm) throws(KeyFault) {
        let blocks = try PEMBlock.all(in: pem)
        guard let block = blocks.first, blocks.count == 1 else { throw KeyFault("there is not exactly one PEM block") }
        let name = "the signing key"
        if block.label == Self.secretLabel {
            try self.init(KeyMaterial(secret: block.der, named: name), algorithm)
        } else {
            guard block.isPrivate, let key = try block.key(named: name) else {
                throw KeyFault("\(name) (\(block.label)) is no private key")
            }
            try self.init(KeyMaterial(key, named: name), algorithm)
        }
    }

    private init(_ material: KeyMaterial, _ algorithm: SigningAlgorithm) throws(KeyFault) {
        guard let members = RequiredMembers(material) else { throw KeyFault("the signing key cannot be exported") }
        self.algorithm = algorithm
        verificationKey = try VerificationKey(
            material, kid: members.thumbprint, algorithms: AlgorithmSet(algorithm), named: "the signing key")
    }

    /// The private key as PEM (PKCS #8), or the secret as a PEM block `SYMMETRIC KEY`: for a file of mode 0600 or a sealed row.
    package func pem() throws(KeyFault) -> [UInt8] {
        guard let stream = NativeStream(RawSpan()) else { throw KeyFault("out of memory") }
        let wrote =
            switch verificationKey.material.content {
            case .secret(let secret):
                unsafe PEM_write_bio(stream.pointer, Self.secretLabel, "", secret, secret.count) > 0
            case .rsa(let key), .curve(_, let key), .ed25519(let key):
                unsafe PEM_write_bio_PKCS8PrivateKey(stream.pointer, key.pointer, nil, nil, 0, nil, nil) == 1
            }
        guard wrote else {
            ERR_clear_error()
            throw KeyFault("OpenSSL could not write the signing key")
        }
        return stream.rest()
    }

    /// The public half as a JWK of its required members; nil for a secret.
    package var publicMembers: [UInt8]? {
        guard !algorithm.isSymmetric, let members = RequiredMembers(verificationKey.material) else { return nil }
        var json = JSONWriter()
        json.beginObject()
        members.write(to: &json)
        json.endObject()
        return json.finish().readable.array
    }

    /// Issues a signed token in compact serialisation (RFC 7515 §7.1).
    package func issue(_ claims: TokenClaims) throws(KeyFault) -> String {
        let token = try sign(claims.json().readable, type: "JWT")
        return token.rawBytes.text
    }

    /// A token by which the holder of this key proves to another server who it is (RFC 7523 §2), with one claim that the server asks for.
    /// `keyID` is the server's name of the key.
    package func assertion(
        by issuer: String, for audience: String, keyID: String, _ claim: StaticString, _ value: String, seconds: Int64, now: WallTime
    ) throws(KeyFault) -> String {
        var claims = JSONWriter()
        claims.beginObject()
        claims.field("iss", issuer)
        claims.field(claim, value)
        claims.field("aud", audience)
        claims.field("iat", Int(now.seconds))
        claims.field("exp", Int(now.seconds + seconds))
        claims.endObject()
        let payload = claims.finish()
        let token = try sign(payload.readable, header: headerJSON("JWT", keyID).readable)
        return token.rawBytes.text
    }

    /// The token with this payload, which is JSON; `type` becomes its `typ`.
    func sign(_ payload: RawSpan, type: StaticString) throws(KeyFault) -> [UInt8] {
        try sign(payload, header: headerJSON(type, kid).readable)
    }

    /// The token with this payload and header, which are JSON; the header must name the key's algorithm.
    package func sign(_ payload: RawSpan, header: RawSpan) throws(KeyFault) -> [UInt8] {
        var token = ByteBuffer(capacity: 1024)
        Base64URL.encode(header, into: &token)
        token.append(UInt8(ascii: "."))
        Base64URL.encode(payload, into: &token)
        guard let signature = verificationKey.material.sign(token.readable, algorithm) else {
            throw KeyFault("OpenSSL could not sign with \(algorithm.name)")
        }
        token.append(UInt8(ascii: "."))
        Base64URL.encode(signature.rawBytes, into: &token)
        return token.readable.array
    }

    private func headerJSON(_ type: StaticString, _ kid: String?) -> ByteBuffer {
        var json = JSONWriter()
        json.beginObject()
        json.field("alg", algorithm.name)
        json.field("typ", type)
        if let kid { json.field("kid", kid) }
        json.endObject()
        return json.finish()
    }

    /// Writes the public half as a JWK (RFC 7517 §4); false, and nothing written, for a secret.
    func writePublicJWK(to json: inout JSONWriter) -> Bool {
        guard !algorithm.isSymmetric, let members = RequiredMembers(verificationKey.material) else { return false }
        json.beginObject()
        members.write(to: &json)
        if let kid { json.field("kid", kid) }
        json.field("alg", algorithm.name)
        json.field("use", "sig" as StaticString)
        json.endObject()
        return true
    }
}

extension PEMBlock {
    fileprivate var isPrivate: Bool { ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"].contains(label) }
}
