internal import Credentials
package import Wire

/// A notification of Apple about a user of Sign in with Apple, as it counts here.
package struct AppleNotice: Sendable, Equatable {
    package enum Kind: Sendable, Equatable {
        /// The user lets the app no longer sign in with Apple.
        case consentRevoked
        /// The user's account at Apple is deleted.
        case accountDeleted
        /// Apple forwards no mail, or mail again, to this relay address.
        case mailStopped(EmailAddress)
        case mailResumed(EmailAddress)
    }

    /// The clock of Apple may differ from ours by so many seconds.
    private static let skewSeconds: Int64 = 60

    package let kind: Kind
    package let subject: String
    package let at: WallTime

    package var key: IdentityKey { IdentityKey(IdentitySource(.apple), stored: subject) }

    /// Whether it is about what was so at `time`. A notice that comes late says nothing of what its user did since.
    package func isAbout(_ time: WallTime) -> Bool { time <= at.advanced(seconds: Self.skewSeconds) }

    package init(_ kind: Kind, subject: String, at: WallTime) {
        self.kind = kind
        self.subject = subject
        self.at = at
    }

    /// nil for a kind that asks for nothing. Both words for a deleted account have been seen.
    init?(_ notice: ProviderNotice) {
        let email: EmailAddress?
        do throws(MalformedText) { email = try notice.email.map { text throws(MalformedText) in try EmailAddress(text) } } catch {
            return nil
        }
        switch (notice.type, email) {
        case ("consent-revoked", _): kind = .consentRevoked
        case ("account-deleted", _), ("account-delete", _): kind = .accountDeleted
        case ("email-disabled", let email?): kind = .mailStopped(email)
        case ("email-enabled", let email?): kind = .mailResumed(email)
        default: return nil
        }
        (subject, at) = (notice.subject, WallTime(seconds: notice.at))
    }
}
