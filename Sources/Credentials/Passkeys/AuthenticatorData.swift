import Wire

/// The data of an authenticator about a credential and its user (WebAuthn §6.1).
struct AuthenticatorData: Sendable {
    struct Flags: OptionSet, Sendable {
        let rawValue: UInt64
        static let userPresent = Self(rawValue: 0x01)
        static let userVerified = Self(rawValue: 0x04)
        static let backupEligible = Self(rawValue: 0x08)
        static let backedUp = Self(rawValue: 0x10)
        static let attestedCredential = Self(rawValue: 0x40)
        static let extensions = Self(rawValue: 0x80)
    }

    struct Credential: Sendable {
        let aaguid: UUID
        let id: [UInt8]
        let key: CBOR
    }

    let rpIDHash: [UInt8]
    let flags: Flags
    let signCount: UInt32
    /// A new credential, at its registration.
    let credential: Credential?

    /// nil for another form. The outputs of extensions are read and ignored.
    init?(_ bytes: [UInt8]) {
        var reader = CBORReader(bytes)
        guard let hash = reader.take(32), let bits = reader.number(1), let count = reader.number(4) else { return nil }
        rpIDHash = hash
        flags = Flags(rawValue: bits)
        signCount = UInt32(truncatingIfNeeded: count)
        credential = flags.contains(.attestedCredential) ? Self.credential(&reader) : nil
        guard flags.contains(.attestedCredential) == (credential != nil) else { return nil }
        if flags.contains(.extensions) { guard case .map? = reader.value() else { return nil } }
        guard reader.isAtEnd else { return nil }
    }

    private static func credential(_ reader: inout CBORReader) -> Credential? {
        guard let aaguid = reader.take(16).flatMap({ UUID(bytes: $0.rawBytes) }), let count = reader.number(2),
            let id = reader.take(count), let key = reader.value()
        else { return nil }
        return Credential(aaguid: aaguid, id: id, key: key)
    }
}
