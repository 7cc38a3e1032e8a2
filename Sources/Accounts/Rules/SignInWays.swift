internal import Credentials

/// The ways to sign in that the mounted contracts offer beside ID tokens and the tokens of outside issuers.
package struct SignInWays: Sendable, Equatable {
    /// By a password.
    package var passwords: Bool
    /// By what is sent to a proven email: a code, or a link that resets the password.
    package var emails: Bool
    /// By a code that is sent to a proven phone.
    package var phones: Bool
    /// By a passkey, of whatever contract.
    package var passkeys = true

    package init(passwords: Bool, emails: Bool, phones: Bool) {
        self.passwords = passwords
        self.emails = emails
        self.phones = phones
    }

    /// Whether the user of an account can sign in to it by one of these identities, or otherwise. `relay`: whether the relay addresses of
    /// Apple reach their users.
    package func lead(to account: Account, identities: [IdentityKey], relay: Bool = true) -> Bool {
        !identities.isEmpty || passkeys && account.passkeys > 0
            || passwords && account.hasPassword && (account.email != nil || account.username != nil)
            || emails && account.emailConfirmedAt != nil && account.email.map { relay || !$0.isAppleRelay } ?? false
            || phones && account.phone != nil && account.phoneConfirmedAt != nil
    }
}

extension EmailAddress {
    /// Whether Apple forwards what is sent to it.
    fileprivate var isAppleRelay: Bool { key.hasSuffix("@privaterelay.appleid.com") }
}
