package import Wire

/// A root of one's own under which test purchases are signed as Apple signs real ones.
package struct StoreTestAuthority: Sendable {
    private static let validSeconds: Int64 = 3650 * 86_400

    /// The root in DER.
    package let certificate: [UInt8]
    package let key: SigningKey

    /// A new root.
    package static func make(now: WallTime) throws(KeyFault) -> StoreTestAuthority {
        let key = try SigningKey.generate(.ES384)
        let draft = draft("Test Root CA", isAuthority: true, [], now: now)
        let certificate = try draft.certificate(of: key, by: nil)
        return StoreTestAuthority(certificate: certificate, key: key)
    }

    private init(certificate: [UInt8], key: SigningKey) {
        self.certificate = certificate
        self.key = key
    }

    /// The root of a PEM text, with its key.
    package static func read(_ pem: RawSpan, key: RawSpan) throws(KeyFault) -> StoreTestAuthority {
        let blocks = try PEMBlock.all(in: pem)
        guard let block = blocks.first, block.label == "CERTIFICATE" else { throw KeyFault("the root is no PEM block CERTIFICATE") }
        let key = try SigningKey(pem: key, algorithm: .ES384)
        return StoreTestAuthority(certificate: block.der, key: key)
    }

    /// The root as a PEM block.
    package var pem: String {
        let der = certificate
        var letters = Substring(Base64.encode(der.rawBytes, isPadded: true))
        var lines: [Substring] = []
        while !letters.isEmpty {
            lines.append(letters.prefix(64))
            letters = letters.dropFirst(64)
        }
        return "-----BEGIN CERTIFICATE-----\n\(lines.joined(separator: "\n"))\n-----END CERTIFICATE-----\n"
    }

    /// A signer with a new intermediate and leaf.
    package func signer(now: WallTime) throws(KeyFault) -> StoreTestSigner {
        let middle = try SigningKey.generate(.ES384)
        let leaf = try SigningKey.generate(.ES256)
        let marked = Self.draft("Test Intermediate CA", isAuthority: true, [StoreSignatures.intermediateMarker], now: now)
        let second = try marked.certificate(of: middle, by: (certificate, key))
        let signing = Self.draft("Test Receipt Signing", isAuthority: false, [StoreSignatures.leafMarker], now: now)
        let first = try signing.certificate(of: leaf, by: (second, middle))
        return StoreTestSigner(key: leaf, chain: [first, second, certificate])
    }

    private static func draft(_ name: String, isAuthority: Bool, _ markers: [String], now: WallTime) -> CertificateDraft {
        CertificateDraft(
            name: name, notBefore: WallTime(seconds: now.seconds - 86_400), notAfter: WallTime(seconds: now.seconds + validSeconds),
            isAuthority: isAuthority, markers: markers)
    }
}

/// The key of a chain's leaf.
package struct StoreTestSigner: Sendable {
    package let key: SigningKey
    /// Leaf, intermediate and root in DER.
    package let chain: [[UInt8]]

    package init(key: SigningKey, chain: [[UInt8]]) {
        self.key = key
        self.chain = chain
    }

    /// The compact JWS of a JSON object, with the chain in its header.
    package func sign(_ payload: RawSpan) throws(KeyFault) -> String {
        var header = JSONWriter()
        header.beginObject()
        header.field("alg", "ES256" as StaticString)
        header.array("x5c", chain) { $0.string(Base64.encode($1.rawBytes, isPadded: true)) }
        header.endObject()
        let head = header.finish()
        let token = try key.sign(payload, header: head.readable)
        return token.rawBytes.text
    }
}
