import Wire

@testable import Credentials

/// An authenticator with one credential for `example.org`, and its browser: what they send, in parts that a test can change.
struct SoftAuthenticator {
    var key: SigningKey
    var id: [UInt8] = Array("the credential's id".utf8)
    /// User present and verified, able to be backed up.
    var flags: UInt8 = 0x0D
    var rpID = "example.org"
    var origin = "https://example.org"
    var challenge: [UInt8] = Array("a challenge of 16 bytes".utf8)
    /// More members of the client data, from a comma on.
    var clientMembers = ""
    var format = "none"
    /// In CBOR.
    var statement: [UInt8] = [0xA0]
    /// Behind the attested credential or, at a sign-in, behind the counter.
    var extensions: [UInt8] = []
    var coseKey: [UInt8]?
    var signCount: UInt8 = 7

    init(_ key: SigningKey) { self.key = key }

    func registration() -> String {
        let data =
            head(0x40) + [UInt8](0..<16) + [UInt8(id.count >> 8), UInt8(truncatingIfNeeded: id.count)] + id + (coseKey ?? cose) + extensions
        let object =
            [0xA3] + Self.text("fmt") + Self.text(format) + Self.text("attStmt") + statement + Self.text("authData") + Self.bytes(data)
        return credential(
            #""clientDataJSON":"\#(clientData("create").base64URL)","attestationObject":"\#(Base64URL.encode(object.rawBytes))","#
                + #""transports":["internal","hybrid","Wrong!",7]"#)
    }

    func assertion(userHandle: String? = "dXNlcg") -> String {
        let (data, client) = (head(0) + extensions, clientData("get"))
        let signature = sign(data + Digest.sha256(client.bytes.rawBytes))
        return credential(
            #""clientDataJSON":"\#(client.base64URL)","authenticatorData":"\#(Base64URL.encode(data.rawBytes))","#
                + #""signature":"\#(Base64URL.encode(signature.rawBytes))","userHandle":\#(userHandle.map { #""\#($0)""# } ?? "null")"#)
    }

    var publicKey: [UInt8] { key.verificationKey.material.native?.publicDER ?? [] }

    private func head(_ more: UInt8) -> [UInt8] {
        Digest.sha256(rpID.bytes.rawBytes) + [flags | more | (extensions.isEmpty ? 0 : 0x80), 0, 0, 0, signCount]
    }

    private func clientData(_ type: String) -> String {
        #"{"type":"webauthn.\#(type)","challenge":"\#(Base64URL.encode(challenge.rawBytes))","origin":"\#(origin)"\#(clientMembers)}"#
    }

    private func credential(_ response: String) -> String {
        let id = Base64URL.encode(id.rawBytes)
        return #"{"id":"\#(id)","rawId":"\#(id)","type":"public-key","response":{\#(response)},"clientExtensionResults":{}}"#
    }

    private func sign(_ message: [UInt8]) -> [UInt8] {
        let signature = key.verificationKey.material.sign(message.rawBytes, key.algorithm) ?? []
        guard key.algorithm == .ES256 else { return signature }
        var der = ByteBuffer()
        DER.appendSignature(halves: signature.rawBytes, to: &der)
        return der.readable.array
    }

    /// The key as a COSE_Key.
    var cose: [UInt8] {
        switch key.algorithm {
        case .ES256: [0xA5, 1, 2, 3, 0x26, 0x20, 1, 0x21] + member("x") + [0x22] + member("y")
        case .EdDSA: [0xA4, 1, 1, 3, 0x27, 0x20, 6, 0x21] + member("x")
        case _: [0xA4, 1, 3, 3, 0x39, 1, 0, 0x20] + member("n") + [0x21] + member("e")
        }
    }

    private func member(_ name: String) -> [UInt8] {
        let text = RequiredMembers(key.verificationKey.material)?.members.first { $0.name == name }?.value ?? ""
        return Self.bytes(text.withRawBytes { Base64URL.decode($0) } ?? [])
    }

    static func text(_ text: String) -> [UInt8] { [0x60 | UInt8(text.utf8.count)] + Array(text.utf8) }

    static func bytes(_ bytes: [UInt8]) -> [UInt8] {
        bytes.count < 256 ? [0x58, UInt8(bytes.count)] + bytes : [0x59, UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)] + bytes
    }
}
