import COpenSSL
import Wire

/// The required members of a key's JWK, in the order of their names, from which its thumbprint is computed (RFC 7638 §3.2). For
/// an asymmetric key they are its public half; for a secret, the secret itself.
struct RequiredMembers {
    let members: [(name: String, value: String)]

    /// nil if OpenSSL cannot export the numbers.
    init?(_ material: KeyMaterial) {
        switch material.content {
        case .secret(let secret):
            members = [("k", Self.text(secret)), ("kty", "oct")]
        case .rsa(let key):
            guard let exponent = key.number(OSSL_PKEY_PARAM_RSA_E), let modulus = key.number(OSSL_PKEY_PARAM_RSA_N)
            else { return nil }
            members = [("e", Self.text(exponent)), ("kty", "RSA"), ("n", Self.text(modulus))]
        case .curve(let curve, let key):
            guard let x = key.number(OSSL_PKEY_PARAM_EC_PUB_X, width: curve.fieldBytes),
                let y = key.number(OSSL_PKEY_PARAM_EC_PUB_Y, width: curve.fieldBytes)
            else { return nil }
            members = [("crv", curve.jwkName), ("kty", "EC"), ("x", Self.text(x)), ("y", Self.text(y))]
        case .ed25519(let key):
            guard let bytes = key.rawPublicBytes else { return nil }
            members = [("crv", "Ed25519"), ("kty", "OKP"), ("x", Self.text(bytes))]
        }
    }

    /// The JWK thumbprint (RFC 7638): SHA-256 of the members as JSON without white space, in base64url.
    var thumbprint: String {
        var json = JSONWriter()
        json.beginObject()
        write(to: &json)
        json.endObject()
        return Self.text(Digest.sha256(json.finish().readable))
    }

    func write(to json: inout JSONWriter) {
        for member in members {
            json.key(member.name)
            json.string(member.value)
        }
    }

    private static func text(_ bytes: [UInt8]) -> String { Base64URL.encode(bytes.rawBytes) }
}
