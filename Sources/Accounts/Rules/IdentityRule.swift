package import Credentials
package import Wire

/// The claims of a verified ID token, and the name that the app sent with it.
package struct IdentityProof: Sendable, Equatable {
    package let provider: Provider
    /// The token's `sub`.
    package let subject: String
    /// The token's email, if the provider has verified it.
    package let verifiedEmail: EmailAddress?
    package let name: PersonName?
    package let nameRule: NameRule
    /// The session that brings the proof, which may be a guest's.
    package var guest: CallerSession?
    /// The authorization code that came with it, to be exchanged.
    package var appleCode: AppleToken?
    /// The attributes of an account that it opens; nil where the operator's hook was not asked yet, and then it opens none.
    package var opening: Attributes? = Attributes.none

    package var key: IdentityKey { IdentityKey(IdentitySource(provider), stored: subject) }

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

/// When a name sent with a sign-in is stored.
package enum NameRule: Sendable, Equatable {
    /// If the account has none.
    case first
    /// If the account has none, or was created within the last 5 seconds: the name belongs to the same registration.
    case firstOrFresh

    private static let freshSeconds: Int64 = 5

    /// Whether a name is stored in `account` at `now`.
    package func accepts(_ account: Account, now: WallTime) -> Bool {
        switch self {
        case .first: account.name == nil
        case .firstOrFresh: account.name == nil || now < account.createdAt.advanced(seconds: Self.freshSeconds)
        }
    }
}

/// The account that an identity signs in to.
package enum IdentityVerdict: Equatable, Sendable {
    /// The account that it is linked to.
    case known(UUID)
    /// The account that has proven the same email; the identity is linked to it.
    case link(UUID)
    /// The account that was created with the email and never proved it: it is taken over, and the identity is linked to it.
    case takeOver(UUID)
    /// A new account, with the verified email if there is one.
    case create
    /// The account of the guest who brings it.
    case join(UUID)
}

extension IdentityVerdict {
    /// Whether the operator's hook is asked: an account is opened, or a guest becomes one.
    package var opensAccount: Bool {
        switch self {
        case .create, .join: true
        case .known, .link, .takeOver: false
        }
    }
}

/// (Provider, subject) identifies an account. The email is used only for the first sign-in, and only if it is verified.
package enum IdentityRule {
    /// `linked` is the account of the identity, `holder` the account that has the verified email, `guest` the caller's.
    package static func verdict(linked: UUID?, holder: ContactHolder?, guest: UUID? = nil) -> IdentityVerdict {
        if let linked { return .known(linked) }
        guard let holder else { return guest.map(IdentityVerdict.join) ?? .create }
        return holder.isConfirmed ? .link(holder.user) : .takeOver(holder.user)
    }
}
