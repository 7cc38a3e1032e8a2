import Foundation

/// A key of somebody else's, made with the openssl command, that signs tokens.
struct IssuerKey {
    enum Kind { case hs256(secret: String), rs256, es256, eddsa }

    let kind: Kind
    let kid: String?
    private let folder: Folder
    private let file: String

    init(_ kind: Kind, kid: String? = nil) throws {
        self.kind = kind
        self.kid = kid
        folder = try Folder()
        file = folder.file("key.pem")
        switch kind {
        case .hs256: break
        case .rs256:
            try mustRun("openssl", ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", file])
        case .es256:
            try mustRun("openssl", ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", file])
        case .eddsa: try mustRun("openssl", ["genpkey", "-algorithm", "ED25519", "-out", file])
        }
    }

    var algorithm: String {
        switch kind {
        case .hs256: "HS256"
        case .rs256: "RS256"
        case .es256: "ES256"
        case .eddsa: "EdDSA"
        }
    }

    /// A token with these claims; `header` in place of the usual one.
    func token(_ claims: String, header: String? = nil) throws -> String {
        let id = kid.map { #","kid":"\#($0)""# } ?? ""
        let head = header ?? #"{"alg":"\#(algorithm)","typ":"JWT"\#(id)}"#
        let input = base64URL(Array(head.utf8)) + "." + base64URL(Array(claims.utf8))
        return input + "." + base64URL(try signature(input))
    }

    /// The public key as a member of a JWK Set.
    func jwk() throws -> String {
        let id = kid.map { #","kid":"\#($0)""# } ?? ""
        let members: String
        switch kind {
        case .hs256(let secret): members = #""kty":"oct","k":"\#(base64URL(Array(secret.utf8)))""#
        case .rs256:
            let modulus = try mustRun("openssl", ["rsa", "-in", file, "-noout", "-modulus"]).dropFirst("Modulus=".count)
            members = #""kty":"RSA","n":"\#(base64URL(bytes(hex: String(modulus))))","e":"AQAB""#
        case .es256:
            let point = try publicBytes(64)
            members = #""kty":"EC","crv":"P-256","x":"\#(base64URL(Array(point[..<32])))","y":"\#(base64URL(Array(point[32...])))""#
        case .eddsa: members = #""kty":"OKP","crv":"Ed25519","x":"\#(base64URL(try publicBytes(32)))""#
        }
        return "{\(members)\(id),\"alg\":\"\(algorithm)\"}"
    }

    /// The last bytes of the public key's DER are the key itself.
    private func publicBytes(_ count: Int) throws -> [UInt8] {
        try mustRun("openssl", ["pkey", "-in", file, "-pubout", "-outform", "DER", "-out", folder.file("public.der")])
        return Array(try Data(contentsOf: URL(fileURLWithPath: folder.file("public.der"))).suffix(count))
    }

    private func signature(_ input: String) throws -> [UInt8] {
        try folder.write("input", input)
        let (data, out) = (folder.file("input"), folder.file("signature"))
        switch kind {
        case .hs256(let secret):
            let key = secret.utf8.map { String(format: "%02x", $0) }.joined()
            let shown = try mustRun("openssl", ["dgst", "-sha256", "-mac", "HMAC", "-macopt", "hexkey:\(key)", data])
            return bytes(hex: String(shown.split(separator: " ").last ?? ""))
        case .rs256, .es256: try mustRun("openssl", ["dgst", "-sha256", "-sign", file, "-out", out, data])
        case .eddsa: try mustRun("openssl", ["pkeyutl", "-sign", "-rawin", "-inkey", file, "-in", data, "-out", out])
        }
        let made = Array(try Data(contentsOf: URL(fileURLWithPath: out)))
        if case .es256 = kind { return Self.plain(made) }
        return made
    }

    /// The two numbers of a DER signature, 32 bytes each.
    private static func plain(_ der: [UInt8]) -> [UInt8] {
        var out: [UInt8] = []
        var at = 2
        for _ in 0..<2 {
            let length = Int(der[at + 1])
            let number = der[at + 2..<at + 2 + length].suffix(32)
            out += [UInt8](repeating: 0, count: 32 - number.count) + number
            at += 2 + length
        }
        return out
    }
}

func base64URL(_ bytes: [UInt8]) -> String {
    Data(bytes).base64EncodedString().replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
        .replacingOccurrences(of: "=", with: "")
}

func bytes(hex: String) -> [UInt8] {
    let digits = Array(hex)
    return stride(from: 0, to: digits.count - 1, by: 2).compactMap { UInt8(String(digits[$0...$0 + 1]), radix: 16) }
}

/// A JWK Set of public keys.
func keySet(_ keys: IssuerKey...) throws -> String { "{\"keys\":[\(try keys.map { try $0.jwk() }.joined(separator: ","))]}" }

/// Seconds since 1970.
var unixNow: Int { Int(Date().timeIntervalSince1970) }

/// The same token, as it is when its time is over; `secret` is what signs it.
func expired(_ token: String, secret: String, now: Int = unixNow) throws -> String {
    guard let body = bytes(base64URL: String(token.split(separator: ".")[1])),
        var members = try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]
    else { throw Fault("no claims") }
    members["iat"] = now - 700_000
    members["exp"] = now - 100
    let text = String(decoding: try JSONSerialization.data(withJSONObject: members), as: UTF8.self)
    return try IssuerKey(.hs256(secret: secret)).token(text)
}
