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
        case purchaseChanged = "purchase-changed"
        case actorGranted = "actor-granted"
        case actorRevoked = "actor-revoked"
        case identityUnlinked = "identity-unlinked"
        case attributesChanged = "attributes-changed"
        case accountBanned = "account-banned"
        case accountUnbanned = "account-unbanned"
        case accountMerged = "account-merged"
        /// Its user closed it, and it is erased later; or it is deleted at once.
        case accountClosed = "account-closed"
        case accountReopened = "account-reopened"
        case apiKeyCreated = "api-key-created"
        case apiKeyRevoked = "api-key-revoked"
        case passkeyCounterFell = "passkey-counter-fell"
        case factorAdded = "factor-added"
        case factorRemoved = "factor-removed"
        case backupCodesMade = "backup-codes-made"
        case backupCodeUsed = "backup-code-used"
        /// A refresh bound an open session to the key of its device.
        case deviceKeyBound = "device-key-bound"
        /// A refresh lacked a proof of that key.
        case deviceKeyRefused = "device-key-refused"
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

/// The author of a change.
package enum AuditActor: Hashable, Sendable {
    /// The client of a contract: the account's user, or a stranger who tries to be.
    case user
    /// A command of `tollgate`.
    case command
    /// A program with the admin token, or with the token of this name.
    case adminAPI(token: String? = nil)
    case console
    /// A store of apps or payments: by a notification, or when the gateway asked it.
    case store
    /// A provider of identities, by a notification.
    case provider
    /// The operator, as versions recorded it that did not tell commands from the admin API.
    case `operator`

    /// Its kind, without a token's name.
    package var kind: String {
        switch self {
        case .user: "user"
        case .command: "command"
        case .adminAPI: "admin-api"
        case .console: "console"
        case .store: "store"
        case .provider: "provider"
        case .operator: "operator"
        }
    }

    /// The name of the token by which the admin API was used; nil for the admin token and all others.
    package var token: String? {
        guard case .adminAPI(let token) = self else { return nil }
        return token
    }
}

/// Stored: the texts never change.
extension AuditActor: RawRepresentable {
    package var rawValue: String { token.map { "\(kind):\($0)" } ?? kind }

    package init?(rawValue: String) {
        let known: [AuditActor] = [.user, .command, .adminAPI(), .console, .store, .provider, .operator]
        let words = rawValue.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard let actor = known.first(where: { $0.kind == words[0] }) else { return nil }
        if words.count == 1 { self = actor } else if actor == .adminAPI() { self = .adminAPI(token: words[1]) } else { return nil }
    }
}

/// Time, author and client address of a change, for the audit log.
package struct AuditContext: Sendable, Equatable {
    package let now: WallTime
    package let actor: AuditActor
    /// nil for the operator.
    package let address: IPAddress?
    /// The changes of which the account's user is told by mail.
    package var notices: Set<NoticeTopic> = []
    /// Seconds after which a credential that a session has set is a way to sign in like any other: its owner had that long to notice
    /// (`TOLLGATE_CONTACT_AGE`).
    package var contactAge: Int64 = 7 * 86_400

    package init(now: WallTime, address: IPAddress?, actor: AuditActor = .user) {
        self.now = now
        self.actor = actor
        self.address = address
    }
}
