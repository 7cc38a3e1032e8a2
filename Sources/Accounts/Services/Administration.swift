package import Credentials
package import Wire

/// An account that the operator opens for somebody.
package struct Enrolment: Sendable {
    /// What its owner signs in with.
    package enum Secret: Sendable {
        case password(Password)
        /// That of a password which another system knew.
        case hash(PasswordHash)
    }

    package var email: EmailAddress
    /// Without one the owner can only get in by a code or a provider.
    package var secret: Secret?
    package var username: Username?
    /// Whether the operator vouches that the email is the owner's.
    package var isEmailConfirmed = false
    /// One of the gateway's, nil for the lowest; `tierUntil` is what a subscription has.
    package var tier: String?
    package var tierUntil: WallTime?

    package init(email: EmailAddress) { self.email = email }
}

/// What the operator does to accounts, by command, admin API or console.
package struct Administration: Sendable {
    private let base: AccountBase
    private let work: PasswordWork

    package init(base: AccountBase, work: PasswordWork) {
        self.base = base
        self.work = work
    }

    package func create(_ enrolment: Enrolment) async throws(AccountError) -> Account {
        let hash = try await hash(enrolment)
        let occasion = base.occasion(nil)
        var account = NewAccount(
            id: base.newID(occasion.now), openedBy: nil, email: enrolment.email, username: enrolment.username,
            passwordHash: hash)
        account.isEmailConfirmed = enrolment.isEmailConfirmed
        account.tier = enrolment.tier
        account.tierUntil = enrolment.tier == nil ? nil : enrolment.tierUntil
        let opening = try await base.asking { () throws(StoreFault) in
            try await base.store.open(account, session: nil, occasion)
        }
        switch opening {
        case .opened(let account, _): return account
        case .emailTaken: throw .emailTaken
        }
    }

    private func hash(_ enrolment: Enrolment) async throws(AccountError) -> String? {
        switch enrolment.secret {
        case .password(let password)?:
            try PasswordRules.strict.check(password, email: enrolment.email)
            return try await work.hash(password, for: nil)
        case .hash(let hash)?: return hash.text
        case nil: return nil
        }
    }

    /// Sets a tier, which must be one of the gateway's, or the lowest by nil; `until` is what a subscription has. It
    /// counts on every gateway within a second.
    package func setTier(
        _ tier: String?, until: WallTime?, of user: UUID
    ) async throws(AccountError) -> Entitlement {
        let occasion = base.occasion(nil)
        let entitlement = try await base.asking { () throws(StoreFault) in
            try await base.store.setTier(tier, until: tier == nil ? nil : until, of: user, occasion)
        }
        guard let entitlement else { throw .noSuchAccount }
        await base.events.changed(entitlement, of: user)
        return entitlement
    }

    /// Ends all sessions of an account; answers how many there were.
    package func revoke(_ user: UUID) async throws(AccountError) -> Int {
        let occasion = base.occasion(nil)
        let ended = try await base.asking { () throws(StoreFault) in
            try await base.store.endSessions(of: user, .revoked, occasion)
        }
        await base.tell(ended)
        return ended.count
    }

    /// Ends one session; false if there is none.
    package func revoke(session: UUID) async throws(AccountError) -> Bool {
        let occasion = base.occasion(nil)
        let ended = try await base.asking { () throws(StoreFault) in
            try await base.store.end(session, .revoked, occasion)
        }
        if let ended { await base.tell([ended]) }
        return ended != nil
    }

    /// Deletes an account with all that belongs to it; answers how many sessions ended with it.
    @discardableResult
    package func delete(_ user: UUID) async throws(AccountError) -> Int {
        let occasion = base.occasion(nil)
        let ended = try await base.asking { () throws(StoreFault) in try await base.store.delete(user, occasion) }
        guard let ended else { throw .noSuchAccount }
        await base.tell(ended)
        return ended.count
    }

    /// Lets an account act as `actor`.
    package func grant(_ actor: ActorName, to user: UUID) async throws(AccountError) {
        let occasion = base.occasion(nil)
        let isKnown = try await base.asking { () throws(StoreFault) in
            try await base.store.grant(actor, to: user, occasion)
        }
        guard isKnown else { throw .noSuchAccount }
    }

    /// Takes a grant back; false if there was none.
    package func revoke(_ actor: ActorName, from user: UUID) async throws(AccountError) -> Bool {
        let occasion = base.occasion(nil)
        return try await base.asking { () throws(StoreFault) in
            try await base.store.revoke(actor, from: user, occasion)
        }
    }
}
