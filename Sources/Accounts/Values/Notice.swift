package import Wire

/// A kind of change of which users are told by mail, as `TOLLGATE_NOTICES` names it. Providers come with `password`: they are ways to
/// sign in, too.
package enum NoticeTopic: String, CaseIterable, Sendable {
    case newDevice = "new-device"
    case password
    case email
    case passkey
    case factor
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
        /// Also to the phone that the account had before.
        case phoneChanged = "phone-changed"
        case passkeyAdded = "passkey-added"
        case passkeyRemoved = "passkey-removed"
        /// Its counter fell, which it does if the authenticator was copied.
        case passkeyCounterFell = "passkey-counter"
        case factorAdded = "factor-added"
        case factorRemoved = "factor-removed"
        /// A session's tokens came without the key of its device.
        case deviceKeyRefused = "device-key-refused"

        /// The one table of the kinds. An account without an email gets an SMS, about changes that a thief could have made.
        package var row: (topic: NoticeTopic, bySMS: Bool, detail: Detail) {
            switch self {
            case .newDevice, .deviceKeyRefused: (.newDevice, false, .device)
            case .passwordChanged: (.password, true, .device)
            case .identityLinked, .identityUnlinked: (.password, true, .provider)
            case .emailChanged, .emailLeft: (.email, false, .device)
            case .phoneChanged: (.email, true, .device)
            case .passkeyAdded, .passkeyRemoved, .passkeyCounterFell: (.passkey, true, .passkey)
            case .factorAdded, .factorRemoved: (.factor, true, .device)
            }
        }
    }

    /// As templates name a notice's detail: the device that signed in, the provider that was linked or unlinked, or the passkey's name.
    package enum Detail: String, Sendable { case device, provider, passkey }

    /// How long a notice is tried to be sent, and how long the way back is open, in seconds.
    package static let keptSeconds: Int64 = 72 * 3_600
    /// New devices of one account of which its user is told in that time: others have many.
    package static let maxNewDevices = 20

    package let id: UUID
    package let kind: Kind
    package let recipient: Recipient
    /// A language tag.
    package let language: String?
    /// As its kind's row says.
    package let detail: String?
    /// The client's address.
    package let address: IPAddress?
    package let at: WallTime

    package init(
        id: UUID, kind: Kind, recipient: Recipient, language: String?, detail: String?, address: IPAddress?, at: WallTime
    ) {
        self.id = id
        self.kind = kind
        self.recipient = recipient
        self.language = language
        self.detail = detail
        self.address = address
        self.at = at
    }

    /// The recipient of a notice to an account; nil if it has none. Only proven addresses get notices: others may belong to a stranger.
    package static func recipient(_ kind: Kind, of account: Account) -> Recipient? {
        if let email = account.email, account.emailConfirmedAt != nil, account.mailStoppedAt == nil { return .email(email) }
        return kind.row.bySMS && account.phoneConfirmedAt != nil ? account.phone.map { .phone($0) } : nil
    }

    /// The end of its time.
    package var until: WallTime { at.advanced(seconds: Self.keptSeconds) }
}
