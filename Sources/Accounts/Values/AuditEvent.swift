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

    package let kind: Kind
    package let at: WallTime
    package let user: UUID?
    package let session: UUID?
    /// Address of the client that caused it; nil for the operator.
    package let address: IPAddress?
    /// A tier, a provider or a reason. Never a secret.
    package let detail: String?

    package init(
        _ kind: Kind, at: WallTime, user: UUID?, session: UUID? = nil, address: IPAddress? = nil, detail: String? = nil
    ) {
        self.kind = kind
        self.at = at
        self.user = user
        self.session = session
        self.address = address
        self.detail = detail
    }
}

/// Time and client address of a change, for the audit log.
package struct AuditContext: Sendable, Equatable {
    package let now: WallTime
    /// nil for the operator.
    package let address: IPAddress?

    package init(now: WallTime, address: IPAddress?) {
        self.now = now
        self.address = address
    }
}
