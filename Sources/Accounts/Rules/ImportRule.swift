package import Wire

/// Why an imported account cannot be added.
package enum ImportRefusal: Sendable, Equatable {
    /// Another account has the email.
    case emailTaken(by: UUID)
    /// Another account has the identity.
    case identityTaken(IdentityKey, by: UUID)
}

/// The outcome for one imported account.
package enum ImportVerdict: Sendable, Equatable {
    case create
    /// The account is there, made for the identity before anything else was known of it; it gets what the line brings.
    case complete(UUID)
    /// The account is there and stays as it is.
    case keep(UUID)
    case refuse(ImportRefusal)
}

/// The accounts that have something that a line names.
package struct ImportHolders: Sendable, Equatable {
    package var byID: Account?
    package var byIdentity: [Holder] = []
    package var byEmail: Account?

    /// The account that has an identity.
    package struct Holder: Sendable, Equatable {
        package let key: IdentityKey
        package let account: Account

        package init(key: IdentityKey, account: Account) {
            self.key = key
            self.account = account
        }
    }

    package init() {}

    /// The identities of the line that no account has.
    package func missing(_ line: ImportedAccount) -> [IdentityKey] {
        line.identities.filter { key in !byIdentity.contains { $0.key == key } }
    }
}

/// Decides what becomes of an imported account. The same line again changes nothing, and no line changes an account in use. A
/// line is known by its id, else by its identities, else by its email.
package enum ImportRule {
    package static func verdict(_ line: ImportedAccount, _ holders: ImportHolders) -> ImportVerdict {
        if let known = holders.byID { return .keep(known.id) }
        if let first = holders.byIdentity.first {
            let user = first.account.id
            // The id of the line would not be the account's.
            if line.id != nil { return .refuse(.identityTaken(first.key, by: user)) }
            if let other = holders.byIdentity.first(where: { $0.account.id != user }) {
                return .refuse(.identityTaken(other.key, by: other.account.id))
            }
            return isBare(first.account) ? complete(line, user, holders) : .keep(user)
        }
        guard let holder = holders.byEmail else { return .create }
        // An account that was signed up for with the email need not be its owner's.
        let isImported = line.id == nil && line.identities.isEmpty && holder.openedBy == nil
        return isImported ? .keep(holder.id) : .refuse(.emailTaken(by: holder.id))
    }

    private static func isBare(_ account: Account) -> Bool {
        account.openedBy == nil && account.email == nil && account.username == nil && !account.hasPassword
    }

    private static func complete(_ line: ImportedAccount, _ user: UUID, _ holders: ImportHolders) -> ImportVerdict {
        if let holder = holders.byEmail { return .refuse(.emailTaken(by: holder.id)) }
        let bringsSomething = line.email != nil || line.username != nil || line.passwordHash != nil || !holders.missing(line).isEmpty
        return bringsSomething ? .complete(user) : .keep(user)
    }
}

extension ImportedAccount {
    /// The account to be added, with `newID` if the line has no id.
    package func account(newID: UUID, now: WallTime) -> Account {
        let created = min(createdAt ?? now, now)
        return Account(
            id: id ?? newID, openedBy: nil, createdAt: created, updatedAt: now, email: email,
            emailConfirmedAt: isEmailConfirmed ? created : nil, username: username, hasPassword: passwordHash != nil,
            entitlement: tier.map { Entitlement(tier: $0, until: tierUntil, version: 1) } ?? .none)
    }

    /// The account that was made for an identity, with what the line brings. A tier that was set stays.
    package func completing(_ account: Account, now: WallTime) -> Account {
        var account = account
        account.updatedAt = now
        account.email = email
        account.emailConfirmedAt = isEmailConfirmed ? now : nil
        account.username = username
        account.hasPassword = passwordHash != nil
        return account
    }
}
