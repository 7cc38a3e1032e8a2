package import Wire

/// Decides whether a sign-up replaces an older one with the same email.
package enum SignUpRule {
    /// True only for an account that was never signed in to: created under the same contract, which withheld its session, and
    /// with neither email nor phone proven, and no passkey. An account with a session is in use, and can only be taken over by proving its
    /// email.
    package static func startsAnew(over account: Account, as new: NewAccount, hasSessions: Bool) -> Bool {
        new.replacesUnfinishedSignUp && account.openedBy == new.openedBy && account.emailConfirmedAt == nil && account.phone == nil
            && account.passkeys == 0 && !hasSessions
    }
}

extension NewAccount {
    /// `account` as replaced by this sign-up, without any data of the older one.
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
