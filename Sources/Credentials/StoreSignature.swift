package import Wire

/// Why data is not accepted as signed by a store.
package enum StoreSignatureFault: String, Error, Sendable, CaseIterable {
    /// Not three parts of base64url with a JSON object in the first two, or more than the maximum.
    case malformed
    /// `alg` is not `ES256`, or the header demands an extension.
    case algorithm
    /// `x5c` is not three certificates.
    case chain
    /// The third certificate is not a pinned root.
    case root
    /// OpenSSL refuses the chain at the time of the signature: it does not fit together, was not valid then, or breaks RFC 5280.
    case untrusted
    /// The leaf or the intermediate lacks the extension that marks it as one for store receipts.
    case marker
    /// The leaf's key is not on P-256.
    case key
    case signature
    /// The payload's `exp`, `nbf` or `iat` does not allow its use now, or it has an audience.
    case claims
    /// Signed later than now, beyond the tolerance of the clocks.
    case future
}

/// The verifier of what Apple's store signs: a compact JWS (RFC 7515) whose header brings the chain of its key's certificate in `x5c`. The
/// root must be one of a fixed set, so the header chooses no key.
package struct StoreSignatures: Sendable {
    /// SHA-256 of Apple Root CA - G3 in DER.
    package static let appleRoot: [UInt8] = [
        0x63, 0x34, 0x3A, 0xBF, 0xB8, 0x9A, 0x6A, 0x03, 0xEB, 0xB5, 0x7E, 0x9B, 0x3F, 0x5F, 0xA7, 0xBE,
        0x7C, 0x4F, 0x5C, 0x75, 0x6F, 0x30, 0x17, 0xB3, 0xA8, 0xC4, 0x88, 0xC3, 0x65, 0x3E, 0x91, 0x79,
    ]
    /// The extensions that Apple puts into the certificates for store receipts.
    package static let leafMarker = "1.2.840.113635.100.6.11.1"
    package static let intermediateMarker = "1.2.840.113635.100.6.2.1"

    private static let maximumBytes = 256 * 1024
    private static let maximumHeaderBytes = 32 * 1024
    private static let toleranceSeconds: Int64 = 300

    /// SHA-256 of each root in DER. A chain brings its root, which must be one of these to the byte.
    private let roots: Set<[UInt8]>

    package init(roots: Set<[UInt8]> = [appleRoot]) { self.roots = roots }

    /// The certificates of a PEM text as the only roots.
    package init(roots pem: RawSpan) throws(KeyFault) {
        let blocks = try PEMBlock.all(in: pem)
        guard !blocks.isEmpty, blocks.allSatisfy({ $0.label == "CERTIFICATE" && NativeCertificate(der: $0.der) != nil }) else {
            throw KeyFault("the roots must be PEM blocks CERTIFICATE, at least one, and nothing else")
        }
        roots = Set(blocks.map { Digest.sha256($0.der.rawBytes) })
    }

    /// The payload of `jws`, a JSON object, once everything holds: the chain at the time that the payload says it was signed
    /// (`signedDate`, or `receiptCreationDate`, or now), the markers, the signature.
    package func payload(of jws: RawSpan, now: WallTime) throws(StoreSignatureFault) -> [UInt8] {
        let parts = try Self.parts(of: jws)
        var header = JSONMembers()
        var payload = JSONMembers()
        do throws(JSONMembers.Fault) {
            try header.load(base64URL: Self.unpadded(jws[parts.header]), takesHalves: true)
            try payload.load(base64URL: Self.unpadded(jws[parts.payload]), takesHalves: true)
        } catch { throw .malformed }
        let signedAt = try Self.signingTime(payload) ?? now
        let verifier = try verifier(Self.certificates(header), at: signedAt)
        var signature = ByteBuffer()
        var digester = Digester()
        var der = ByteBuffer()
        guard Base64URL.decode(Self.unpadded(jws[parts.signature]), into: &signature) else { throw .malformed }
        guard verifier.isValid(signature.readable, over: jws[parts.signed], &digester, &der) else { throw .signature }
        guard Self.allowsUse(payload, now: now) else { throw .claims }
        guard signedAt.seconds <= now.seconds + Self.toleranceSeconds else { throw .future }
        return try Self.payload(ofVerified: jws)
    }

    /// The payload of a JWS that was verified before.
    package static func payload(ofVerified jws: RawSpan) throws(StoreSignatureFault) -> [UInt8] {
        var payload = ByteBuffer()
        let parts = try parts(of: jws)
        guard Base64URL.decode(unpadded(jws[parts.payload]), into: &payload) else { throw .malformed }
        return payload.readable.array
    }

    private static func parts(of jws: RawSpan) throws(StoreSignatureFault) -> TokenParts {
        do throws(TokenFault) {
            return try TokenParts(jws, maximumBytes: maximumBytes, maximumHeaderBytes: maximumHeaderBytes)
        } catch { throw .malformed }
    }

    /// A part without the padding that Apple's library accepts.
    @_lifetime(copy part)
    private static func unpadded(_ part: RawSpan) -> RawSpan {
        var count = part.byteCount
        guard count % 4 == 0 else { return part }
        while count > 0, part.byteCount - count < 2, part[count - 1] == UInt8(ascii: "=") { count -= 1 }
        return part.extracting(0..<count)
    }

    /// nil where the payload has none.
    private static func signingTime(_ payload: borrowing JSONMembers) throws(StoreSignatureFault) -> WallTime? {
        for name: StaticString in ["signedDate", "receiptCreationDate"] {
            switch payload[name] {
            case nil, .null?: continue
            case .number(let slice)?:
                // Milliseconds of the years 1970 to 9999.
                guard let time = payload.floor(slice), (0..<253_402_300_800_000).contains(time) else { throw .malformed }
                return WallTime(microseconds: time * 1_000)
            case .string?, .halved?, .bool?, .array?, .object?: throw .malformed
            }
        }
        return nil
    }

    /// The three elements of `x5c` in DER, if `alg` is ES256 and no extension is demanded.
    private static func certificates(_ header: borrowing JSONMembers) throws(StoreSignatureFault) -> [[UInt8]] {
        guard header.string("alg") == "ES256", header["crit"] == nil else { throw .algorithm }
        if case .bool(false)? = header["b64"] { throw .algorithm }
        guard header["kid"] == nil || header.string("kid") != nil else { throw .malformed }
        guard case .array(let slice)? = header["x5c"] else { throw .chain }
        var reader = JSONReader(header.source(slice))
        var found: [[UInt8]] = []
        do throws(JSONFault) {
            _ = try reader.next()
            while case .string(let text) = try reader.next(), found.count < 3,
                let der = reader.string(text).withRawBytes({ Base64.decode($0, isPadded: true) })
            { found.append(der) }
        } catch { throw .chain }
        // Behind the array that was read to its end comes nothing.
        guard found.count == 3, reader.depth == 0 else { throw .chain }
        return found
    }

    /// The verifier of signatures by the leaf's key, if the chain holds at `time`.
    private func verifier(_ chain: [[UInt8]], at time: WallTime) throws(StoreSignatureFault) -> DigestVerifier {
        let third = chain[2]
        guard roots.contains(Digest.sha256(third.rawBytes)) else { throw .root }
        guard let leaf = NativeCertificate(der: chain[0]), let intermediate = NativeCertificate(der: chain[1]),
            let root = NativeCertificate(der: third)
        else { throw .chain }
        guard leaf.chains(by: intermediate, to: root, at: time) else { throw .untrusted }
        guard leaf.hasExtension(Self.leafMarker), intermediate.hasExtension(Self.intermediateMarker) else { throw .marker }
        guard let key = leaf.publicKey, key.groupName == EllipticCurve.p256.nativeName,
            let verifier = DigestVerifier(.p256, key, .ES256)
        else { throw .key }
        return verifier
    }

    /// Checks the registered claims (RFC 7519 §4.1) as Apple's library does: what the store signs has none of them.
    private static func allowsUse(_ payload: borrowing JSONMembers, now: WallTime) -> Bool {
        for (name, isEnd) in [("exp" as StaticString, true), ("nbf", false), ("iat", false)] where payload[name] != nil {
            guard case .number(let slice)? = payload[name], let time = payload.floor(slice) else { return false }
            guard isEnd ? time > now.seconds : time <= now.seconds else { return false }
        }
        for name: StaticString in ["sub", "jti"] where payload[name] != nil && payload.string(name) == nil { return false }
        return payload["aud"] == nil
    }
}
