package import Wire

/// Something that happened to an account and that its operator may want to know of later.
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
    /// Of the client that caused it; nil for the operator's doing.
    package let address: IPAddress?
    /// What else there is to say: a tier, a provider, a reason. Never a secret.
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

/// When something is done, and from where.
package struct Occasion: Sendable, Equatable {
    package let now: WallTime
    /// nil for the operator.
    package let address: IPAddress?

    package init(now: WallTime, address: IPAddress?) {
        self.now = now
        self.address = address
    }
}
