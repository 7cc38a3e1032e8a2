package import Credentials
package import Wire

/// Why the operator cannot create an account.
package enum CreationRefusal: Sendable, Equatable {
    case unfitPassword([PasswordFault])
    case idTaken
    case emailTaken(by: UUID)
    case identityTaken(IdentityKey, by: UUID)
}

/// The account that the operator names is not there.
package enum AdministrationRefusal: Sendable, Equatable {
    case noSuchAccount
}

/// The operator's changes to accounts, by command, admin API or console.
package struct Administration: Sendable {
    private let context: AccountContext
    private let work: PasswordWork
    /// How the operator makes them, for the audit log.
    package var actor: AuditActor

    package init(context: AccountContext, work: PasswordWork, actor: AuditActor) {
        self.context = context
        self.work = work
        self.actor = actor
    }

    /// Sends a subscriber all events behind a place again; false if events were never sent to it.
    package func replay(to subscriber: String, after position: Int64) async throws(AccountFailure) -> Bool {
        try await context.ask(await context.store.replay(to: subscriber, after: position))
    }

    /// Creates an account by the rules of an import, but for one that is there already: that is a refusal. `password` is hashed
    /// in place of a hash.
    package func create(
        _ account: ImportedAccount, password: Password? = nil
    ) async throws(AccountError<CreationRefusal>) -> Account {
        var account = account
        account.origin = .operator
        if let password {
            let faults = PasswordRules.strict.faults(of: password, email: account.email)
            guard faults.isEmpty else { throw .refused(.unfitPassword(faults)) }
        }
        let verdict: ImportVerdict
        let audit = context.audit(by: actor)
        let newID = context.newID(audit.now)
        do throws(AccountFailure) {
            if let password { account.passwordHash = PasswordHash(parsing: try await work.hash(password, for: nil)) }
            let line = account
            verdict = try await context.ask(await context.store.add([line], newIDs: [newID], audit))[0]
        } catch {
            throw .failed(error)
        }
        switch verdict {
        case .create: return account.account(newID: newID, now: audit.now)
        case .complete(let user):
            return try await context.ask(orRefuse: CreationRefusal.idTaken, await context.store.account(user))
        case .keep(let user): throw .refused(account.taken(by: user))
        case .refuse(.emailTaken(let user)): throw .refused(.emailTaken(by: user))
        case .refuse(.identityTaken(let key, let user)): throw .refused(.identityTaken(key, by: user))
        }
    }

    /// Adds imported accounts in one transaction; returns what became of each.
    package func add(_ lines: [ImportedAccount]) async throws(AccountFailure) -> [ImportVerdict] {
        let audit = context.audit(by: actor)
        let newIDs = lines.map { _ in context.newID(audit.now) }
        return try await context.ask(await context.store.add(lines, newIDs: newIDs, audit))
    }

    /// Sets a tier of the gateway, nil for the lowest; `until` is the end of a subscription. It counts on every gateway
    /// within a second.
    package func setTier(
        _ tier: String?, until: WallTime?, of user: UUID
    ) async throws(AccountError<AdministrationRefusal>) -> Entitlement {
        let audit = context.audit(by: actor)
        return try await present(await context.store.setTier(tier, until: tier == nil ? nil : until, of: user, audit))
    }

    /// Sets the tier of a subject of an outside issuer, as `setTier` does; an account is made for one that has none. `allowsAccountID`: the
    /// subject may be the id of an imported account (`accounts=on`), which a second one would lock out.
    package func setTier(
        _ tier: String?, until: WallTime?, of identity: IdentityKey, allowsAccountID: Bool = false
    ) async throws(AccountFailure) -> Account {
        let audit = context.audit(by: actor)
        let (end, newUser) = (tier == nil ? nil : until, context.newID(audit.now))
        if allowsAccountID, let user = try await AccountDirectory(context: context).account(of: identity, allowsAccountID: true)?.id,
            try await context.ask(await context.store.setTier(tier, until: end, of: user, audit)) != nil,
            let account = try await context.ask(await context.store.account(user))
        {
            return account
        }
        return try await context.ask(await context.store.setTier(tier, until: end, of: identity, newUser: newUser, audit))
    }

    /// Changes the attributes of an account; a fault if they do not fit. They count on every gateway within a second.
    package func change(
        _ attributes: AttributeChange, of user: UUID
    ) async throws(AccountError<AdministrationRefusal>) -> Result<Attributes, Metadata.Fault> {
        let audit = context.audit(by: actor)
        return try await present(await context.store.change(attributes, of: user, audit))
    }

    /// Has every gateway look up the tier of a subject again, within a second.
    package func forgetTier(of identity: IdentityKey) async throws(AccountFailure) {
        try await context.ask(await context.store.forget(identity))
    }

    /// Opens a session without a sign-in, of the contract whose lifetime it has.
    package func openSession(_ contract: ContractID, of user: UUID) async throws(AccountError<AdministrationRefusal>) -> Session {
        let audit = context.audit(by: actor)
        let new = context.newSession(contract, nil, audit.now)
        return try await present(await context.store.openSession(new, of: user, audit)?.session)
    }

    /// Ends all sessions of an account; returns how many there were.
    package func revoke(_ user: UUID) async throws(AccountFailure) -> Int {
        let audit = context.audit(by: actor)
        let ended = try await context.ask(await context.store.endSessions(of: user, .revoked, audit))
        return ended.count
    }

    /// Ends one session; false if there is none.
    package func revoke(session: UUID) async throws(AccountFailure) -> Bool {
        let audit = context.audit(by: actor)
        let ended = try await context.ask(await context.store.end(session, .revoked, audit))
        return ended != nil
    }

    /// Deletes an account with all that belongs to it; returns how many sessions ended.
    @discardableResult
    package func delete(_ user: UUID) async throws(AccountError<AdministrationRefusal>) -> Int {
        let audit = context.audit(by: actor)
        let ended = try await present(await context.store.delete(user, audit))
        return ended.count
    }

    /// Bans an account, for good without `until`, and ends its sessions; within a second no gateway takes its tokens.
    package func ban(
        _ user: UUID, until: WallTime?, reason: String?
    ) async throws(AccountError<AdministrationRefusal>) -> BannedAccount {
        let audit = context.audit(by: actor)
        let ban = Ban(bannedAt: audit.now, until: until, reason: reason)
        return try await present(await context.store.ban(ban, user, audit))
    }

    /// Lifts the ban of an account; the sessions that it ended stay ended.
    package func unban(_ user: UUID) async throws(AccountError<AdministrationRefusal>) -> Account {
        let audit = context.audit(by: actor)
        return try await present(await context.store.unban(user, audit))
    }

    /// Removes a passkey, ends all sessions of its account and tells the user; false if the account does not have it.
    package func removePasskey(_ credentialID: [UInt8], of user: UUID) async throws(AccountFailure) -> Bool {
        var audit = context.audit(by: actor)
        audit.notices = [.passkey]
        let told = audit
        let outcome = try await context.ask(await context.store.remove(credentialID, of: user, keeping: nil, nil, told))
        if case .success = outcome { return true }
        return false
    }

    /// Removes the second factor of an account, for a user who has lost it, with a notice whatever `TOLLGATE_NOTICES` names; false if it
    /// has none.
    package func resetFactors(_ user: UUID) async throws(AccountError<AdministrationRefusal>) -> Bool {
        var audit = context.audit(by: actor)
        audit.notices = [.factor]
        let told = audit
        return try await present(await context.store.dropFactor(of: user, told))
    }

    /// Services have moved what was the merged account's; false if the merge was not announced.
    @discardableResult
    package func mergeDone(from: UUID, to account: UUID) async throws(AccountFailure) -> Bool {
        try await context.mergeDone(from: from, to: account, by: actor)
    }

    /// Lets an account act as `actor`.
    package func grant(_ actor: ActorName, to user: UUID) async throws(AccountError<AdministrationRefusal>) {
        let audit = context.audit(by: self.actor)
        try await present(await context.store.grant(actor, to: user, audit) ? () : nil)
    }

    /// Takes a grant back; false if there was none.
    package func revoke(_ actor: ActorName, from user: UUID) async throws(AccountFailure) -> Bool {
        let audit = context.audit(by: self.actor)
        return try await context.ask(await context.store.revoke(actor, from: user, audit))
    }

    /// The store's answer for an account; nil means that there is no such account.
    private func present<Value: Sendable>(
        _ question: @autoclosure () async throws(StoreFault) -> Value?
    ) async throws(AccountError<AdministrationRefusal>) -> Value {
        try await context.ask(orRefuse: AdministrationRefusal.noSuchAccount, await question())
    }
}

extension ImportedAccount {
    /// The thing of it that the account `user` has already, by which `ImportRule` knew it.
    fileprivate func taken(by user: UUID) -> CreationRefusal {
        if id == user { return .idTaken }
        return identities.first.map { .identityTaken($0, by: user) } ?? .emailTaken(by: user)
    }
}
