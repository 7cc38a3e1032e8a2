package import Accounts
internal import Credentials
package import Wire

extension SQLStore {
    package func signIn(
        _ proof: IdentityProof, newUser: UUID, session: NewSession, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn {
        try await database.write(locking: .identity(proof.key)) { sql throws(SQLFault) in
            let linked = try sql.account(of: proof.key)
            let holder = try sql.holder(of: proof.verifiedEmail)
            let guest = linked == nil ? try sql.guest(proof.guest, at: audit.now)?.id : nil
            let verdict = IdentityRule.verdict(linked: linked, holder: holder, guest: guest)
            var new = NewAccount(id: newUser, openedBy: session.contract, email: proof.verifiedEmail)
            if verdict.opensAccount {
                guard let attributes = proof.opening else { return SignIn(account: new.account(now: audit.now), session: nil, isNew: true) }
                new.attributes = attributes
            }
            var signIn = try sql.lead(verdict, proof, new, audit)
            try sql.complete(&signIn.account, by: proof, emailIsFree: holder == nil, audit)
            signIn.session = try sql.open(session.signed(by: sql.carried(by: proof.key, audit)), of: &signIn.account, audit)
            if let code = proof.appleCode { try sql.put(code, of: signIn.account.id, proof.subject, at: audit.now) }
            try sql.log(
                .signedIn, signIn.account.id, audit, session: session.id, detail: proof.provider.rawValue)
            return signIn
        }
    }

    package func account(of identity: IdentityKey) async throws(StoreFault) -> Account? {
        try await database.read { sql throws(SQLFault) in
            try sql.account(of: identity).flatMap { id throws(SQLFault) in try sql.account(id) }
        }
    }

    package func identities(of user: UUID) async throws(StoreFault) -> [LinkedIdentity] {
        try await database.read { sql throws(SQLFault) in try sql.identities(of: user) }
    }
}

extension SQLTransaction {
    /// Sorted by provider and subject.
    func identities(of account: UUID) throws(SQLFault) -> [LinkedIdentity] {
        try rows(
            "SELECT provider, subject, linked_at FROM identities WHERE account = $1 ORDER BY provider, subject", [.id(account)]
        ) { row throws(SQLFault) in
            let key = IdentityKey(IdentitySource(stored: try row.text()), stored: try row.text())
            return LinkedIdentity(key: key, linkedAt: try row.time())
        }
    }

    /// The account that the identity is linked to.
    func account(of identity: IdentityKey) throws(SQLFault) -> UUID? {
        let row = try first(
            "SELECT account FROM identities WHERE provider = $1 AND subject = $2",
            [.text(identity.source.stored), .text(identity.subject)])
        guard var row else { return nil }
        return try row.id()
    }

    /// The sign-in that the identity carries.
    fileprivate func carried(by identity: IdentityKey, _ audit: AuditContext) throws(SQLFault) -> WallTime? {
        let row = try first(
            "SELECT carried_at, linked_at FROM identities WHERE provider = $1 AND subject = $2",
            [.text(identity.source.stored), .text(identity.subject)])
        guard var row else { return nil }
        return audit.counted(try row.optionalTime(), since: try row.time())
    }

    func holder(of email: EmailAddress?) throws(SQLFault) -> ContactHolder? {
        guard let email, let account = try lockedAccount(email: email) else { return nil }
        return ContactHolder(account, .email(email))
    }

    /// Applies a verdict; returns its account and the sessions that ended.
    fileprivate mutating func lead(
        _ verdict: IdentityVerdict, _ proof: IdentityProof, _ new: NewAccount, _ audit: AuditContext
    ) throws(SQLFault) -> SignIn {
        switch verdict {
        case .known(let user):
            let account = try present(user)
            // A concurrent take-over may have unlinked the identity.
            guard try self.account(of: proof.key) == user else { throw .conflict }
            return SignIn(account: account, session: nil)
        case .link(let user):
            let account = try present(user)
            try link(proof.key, to: user, carrying: audit.counted(account.carried.email, since: account.emailConfirmedAt), audit)
            try notify(.identityLinked, account, detail: proof.key.source.name, audit)
            return SignIn(account: account, session: nil)
        case .takeOver(let user):
            var account = try present(user)
            let ended = try takeOver(&account, audit)
            try link(proof.key, to: user, audit)
            return SignIn(account: account, session: nil, ended: ended)
        case .join(let guest):
            try link(proof.key, to: guest, audit)
            var account = try present(guest)
            try add(new.attributes, to: &account, audit)
            return SignIn(account: account, session: nil)
        case .create:
            return SignIn(account: try create(new, proof, audit), session: nil, isNew: true)
        }
    }

    private mutating func create(
        _ new: NewAccount, _ proof: IdentityProof, _ audit: AuditContext
    ) throws(SQLFault) -> Account {
        var account = new.account(now: audit.now)
        if account.email != nil { account.emailConfirmedAt = audit.now }
        // An account with the email was created concurrently, which changes the verdict.
        guard try insert(account, passwordHash: nil) else { throw .conflict }
        try dropCodes(of: account)
        try logOpening(of: account, audit, detail: proof.provider.rawValue)
        try link(proof.key, to: new.id, audit)
        return account
    }

    mutating func link(
        _ key: IdentityKey, to user: UUID, carrying carried: WallTime? = nil, _ audit: AuditContext
    ) throws(SQLFault) {
        let isNew =
            try change(
                key.source.isIssuer ? .identity : .unlogged,
                """
                INSERT INTO identities (provider, subject, account, linked_at, carried_at) VALUES ($1, $2, $3, $4, $5)
                ON CONFLICT DO NOTHING
                """,
                [.text(key.source.stored), .text(key.subject), .id(user), .time(audit.now), .time(carried)]) == 1
        guard isNew else { throw .conflict }
        try log(.identityLinked, user, audit, detail: key.source.name)
    }

    /// Adds the email and name of the proof that the account lacks.
    mutating func complete(
        _ account: inout Account, by proof: IdentityProof, emailIsFree: Bool, _ audit: AuditContext
    ) throws(SQLFault) {
        let before = account
        if account.email == nil, emailIsFree, let email = proof.verifiedEmail {
            account.email = email
            account.emailConfirmedAt = audit.now
            account.carried.email = try carried(by: proof.key, audit)
            try dropCodes(to: email.key)
        }
        if let name = proof.name, proof.nameRule.accepts(account, now: audit.now) { account.name = name }
        guard account != before else { return }
        account.updatedAt = audit.now
        try update(account)
        guard account.email != before.email else { return }
        try log(.emailChanged, account.id, audit)
        try log(.emailConfirmed, account.id, audit)
    }
}
