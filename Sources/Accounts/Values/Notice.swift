package import Wire

/// A kind of change of which users are told by mail, as `TOLLGATE_NOTICES` names it. Providers come with `password`: they are ways to
/// sign in, too.
package enum NoticeTopic: String, CaseIterable, Sendable {
    case newDevice = "new-device"
    case password
    case email
}

/// A mail that tells of a change of an account. It is stored in the transaction of the change.
package struct Notice: Sendable, Equatable {
    /// Stored: the texts never change.
    package enum Kind: String, CaseIterable, Sendable {
        case newDevice = "new-device"
        case passwordChanged = "password-changed"
        /// To the new address.
        case emailChanged = "email-changed"
        /// To the address that the account had before. It has the way back.
        case emailLeft = "email-left"
        case identityLinked = "identity-linked"
        case identityUnlinked = "identity-unlinked"

        package var topic: NoticeTopic {
            switch self {
            case .newDevice: .newDevice
            case .passwordChanged, .identityLinked, .identityUnlinked: .password
            case .emailChanged, .emailLeft: .email
            }
        }
    }

    /// How long a notice is tried to be sent, and how long the way back is open, in seconds.
    package static let keptSeconds: Int64 = 72 * 3_600
    /// New devices of one account of which its user is told in that time: others have many.
    package static let maxNewDevices = 20

    package let id: UUID
    package let kind: Kind
    package let recipient: EmailAddress
    /// A language tag.
    package let language: String?
    /// The device that signed in, or the provider that was linked or unlinked.
    package let detail: String?
    /// The client's address.
    package let address: IPAddress?
    package let at: WallTime

    package init(
        id: UUID, kind: Kind, recipient: EmailAddress, language: String?, detail: String?, address: IPAddress?, at: WallTime
    ) {
        self.id = id
        self.kind = kind
        self.recipient = recipient
        self.language = language
        self.detail = detail
        self.address = address
        self.at = at
    }

    /// The end of its time.
    package var until: WallTime { at.advanced(seconds: Self.keptSeconds) }
}
