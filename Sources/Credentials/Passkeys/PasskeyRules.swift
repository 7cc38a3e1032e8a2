package import Wire

/// Why a credential of WebAuthn is refused, in words that a client may see.
package struct PasskeyFault: Error, Equatable {
    package let message: String

    init(_ message: String) { self.message = message }
}

/// A passkey that was registered.
package struct NewPasskey: Sendable, Equatable {
    package let credentialID: [UInt8]
    /// SubjectPublicKeyInfo in DER.
    package let publicKey: [UInt8]
    package let algorithm: SigningAlgorithm
    package let signCount: UInt32
    package let isBackupEligible: Bool
    package let isBackedUp: Bool
    /// The authenticator's model. It is not proven, since attestation is not trusted.
    package let aaguid: UUID
    /// How the client says that it reaches the authenticator, for the options of a later sign-in.
    package let transports: [String]
    package let challenge: [UInt8]
}

/// The rules for credentials (WebAuthn level 3, §7.1 and §7.2) but two: whose the challenge is, and whether the credential is known.
/// The user must have been verified by the authenticator.
package struct PasskeyRules: Sendable {
    private static let longestCredentialID = 1_023
    private static let longestUserHandle = 64

    private let rpIDHash: [UInt8]
    private let origins: Set<String>

    package init(rpID: String, origins: Set<String>) {
        rpIDHash = Digest.sha256(Array(rpID.utf8).rawBytes)
        self.origins = origins
    }

    /// The new passkey of `credential`, a RegistrationResponseJSON. Its statement of attestation is read and not trusted.
    package func registration(_ credential: RawSpan) throws(PasskeyFault) -> NewPasskey {
        let credential = try Self.tree(credential)
        let id = try Self.id(of: credential)
        let response = credential["response"]
        let challenge = try challenge(in: Self.bytes(response, "clientDataJSON"), type: "webauthn.create")
        let data = try checked(Self.authenticatorData(attestation: Self.bytes(response, "attestationObject")))
        guard let attested = data.credential else { throw PasskeyFault("the authenticator data has no credential") }
        guard attested.id == id else { throw PasskeyFault("the authenticator data has another credential than id") }
        let key = try PasskeyKey(cose: attested.key)
        guard let der = key.der else { throw PasskeyFault("the public key is not valid") }
        return NewPasskey(
            credentialID: id, publicKey: der, algorithm: key.algorithm, signCount: data.signCount,
            isBackupEligible: data.flags.contains(.backupEligible), isBackedUp: data.flags.contains(.backedUp),
            aaguid: attested.aaguid, transports: try Self.transports(response["transports"]), challenge: challenge)
    }

    /// The assertion in `credential`, an AuthenticationResponseJSON, before its signature is verified.
    package func assertion(_ credential: RawSpan) throws(PasskeyFault) -> UnverifiedAssertion {
        let credential = try Self.tree(credential)
        let id = try Self.id(of: credential)
        let response = credential["response"]
        let clientData = try Self.bytes(response, "clientDataJSON")
        let challenge = try challenge(in: clientData, type: "webauthn.get")
        let bytes = try Self.bytes(response, "authenticatorData")
        let handle = response["userHandle"] == .null ? [] : try Self.bytes(response, "userHandle")
        guard handle.count <= Self.longestUserHandle else { throw PasskeyFault("userHandle has more than 64 bytes") }
        return UnverifiedAssertion(
            credentialID: id, userHandle: handle.isEmpty ? nil : handle, challenge: challenge,
            data: try checked(AuthenticatorData(bytes)), signed: bytes + Digest.sha256(clientData.rawBytes),
            signature: try Self.bytes(response, "signature"))
    }

    /// The challenge of `clientData` (§5.8.1), once the rest of it holds. What is embedded in a page of another origin is refused.
    private func challenge(in clientData: [UInt8], type: String) throws(PasskeyFault) -> [UInt8] {
        guard let data = JSONTree(clientData.rawBytes) else { throw PasskeyFault("clientDataJSON is not a JSON object") }
        guard data["type"] == .text(type) else { throw PasskeyFault("the type of the client data must be \(type)") }
        guard let origin = data["origin"].text, origins.contains(where: { $0.utf8.elementsEqual(origin.utf8) }) else {
            throw PasskeyFault("the origin of the client data is not one of those that are accepted here")
        }
        guard [.null, .bool(false)].contains(data["crossOrigin"]), data["topOrigin"] == .null else {
            throw PasskeyFault("the credential was used in a page of another origin")
        }
        return try Self.bytes(data, "challenge")
    }

    private func checked(_ data: AuthenticatorData?) throws(PasskeyFault) -> AuthenticatorData {
        guard let data else { throw PasskeyFault("the authenticator data is malformed") }
        guard data.rpIDHash == rpIDHash else { throw PasskeyFault("the credential is for another rp-id") }
        guard data.flags.contains([.userPresent, .userVerified]) else {
            throw PasskeyFault("the authenticator did not verify the user")
        }
        guard data.flags.contains(.backupEligible) || !data.flags.contains(.backedUp) else {
            throw PasskeyFault("the authenticator data says that the credential is backed up and cannot be backed up")
        }
        return data
    }
}

extension PasskeyRules {
    private static func tree(_ credential: RawSpan) throws(PasskeyFault) -> JSONTree {
        guard let tree = JSONTree(credential) else { throw PasskeyFault("the credential is not a JSON object") }
        return tree
    }

    /// The credential's id, which must be in `id` and `rawId` alike.
    private static func id(of credential: JSONTree) throws(PasskeyFault) -> [UInt8] {
        guard credential["id"] != .null || credential["response"] != .null else { throw PasskeyFault("the credential is missing") }
        guard credential["type"] == .text("public-key") else { throw PasskeyFault("type must be public-key") }
        let id = try bytes(credential, "id")
        guard try bytes(credential, "rawId") == id else { throw PasskeyFault("rawId must be equal to id") }
        guard 1...longestCredentialID ~= id.count else { throw PasskeyFault("id must have 1 to 1023 bytes") }
        return id
    }

    private static func bytes(_ tree: JSONTree, _ name: String) throws(PasskeyFault) -> [UInt8] {
        guard let bytes = tree[name].text.flatMap({ $0.withRawBytes { Base64URL.decode($0) } }) else {
            throw PasskeyFault("\(name) must be text in base64url without padding")
        }
        return bytes
    }

    /// The authenticator data of an attestation object (§6.5.4). A statement of any format but `none` is read and ignored.
    private static func authenticatorData(attestation bytes: [UInt8]) throws(PasskeyFault) -> AuthenticatorData? {
        guard let object = CBOR(bytes), case .text(let format)? = object["fmt"], case .map(let statement)? = object["attStmt"],
            let data = object["authData"]?.bytes
        else { throw PasskeyFault("attestationObject is malformed") }
        guard format != "none" || statement.isEmpty else { throw PasskeyFault("an attestation none must have no statement") }
        return AuthenticatorData(data)
    }

    /// The texts that have the form of a transport (§5.8.4); others are left out, since clients may add some.
    private static func transports(_ value: JSONTree) throws(PasskeyFault) -> [String] {
        guard case .array(let elements) = value else {
            if value == .null { return [] }
            throw PasskeyFault("transports must be an array")
        }
        let known = elements.compactMap(\.text).filter { text in
            1...16 ~= text.utf8.count && text.utf8.allSatisfy { UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 || $0 == UInt8(ascii: "-") }
        }
        return Array(known.prefix(8))
    }
}
