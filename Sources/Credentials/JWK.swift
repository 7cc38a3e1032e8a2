import Wire

/// Parser of a JSON Web Key (RFC 7517 §4) into a verification key. Private members are ignored.
enum JWK {
    enum Outcome {
        case key(VerificationKey)
        /// A key for another purpose or of an unknown kind; a key set ignores it (RFC 7517 §5).
        case foreign
        case refused(KeyFault)
    }

    /// Parses one key; `position`, from 1 on, names it in messages if it has no `kid`.
    static func key(_ members: borrowing JSONMembers, position: Int) -> Outcome {
        let kid = members.string("kid")
        let name = kid.map { "key \(quoted($0))" } ?? "key number \(position)"
        if kid == nil && members["kid"] != nil { return .refused(KeyFault("\(name) has a kid that is no string")) }
        guard isForSignatures(members) else { return .foreign }
        do throws(KeyFault) {
            guard let material = try material(members, name) else { return .foreign }
            guard members["alg"] != nil else {
                return .key(try VerificationKey(material, kid: kid, algorithms: nil, named: name))
            }
            guard let algorithm = members.string("alg").flatMap({ SigningAlgorithm(name: $0) }) else { return .foreign }
            return .key(try VerificationKey(material, kid: kid, algorithms: AlgorithmSet(algorithm), named: name))
        } catch {
            return .refused(error)
        }
    }

    /// The key that a sender names for its own signatures by `algorithm` (RFC 7515 §4.1.3); nil if it is none, holds private or secret
    /// members, or is for another use or algorithm.
    static func senderKey(_ members: borrowing JSONMembers, for algorithm: SigningAlgorithm) -> KeyMaterial? {
        let hidden: [StaticString] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]
        guard hidden.allSatisfy({ members[$0] == nil }), isForSignatures(members) else { return nil }
        if members["alg"] != nil, members.string("alg").flatMap({ SigningAlgorithm(name: $0) }) != algorithm { return nil }
        do throws(KeyFault) {
            guard let material = try material(members, "the key"), material.fitting.contains(algorithm) else { return nil }
            return material
        } catch {
            return nil
        }
    }

    /// Whether `use` and `key_ops`, if present, allow signatures (RFC 7517 §4.2, §4.3).
    private static func isForSignatures(_ members: borrowing JSONMembers) -> Bool {
        if members["use"] != nil && members.string("use") != "sig" { return false }
        guard let operations = members["key_ops"] else { return true }
        let verify: StaticString = "verify"
        let sign: StaticString = "sign"
        return members.value(operations, equals: verify.rawBytes, stringsOnly: true)
            || members.value(operations, equals: sign.rawBytes, stringsOnly: true)
    }

    /// The key material (RFC 7518 §6, RFC 8037 §2); nil for an unknown kind or curve.
    private static func material(
        _ members: borrowing JSONMembers, _ name: String
    ) throws(KeyFault) -> KeyMaterial? {
        switch members.string("kty") {
        case "RSA": return try rsa(members, name)
        case "EC": return try curve(members, name)
        case "OKP":
            guard members.string("crv") == "Ed25519" else { return nil }
            return try ed25519(members, name)
        case "oct": return try KeyMaterial(secret: bytes("k", members, name), named: name)
        case nil: throw KeyFault("\(name) has no kty")
        case _?: return nil
        }
    }

    private static func rsa(_ members: borrowing JSONMembers, _ name: String) throws(KeyFault) -> KeyMaterial {
        let modulus = try bytes("n", members, name)
        let exponent = try bytes("e", members, name)
        let der = DER.rsaPublicKey(modulus: modulus.rawBytes, exponent: exponent.rawBytes)
        guard let key = NativeKey(publicDER: der) else { throw KeyFault("\(name) is no RSA key that OpenSSL accepts") }
        return try KeyMaterial(key, named: name)
    }

    private static func curve(_ members: borrowing JSONMembers, _ name: String) throws(KeyFault) -> KeyMaterial? {
        guard let label = members.string("crv") else { throw KeyFault("\(name) has no crv") }
        guard let curve = EllipticCurve.allCases.first(where: { $0.jwkName == label }) else { return nil }
        let x = try bytes("x", members, name)
        let y = try bytes("y", members, name)
        guard x.count == curve.fieldBytes, y.count == curve.fieldBytes else {
            throw KeyFault("\(name) has coordinates that are not \(curve.fieldBytes) bytes long, as \(label) has them")
        }
        guard let key = NativeKey(publicDER: DER.curvePublicKey(curve, x: x.rawBytes, y: y.rawBytes)) else {
            throw KeyFault("\(name) is no point on \(label)")
        }
        return try KeyMaterial(key, named: name)
    }

    private static func ed25519(_ members: borrowing JSONMembers, _ name: String) throws(KeyFault) -> KeyMaterial {
        let x = try bytes("x", members, name)
        guard x.count == 32, let key = NativeKey(publicDER: DER.ed25519PublicKey(x.rawBytes)) else {
            throw KeyFault("\(name) is no Ed25519 key of 32 bytes")
        }
        return try KeyMaterial(key, named: name)
    }

    private static func bytes(
        _ member: StaticString, _ members: borrowing JSONMembers, _ name: String
    ) throws(KeyFault) -> [UInt8] {
        guard let text = members.string(member), let bytes = text.withRawBytes({ Base64URL.decode($0) }) else {
            throw KeyFault("\(name) has no \(member) in base64url")
        }
        return bytes
    }

    /// The name for a message: without control characters, cut after 80 characters.
    private static func quoted(_ kid: String) -> String {
        "'" + String(String.UnicodeScalarView(kid.unicodeScalars.prefix(80).map { $0.value < 0x20 ? "?" : $0 })) + "'"
    }
}
