package import Credentials
package import Wire

/// An account that the operator creates.
package struct AccountCreation: Sendable {
    /// The credential with which the owner signs in.
    package enum Secret: Sendable {
        case password(Password)
        /// The hash of a password, from another system.
        case hash(PasswordHash)
    }

    package var email: EmailAddress
    /// Without one the owner can sign in only by a code or a provider.
    package var secret: Secret?
    package var username: Username?
    /// Whether the operator vouches that the email is the owner's.
    package var isEmailConfirmed = false
    /// A tier of the gateway, nil for the lowest. `tierUntil` is the end of a subscription.
    package var tier: String?
    package var tierUntil: WallTime?

    package init(email: EmailAddress) { self.email = email }
}

/// The account that the operator names is not there.
package enum AdministrationRefusal: Sendable, Equatable {
    case noSuchAccount
}

/// The operator's changes to accounts, by command, admin API or console.
package struct Administration: Sendable {
    private let context: AccountContext
    private let work: PasswordWork

    package init(context: AccountContext, work: PasswordWork) {
        self.context = context
        self.work = work
    }

    package func create(_ creation: AccountCreation) async throws(AccountError<SignUpRefusal>) -> Account {
        if case .password(let password)? = creation.secret {
            let faults = PasswordRules.strict.faults(of: password, email: creation.email)
            guard faults.isEmpty else { throw .refused(.unfitPassword(faults)) }
        }
        return try await context.value(orRefuse: SignUpRefusal.emailTaken) { () throws(AccountFailure) -> Account? in
            let hash = try await hash(creation.secret)
            let audit = context.audit(nil)
            var account = NewAccount(
                id: context.newID(audit.now), openedBy: nil, email: creation.email, username: creation.username,
                passwordHash: hash)
            account.isEmailConfirmed = creation.isEmailConfirmed
            account.tier = creation.tier
            account.tierUntil = creation.tier == nil ? nil : creation.tierUntil
            switch try await context.ask(await context.store.open(account, session: nil, audit)) {
            case .opened(let account, _): return account
            case .emailTaken: return nil
            }
        }
    }

    private func hash(_ secret: AccountCreation.Secret?) async throws(AccountFailure) -> String? {
        switch secret {
        case .password(let password)?: try await work.hash(password, for: nil)
        case .hash(let hash)?: hash.text
        case nil: nil
        }
    }

    /// Adds imported accounts in one transaction; returns what became of each.
    package func add(_ lines: [ImportedAccount]) async throws(AccountFailure) -> [ImportVerdict] {
        let audit = context.audit(nil)
        let newIDs = lines.map { _ in context.newID(audit.now) }
        return try await context.ask(await context.store.add(lines, newIDs: newIDs, audit))
    }

    /// Sets a tier of the gateway, nil for the lowest; `until` is the end of a subscription. It counts on every gateway
    /// within a second.
    package func setTier(
        _ tier: String?, until: WallTime?, of user: UUID
    ) async throws(AccountError<AdministrationRefusal>) -> Entitlement {
        let audit = context.audit(nil)
        return try await present(await context.store.setTier(tier, until: tier == nil ? nil : until, of: user, audit))
    }

    /// Sets the tier of a subject of an outside issuer, as `setTier` does; an account is made for one that has none.
    package func setTier(
        _ tier: String?, until: WallTime?, of identity: IdentityKey
    ) async throws(AccountFailure) -> Account {
        let audit = context.audit(nil)
        let (end, newUser) = (tier == nil ? nil : until, context.newID(audit.now))
        return try await context.ask(await context.store.setTier(tier, until: end, of: identity, newUser: newUser, audit))
    }

    /// Has every gateway look up the tier of a subject again, within a second.
    package func forgetTier(of identity: IdentityKey) async throws(AccountFailure) {
        try await context.ask(await context.store.forget(identity))
    }

    /// Opens a session without a sign-in, of the contract whose lifetime it has.
    package func openSession(_ contract: ContractID, of user: UUID) async throws(AccountError<AdministrationRefusal>) -> Session {
        let audit = context.audit(nil)
        let new = context.newSession(contract, nil, audit.now)
        return try await present(await context.store.openSession(new, of: user, audit)?.session)
    }

    /// Ends all sessions of an account; returns how many there were.
    package func revoke(_ user: UUID) async throws(AccountFailure) -> Int {
        let audit = context.audit(nil)
        let ended = try await context.ask(await context.store.endSessions(of: user, .revoked, audit))
        return ended.count
    }

    /// Ends one session; false if there is none.
    package func revoke(session: UUID) async throws(AccountFailure) -> Bool {
        let audit = context.audit(nil)
        let ended = try await context.ask(await context.store.end(session, .revoked, audit))
        return ended != nil
    }

    /// Deletes an account with all that belongs to it; returns how many sessions ended.
    @discardableResult
    package func delete(_ user: UUID) async throws(AccountError<AdministrationRefusal>) -> Int {
        let audit = context.audit(nil)
        let ended = try await present(await context.store.delete(user, audit))
        return ended.count
    }

    /// Lets an account act as `actor`.
    package func grant(_ actor: ActorName, to user: UUID) async throws(AccountError<AdministrationRefusal>) {
        let audit = context.audit(nil)
        try await present(await context.store.grant(actor, to: user, audit) ? () : nil)
    }

    /// Takes a grant back; false if there was none.
    package func revoke(_ actor: ActorName, from user: UUID) async throws(AccountFailure) -> Bool {
        let audit = context.audit(nil)
        return try await context.ask(await context.store.revoke(actor, from: user, audit))
    }

    /// The store's answer for an account; nil means that there is no such account.
    private func present<Value: Sendable>(
        _ question: @autoclosure () async throws(StoreFault) -> Value?
    ) async throws(AccountError<AdministrationRefusal>) -> Value {
        try await context.value(orRefuse: AdministrationRefusal.noSuchAccount) { () throws(AccountFailure) in
            try await context.ask(await question())
        }
    }
}
