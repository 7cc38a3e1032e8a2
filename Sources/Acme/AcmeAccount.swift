package import Credentials
internal import Wire

/// The account at an ACME server: its key signs every request.
package struct AcmeAccount: Sendable {
    package let key: SigningKey

    /// `key` must be one of ES256.
    package init(key: SigningKey) { self.key = key }

    /// A request in the flattened serialisation of JWS (RFC 8555 §6.2). `kid` is the account's URL; nil for the request that asks for it,
    /// which has the key itself. An empty `payload` makes a POST-as-GET.
    func signed(_ payload: [UInt8], url: String, nonce: String, kid: String?) throws(KeyFault) -> [UInt8] {
        var header = JSONWriter()
        header.beginObject()
        header.field("alg", "ES256" as StaticString)
        if let kid { header.field("kid", kid) } else { try Self.write(key, to: &header) }
        header.field("nonce", nonce)
        header.field("url", url)
        header.endObject()
        let parts = try key.sign(payload.rawBytes, header: header.finish().readable).split(
            separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return Self.flattened(parts.map { Array($0) })
    }

    private static func write(_ key: SigningKey, to json: inout JSONWriter) throws(KeyFault) {
        guard let members = key.publicMembers else { throw KeyFault("the key of the account is a secret") }
        json.key("jwk")
        json.verbatim(members.rawBytes)
    }

    private static func flattened(_ parts: [[UInt8]]) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        for (name, part) in zip(["protected", "payload", "signature"], parts) {
            json.key(name)
            json.string(part.rawBytes)
        }
        json.endObject()
        return json.finish().readable.array
    }

    /// The text that the server expects to find where a token was put (RFC 8555 §8.1).
    func authorization(of token: String) -> String { "\(token).\(key.kid ?? "")" }

    /// Binds the account to one of another system of the authority (RFC 8555 §7.3.4).
    func binding(_ binding: AcmeBinding, url: String) throws(KeyFault) -> [UInt8] {
        guard let members = key.publicMembers else { throw KeyFault("the key of the account is a secret") }
        var header = JSONWriter()
        header.beginObject()
        header.field("alg", "HS256" as StaticString)
        header.field("kid", binding.keyID)
        header.field("url", url)
        header.endObject()
        var signed = ByteBuffer()
        Base64URL.encode(header.finish().readable, into: &signed)
        let protected = signed.readable.array
        signed.append(UInt8(ascii: "."))
        let payload = Array(Base64URL.encode(members.rawBytes).utf8)
        signed.append(payload.rawBytes)
        let signature = Base64URL.encode(Digest.hmacSHA256(signed.readable, key: binding.key.rawBytes).rawBytes)
        return Self.flattened([protected, payload, Array(signature.utf8)])
    }
}

/// The account of another system of the authority: its name and MAC key.
package struct AcmeBinding: Hashable, Sendable {
    package let keyID: String
    package let key: [UInt8]

    package init(keyID: String, key: [UInt8]) { (self.keyID, self.key) = (keyID, key) }
}

/// How the holder of a name proves that it is his.
package enum AcmeChallengeKind: String, CaseIterable, Sendable {
    case tlsALPN = "tls-alpn"
    case http
    case dns

    /// The name in the protocol.
    var type: String { "\(rawValue)-01" }
}

/// A challenge (RFC 8555 §8). Publish its response before telling the server that it is ready.
package struct AcmeChallenge: Hashable, Sendable {
    package let kind: AcmeChallengeKind
    package let name: String
    package let token: String
    package let authorization: String

    package init(kind: AcmeChallengeKind, name: String, token: String, authorization: String) {
        (self.kind, self.name, self.token, self.authorization) = (kind, name, token, authorization)
    }

    /// The content of the certificate of `tls-alpn` (RFC 8737 §3).
    package var digest: [UInt8] { Digest.sha256(Array(authorization.utf8).rawBytes) }

    /// The server's name that is asked for with `tls-alpn`: for an address, the one that DNS gives it (RFC 8738 §6).
    package var serverName: String {
        guard let address = IPAddress(parsing: name) else { return name }
        if let v4 = address.v4 { return stride(from: 0, through: 24, by: 8).map { "\(v4 >> UInt32($0) & 255)." }.joined() + "in-addr.arpa" }
        let nibbles = [address.low, address.high].flatMap { word in
            stride(from: 0, through: 60, by: 4).map { String(word >> UInt64($0) & 15, radix: 16) + "." }
        }
        return nibbles.joined() + "ip6.arpa"
    }

    /// The name and the text of the TXT record of `dns` (RFC 8555 §8.4).
    package var record: (name: String, text: String) {
        ("_acme-challenge." + (name.hasPrefix("*.") ? String(name.dropFirst(2)) : name), Base64URL.encode(digest.rawBytes))
    }
}
