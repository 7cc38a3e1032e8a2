package import Wire

/// An entry of the audit log of an account.
package struct AuditEvent: Sendable, Equatable {
    /// Stored: the texts never change.
    package enum Kind: String, CaseIterable, Sendable {
        case accountOpened = "account-opened"
        case accountTaken = "account-taken"
        case accountDeleted = "account-deleted"
        case signedIn = "signed-in"
        case identityLinked = "identity-linked"
        case emailConfirmed = "email-confirmed"
        case emailChanged = "email-changed"
        case emailReleased = "email-released"
        case phoneChanged = "phone-changed"
        case passwordChanged = "password-changed"
        case passwordReset = "password-reset"
        case sessionEnded = "session-ended"
        case refreshReuse = "refresh-reuse"
        case refreshAhead = "refresh-ahead"
        case tierChanged = "tier-changed"
        case actorGranted = "actor-granted"
        case actorRevoked = "actor-revoked"
    }

    /// Sorts by time; its own in the whole log.
    package let id: UUID
    package let kind: Kind
    package let at: WallTime
    package let user: UUID?
    package let session: UUID?
    package var actor: AuditActor
    /// Address of the client that caused it; nil for the operator, and once it was erased.
    package var address: IPAddress?
    /// A tier, a provider or a reason. Never a secret.
    package let detail: String?

    /// The account's email as it is when the event is read. It is not part of the event; nil once the account is deleted.
    package var email: String?

    /// How long addresses are kept, in seconds: a year. Until then an address that the user signed in from counts as familiar.
    package static let addressSeconds: Int64 = 365 * 86_400

    package init(
        id: UUID, _ kind: Kind, at: WallTime, user: UUID?, session: UUID? = nil, actor: AuditActor = .user, address: IPAddress? = nil,
        detail: String? = nil
    ) {
        self.id = id
        self.actor = actor
        self.kind = kind
        self.at = at
        self.user = user
        self.session = session
        self.address = address
        self.detail = detail
    }
}

/// The author of a change. Its raw values are stored, so they must stay as they are.
package enum AuditActor: String, CaseIterable, Sendable {
    /// The client of a contract: the account's user, or a stranger who tries to be.
    case user
    /// A command of `tollgate`.
    case command
    case adminAPI = "admin-api"
    case console
    /// The operator, as versions recorded it that did not tell commands from the admin API.
    case `operator`
}

/// Time, author and client address of a change, for the audit log.
package struct AuditContext: Sendable, Equatable {
    package let now: WallTime
    package let actor: AuditActor
    /// nil for the operator.
    package let address: IPAddress?

    package init(now: WallTime, address: IPAddress?, actor: AuditActor = .user) {
        self.now = now
        self.actor = actor
        self.address = address
    }
}
