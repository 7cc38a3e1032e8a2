package import Credentials
package import Wire

/// A credential of WebAuthn that signs in to an account.
package struct Passkey: Sendable, Equatable {
    /// So many an account may have.
    package static let most: Int64 = 20

    package let credentialID: [UInt8]
    package let user: UUID
    /// SubjectPublicKeyInfo in DER.
    package let publicKey: [UInt8]
    package let algorithm: SigningAlgorithm
    package var signCount: UInt32
    package let isBackupEligible: Bool
    package var isBackedUp: Bool
    /// The model of its authenticator, as that says.
    package let aaguid: UUID
    package let transports: [String]
    package var name: String
    package let createdAt: WallTime
    /// The last sign-in by it; nil if there was none.
    package var lastUsedAt: WallTime?
    /// The sign-in that it carries until it is old enough (`CarriedSignIns`); nil if its user had signed in lately when it was added.
    package var carriedAt: WallTime?

    package init(
        credentialID: [UInt8], user: UUID, publicKey: [UInt8], algorithm: SigningAlgorithm, signCount: UInt32, isBackupEligible: Bool,
        isBackedUp: Bool, aaguid: UUID, transports: [String], name: String, createdAt: WallTime, lastUsedAt: WallTime? = nil
    ) {
        self.credentialID = credentialID
        self.user = user
        self.publicKey = publicKey
        self.algorithm = algorithm
        self.signCount = signCount
        self.isBackupEligible = isBackupEligible
        self.isBackedUp = isBackedUp
        self.aaguid = aaguid
        self.transports = transports
        self.name = name
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
    }

    /// A passkey that was just registered.
    init(_ new: NewPasskey, of user: UUID, name: String, at now: WallTime) {
        self.init(
            credentialID: new.credentialID, user: user, publicKey: new.publicKey, algorithm: new.algorithm, signCount: new.signCount,
            isBackupEligible: new.isBackupEligible, isBackedUp: new.isBackedUp, aaguid: new.aaguid, transports: new.transports, name: name,
            createdAt: now)
    }

    /// As clients name it: the credential's id in base64url.
    package var id: String { Base64URL.encode(credentialID.rawBytes) }

    /// The credential's id in a text that clients sent; nil if it is none.
    package static func credentialID(_ text: String) -> [UInt8]? { text.withRawBytes { Base64URL.decode($0) } }

    /// Whether a counter says that the authenticator was copied (WebAuthn §7.2): it did not rise. Authenticators without one send 0.
    package func isFalling(to count: UInt32) -> Bool { signCount > 0 && count > 0 && count <= signCount }
}
