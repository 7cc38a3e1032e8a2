internal import Credentials

/// The ways to sign in that the mounted contracts offer beside ID tokens and the tokens of outside issuers.
package struct SignInWays: Sendable, Equatable {
    /// By a password.
    package var passwords: Bool
    /// By what is sent to a proven email: a code, or a link that resets the password.
    package var emails: Bool
    /// By a code that is sent to a proven phone.
    package var phones: Bool

    package init(passwords: Bool, emails: Bool, phones: Bool) {
        self.passwords = passwords
        self.emails = emails
        self.phones = phones
    }

    /// Whether the user of an account can sign in to it by one of these identities, or otherwise.
    package func lead(to account: Account, identities: [IdentityKey]) -> Bool {
        !identities.isEmpty || passwords && account.hasPassword && (account.email != nil || account.username != nil)
            || emails && account.email != nil && account.emailConfirmedAt != nil
            || phones && account.phone != nil && account.phoneConfirmedAt != nil
    }
}
