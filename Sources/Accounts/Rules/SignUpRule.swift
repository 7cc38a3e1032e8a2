package import Wire

/// Whether a sign-up takes the place of an older one with the same email.
package enum SignUpRule {
    /// Only an account that was never signed in to gives way: it was opened under the same contract, which withheld its
    /// session, and neither its email nor a phone was ever proven. An account with a session is in use, and changes hands only
    /// by a proof of its email.
    package static func startsAnew(over account: Account, as new: NewAccount, hasSessions: Bool) -> Bool {
        new.mayStartAnew && account.openedBy == new.openedBy && account.emailConfirmedAt == nil && account.phone == nil
            && !hasSessions
    }
}

extension NewAccount {
    /// `account` as this sign-up begins it, without anything of the older one.
    package func anew(_ account: Account, now: WallTime) -> Account {
        var account = account
        account.strip(at: now)
        account.email = email
        account.username = username
        account.hasPassword = passwordHash != nil
        account.metadata = metadata
        return account
    }
}
