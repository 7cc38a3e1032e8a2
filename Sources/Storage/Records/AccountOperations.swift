package import Accounts
package import Wire

extension SQLStore {
    package func account(_ id: UUID) async throws(StoreFault) -> Account? {
        try await database.read { sql throws(SQLFault) in try sql.account(id) }
    }

    package func account(email: EmailAddress) async throws(StoreFault) -> Account? {
        try await database.read { sql throws(SQLFault) in try sql.account(email: email) }
    }

    package func credential(for name: SignInName) async throws(StoreFault) -> Credential? {
        try await database.read { sql throws(SQLFault) in
            let condition =
                switch name {
                case .email: "email_key = $1"
                case .username: "username_key = $1"
                }
            let found = try sql.rows(
                """
                SELECT id, password_hash, email_confirmed_at FROM accounts
                WHERE \(condition) AND password_hash IS NOT NULL LIMIT 2
                """,
                [.text(name.key)])
            guard found.count == 1, var row = found.first else { return nil }
            return Credential(user: try row.id(), hash: try row.text(), isEmailConfirmed: try row.optionalTime() != nil)
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
            // A username that several accounts have signs in to none of them, so any will do.
            return try sql.auditEvents(
                "account = (SELECT id FROM accounts WHERE \(condition) LIMIT 1) AND kind IN (\(kinds))",
                .text(target.key), limit: limit)
        }
    }

    package func open(
        _ new: NewAccount, session: NewSession?, _ occasion: Occasion
    ) async throws(StoreFault) -> Opening {
        try await database.write { sql throws(SQLFault) in
            let account = new.account(now: occasion.now)
            guard try sql.insert(account, passwordHash: new.passwordHash) else {
                return try sql.startAnew(new, session: session, occasion)
            }
            try sql.dropCodes(of: account)
            let opened = try sql.openSession(session, of: account.id, occasion)
            try sql.log(
                .accountOpened, account.id, occasion, session: opened?.id, detail: new.openedBy?.name ?? "operator")
            if account.emailConfirmedAt != nil { try sql.log(.emailConfirmed, account.id, occasion) }
            if let tier = new.tier { try sql.log(.tierChanged, account.id, occasion, detail: tier) }
            return .opened(account, opened)
        }
    }

    package func signIn(
        _ user: UUID, proof: PasswordProof, session: NewSession?, _ occasion: Occasion
    ) async throws(StoreFault) -> SignIn? {
        try await database.write { sql throws(SQLFault) in
            guard let account = try sql.lockedAccount(user), try sql.passwordHash(of: user) == proof.hash else { return nil }
            if let replacement = proof.replacement { try sql.setPasswordHash(replacement, of: user) }
            let opened = try sql.openSession(session, of: user, occasion)
            if let opened { try sql.log(.signedIn, user, occasion, session: opened.id, detail: "password") }
            return SignIn(account: account, session: opened)
        }
    }

    package func setPassword(
        _ hash: String, of user: UUID, keeping session: UUID, _ occasion: Occasion
    ) async throws(StoreFault) -> SignIn? {
        try await database.write { sql throws(SQLFault) in
            guard var account = try sql.lockedAccount(user), let kept = try sql.lockedSession(session), kept.user == user
            else { return nil }
            try sql.setPassword(hash, of: &account, occasion)
            let ended = try sql.endSessions(of: user, .passwordChanged, keeping: session, at: occasion.now)
            try sql.log(.passwordChanged, user, occasion, session: session)
            return SignIn(account: account, session: kept, ended: ended)
        }
    }
}

extension SQLTransaction {
    /// Replaces the password. What was sent before it ends with the older one: it could undo the change.
    func setPassword(_ hash: String, of account: inout Account, _ occasion: Occasion) throws(SQLFault) {
        account.hasPassword = true
        account.updatedAt = occasion.now
        try update(account)
        try setPasswordHash(hash, of: account.id)
        try dropCodes(of: account)
    }

    /// Begins the account that has the email again, if `SignUpRule` lets it.
    fileprivate mutating func startAnew(
        _ new: NewAccount, session: NewSession?, _ occasion: Occasion
    ) throws(SQLFault) -> Opening {
        guard let email = new.email, var account = try lockedAccount(email: email) else { return .emailTaken }
        guard SignUpRule.startsAnew(over: account, as: new, hasSessions: try hasSessions(account.id)) else {
            return .emailTaken
        }
        // No session is left to end.
        _ = try strip(&account, occasion)
        account = new.anew(account, now: occasion.now)
        try update(account)
        try setPasswordHash(new.passwordHash, of: account.id)
        let opened = try openSession(session, of: account.id, occasion)
        try log(
            .accountOpened, account.id, occasion, session: opened?.id, detail: "\(new.openedBy?.name ?? "operator"), anew")
        return .opened(account, opened)
    }

    private func hasSessions(_ account: UUID) throws(SQLFault) -> Bool {
        try first("SELECT id FROM sessions WHERE account = $1 LIMIT 1", [.id(account)]) != nil
    }

    fileprivate func openSession(
        _ new: NewSession?, of account: UUID, _ occasion: Occasion
    ) throws(SQLFault) -> Session? {
        guard let new else { return nil }
        return try open(new, of: account, at: occasion.now)
    }

    fileprivate func passwordHash(of account: UUID) throws(SQLFault) -> String? {
        guard var row = try first("SELECT password_hash FROM accounts WHERE id = $1", [.id(account)]) else { return nil }
        return try row.optionalText()
    }
}
