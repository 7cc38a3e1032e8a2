package import Wire

/// Who vouches for people by ID tokens. Stored: the texts never change.
package enum Provider: String, CaseIterable, Sendable {
    case apple
    case google
}

/// What a provider's ID token proved, and what the app says beside it.
package struct IdentityProof: Sendable, Equatable {
    package let provider: Provider
    /// The provider's name for the person.
    package let subject: String
    /// The email, only if the provider vouches for it.
    package let verifiedEmail: EmailAddress?
    package let name: PersonName?
    package let nameRule: NameRule

    package init(
        provider: Provider, subject: String, verifiedEmail: EmailAddress?, name: PersonName?, nameRule: NameRule
    ) {
        self.provider = provider
        self.subject = subject
        self.verifiedEmail = verifiedEmail
        self.name = name
        self.nameRule = nameRule
    }
}

/// When a name that comes with a sign-in is stored.
package enum NameRule: Sendable, Equatable {
    /// If there is none.
    case first
    /// If there is none, or the account is so new that the name belongs to the same registration.
    case firstOrFresh

    private static let freshSeconds: Int64 = 5

    /// Whether `account` takes a name at `now`.
    package func takes(_ account: Account, now: WallTime) -> Bool {
        switch self {
        case .first: account.name == nil
        case .firstOrFresh: account.name == nil || now < account.createdAt.advanced(seconds: Self.freshSeconds)
        }
    }
}

/// To which account an identity leads.
package enum IdentityVerdict: Equatable, Sendable {
    /// The one that it was linked to before.
    case known(UUID)
    /// The one that proved the same email; the identity is linked to it.
    case link(UUID)
    /// The one that was opened with the email and never proved it: it changes hands, and the identity is linked to it.
    case takeOver(UUID)
    /// A new one, with the email if the provider vouches for one.
    case create
}

/// The key of an account is (provider, subject); an email counts once, and only if the provider vouches for it.
package enum IdentityRule {
    /// `linked` is the account of the identity, `holder` the one that has the verified email.
    package static func verdict(linked: UUID?, holder: ContactHolder?) -> IdentityVerdict {
        if let linked { return .known(linked) }
        guard let holder else { return .create }
        return holder.isConfirmed ? .link(holder.user) : .takeOver(holder.user)
    }
}
