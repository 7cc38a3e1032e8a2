package import Accounts
internal import Credentials
package import Wire

extension SQLStore {
    package func account(_ id: UUID) async throws(StoreFault) -> Account? {
        try await database.read(isBrief: true) { sql throws(SQLFault) in try sql.account(id) }
    }

    package func account(email: EmailAddress) async throws(StoreFault) -> Account? {
        try await database.read { sql throws(SQLFault) in try sql.account(email: email) }
    }

    package func credential(for name: SignInName) async throws(StoreFault) -> Credential? {
        try await database.read(isBrief: true) { sql throws(SQLFault) in
            let condition =
                switch name {
                case .email: "email_key = $1"
                case .username: "username_key = $1"
                }
            let found = try sql.rows(
                """
                SELECT id, password_hash, email_confirmed_at, email FROM accounts
                WHERE \(condition) AND password_hash IS NOT NULL LIMIT 2
                """,
                [.text(name.key)])
            guard found.count == 1, var row = found.first else { return nil }
            return Credential(
                user: try row.id(), hash: try row.text(), isEmailConfirmed: try row.optionalTime() != nil,
                email: try row.optionalText().map { EmailAddress(stored: $0) })
        }
    }

    package func signIns(of target: GuessTarget, limit: Int) async throws(StoreFault) -> [AuditEvent] {
        try await database.read { sql throws(SQLFault) in
            let condition =
                switch target {
                case .email: "email_key = $1"
                case .username: "username_key = $1"
                case .phone: "phone = $1"
                }
            let kinds = AddressHistory.kinds.map { "'\($0.rawValue)'" }.joined(separator: ", ")
            // An ambiguous username signs in to none of its accounts, so the choice does not matter.
            return try sql.auditEvents(
                "account = (SELECT id FROM accounts WHERE \(condition) LIMIT 1) AND kind IN (\(kinds))",
                [.text(target.key)], limit: limit)
        }
    }

    package func open(
        _ new: NewAccount, session: NewSession?, _ audit: AuditContext
    ) async throws(StoreFault) -> Opening {
        let row = new.email.map { LockedRow.contact($0.key) } ?? session.map { .session($0.id) }
        return try await database.write(locking: row) { sql throws(SQLFault) in
            if let joined = try sql.join(new, session: session, audit) { return joined }
            var account = new.account(now: audit.now)
            guard try sql.insert(account, passwordHash: new.passwordHash) else {
                return try sql.startAnew(new, session: session, audit)
            }
            try sql.dropCodes(of: account)
            let opened = try sql.openSession(session, of: &account, audit)
            try sql.logOpening(of: account, audit, session: opened?.id, detail: new.openedBy?.name ?? "operator")
            return .opened(account, opened)
        }
    }

    package func signIn(
        _ user: UUID, proof: PasswordProof, session: NewSession?, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn? {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            guard var account = try sql.lockedAccount(user), try sql.passwordHash(of: user) == proof.hash else { return nil }
            if let replacement = proof.replacement { try sql.setPasswordHash(replacement, of: user) }
            let opened = try sql.openSession(session?.signed(by: audit.carriedByPassword(of: account)), of: &account, audit)
            if let opened { try sql.log(.signedIn, user, audit, session: opened.id, detail: "password") }
            return SignIn(account: account, session: opened)
        }
    }

    package func setPassword(
        _ hash: String, of user: UUID, keeping session: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn? {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            guard var account = try sql.lockedAccount(user), let kept = try sql.lockedSession(session)?.0, kept.user == user
            else { return nil }
            try sql.setPassword(hash, of: &account, carrying: kept.carried, audit)
            let ended = try sql.endSessions(of: user, .passwordChanged, keeping: session, at: audit.now)
            try sql.log(.passwordChanged, user, audit, session: session)
            return SignIn(account: account, session: kept, ended: ended)
        }
    }
}

extension SQLTransaction {
    /// Writes the audit events of an account that was created with what it has.
    mutating func logOpening(of account: Account, _ audit: AuditContext, session: UUID? = nil, detail: String) throws(SQLFault) {
        try log(.accountOpened, account.id, audit, session: session, detail: detail)
        if account.emailConfirmedAt != nil { try log(.emailConfirmed, account.id, audit) }
        if let tier = account.entitlement.tier { try log(.tierChanged, account.id, audit, detail: tier) }
    }

    /// Replaces the password, and drops the codes and reset tokens sent before: they could undo the change.
    mutating func setPassword(
        _ hash: String, of account: inout Account, carrying carried: WallTime?, _ audit: AuditContext
    ) throws(SQLFault) {
        account.hasPassword = true
        account.carried.password = carried
        account.passwordSetAt = audit.now
        account.updatedAt = audit.now
        try update(account)
        try setPasswordHash(hash, of: account.id)
        try dropCodes(of: account)
        try notify(.passwordChanged, account, audit)
    }

    /// Replaces the account that has the email, if `SignUpRule` allows it.
    fileprivate mutating func startAnew(
        _ new: NewAccount, session: NewSession?, _ audit: AuditContext
    ) throws(SQLFault) -> Opening {
        guard let email = new.email, var account = try lockedAccount(email: email) else { return .emailTaken }
        guard SignUpRule.startsAnew(over: account, as: new, hasSessions: try hasSessions(account.id)) else {
            return .emailTaken
        }
        // `SignUpRule` has checked that there are no sessions to end.
        _ = try strip(&account, audit)
        account = new.anew(account, now: audit.now)
        try update(account)
        try setPasswordHash(new.passwordHash, of: account.id)
        if new.attributes != .none {
            account.attributes = new.attributes
            try setAttributes(new.attributes, of: account.id, at: audit.now)
        }
        let opened = try openSession(session, of: &account, audit)
        try log(
            .accountOpened, account.id, audit, session: opened?.id, detail: "\(new.openedBy?.name ?? "operator"), anew")
        return .opened(account, opened)
    }

    /// Signs a guest up; nil unless the caller is one and the email is no other account's.
    fileprivate mutating func join(_ new: NewAccount, session: NewSession?, _ audit: AuditContext) throws(SQLFault) -> Opening? {
        guard let email = new.email, try lockedAccount(email: email) == nil, let guest = try guest(new.guest, at: audit.now) else {
            return nil
        }
        var account = GuestRule.joined(guest, as: new, now: audit.now)
        try update(account)
        try setPasswordHash(new.passwordHash, of: account.id)
        try dropCodes(of: account)
        try add(new.attributes, to: &account, audit)
        let opened = try openSession(session, of: &account, audit)
        try log(.emailChanged, account.id, audit, session: opened?.id)
        try log(.passwordChanged, account.id, audit, session: opened?.id, detail: "sign-up of a guest")
        return .opened(account, opened)
    }

    private func hasSessions(_ account: UUID) throws(SQLFault) -> Bool {
        try first("SELECT id FROM sessions WHERE account = $1 LIMIT 1", [.id(account)]) != nil
    }

    fileprivate mutating func openSession(
        _ new: NewSession?, of account: inout Account, _ audit: AuditContext
    ) throws(SQLFault) -> Session? {
        if let new { return try open(new, of: &account, audit) }
        try admit(&account, audit)
        return nil
    }

    fileprivate func passwordHash(of account: UUID) throws(SQLFault) -> String? {
        guard var row = try first("SELECT password_hash FROM accounts WHERE id = $1", [.id(account)]) else { return nil }
        return try row.optionalText()
    }
}
