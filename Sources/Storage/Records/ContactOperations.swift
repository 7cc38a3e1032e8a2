package import Accounts
package import Wire

extension SQLStore {
    package func putCode(_ code: PendingCode) async throws(StoreFault) -> Account? {
        try await database.write(locking: .contact(code.recipient)) { sql throws(SQLFault) in
            try sql.put(code)
            let isPhone = code.purpose.isForPhones
            return try sql.account(
                of: isPhone ? .phone(PhoneNumber(stored: code.recipient)) : .email(EmailAddress(stored: code.recipient)))
        }
    }

    package func redeem(
        _ redemption: CodeRedemption, _ audit: AuditContext
    ) async throws(StoreFault) -> Redemption {
        try await database.write(locking: .contact(redemption.recipient.key)) { sql throws(SQLFault) in
            guard let code = try sql.use(redemption, now: audit.now) else { return .wrongCode }
            var kept: Session?
            if let caller = redemption.proof.caller {
                // Locks the account first: a concurrent take-over ends its sessions before this transaction can change it.
                guard try sql.lockedAccount(caller) != nil, let session = try sql.callerSession(redemption),
                    session.user == caller
                else { return .refused(.callerGone) }
                kept = session
            }
            let holder = try sql.lockedAccount(of: redemption.recipient)
            let verdict = ContactProofRule.verdict(
                redemption.proof, code: code, holder: holder.map { ContactHolder($0, redemption.recipient) })
            guard let (account, ended) = try sql.carryOut(verdict, redemption.recipient, by: kept, audit) else {
                return .refused(verdict.refusal ?? .noAccount)
            }
            var signIn = SignIn(account: account, session: nil, ended: ended)
            let carried = audit.carried(by: redemption.recipient, of: account)
            if let kept, kept.user == account.id, kept.contract == redemption.session.contract {
                signIn.session = kept
                if verdict.isSignIn(by: redemption.proof) {
                    signIn.session = try sql.renewSignIn(of: kept, as: redemption.session, by: carried, at: audit.now)
                }
            } else {
                signIn.session = try sql.open(redemption.session.signed(by: carried), of: &signIn.account, audit)
                try sql.log(.signedIn, account.id, audit, session: redemption.session.id, detail: "code")
            }
            return .proven(signIn)
        }
    }

    package func putResetToken(_ token: PendingReset) async throws(StoreFault) -> Account? {
        try await database.write(locking: .contact(token.email.key)) { sql throws(SQLFault) in
            try sql.change(
                .unlogged, "INSERT INTO reset_tokens (digest, email, email_key, expires_at) VALUES ($1, $2, $3, $4)",
                [.bytes(token.digest), .text(token.email.text), .text(token.email.key), .time(token.expiresAt)])
            return try sql.account(email: token.email)
        }
    }

    package func holdsResetToken(digest: [UInt8], now: WallTime) async throws(StoreFault) -> Bool {
        try await database.read { sql throws(SQLFault) in
            try sql.first(
                "SELECT email FROM reset_tokens WHERE digest = $1 AND expires_at > $2", [.bytes(digest), .time(now)])
                != nil
        }
    }

    package func resetPassword(
        digest: [UInt8], hash: String, session: NewSession, _ audit: AuditContext
    ) async throws(StoreFault) -> SignIn? {
        // An account may have several tokens, which are one way of naming it.
        let key = try await database.read { sql throws(SQLFault) in
            var row = try sql.first("SELECT email_key FROM reset_tokens WHERE digest = $1", [.bytes(digest)])
            return try row?.text()
        }
        guard let key else { return nil }
        return try await database.write(locking: .contact(key)) { sql throws(SQLFault) in
            guard let recipient = try sql.useResetToken(digest, now: audit.now) else { return nil }
            let holder = try sql.lockedAccount(of: recipient)
            // A reset token proves the email as a recovery code does.
            let verdict = ContactProofRule.verdict(
                .signIn(caller: nil), code: .recovery, holder: holder.map { ContactHolder($0, recipient) })
            guard var (account, ended) = try sql.carryOut(verdict, recipient, by: nil, audit) else { return nil }
            let carried = audit.carried(by: recipient, of: account)
            try sql.setPassword(hash, of: &account, carrying: carried, audit)
            ended += try sql.endSessions(of: account.id, .passwordChanged, at: audit.now)
            let opened = try sql.open(session.signed(by: carried), of: &account, audit)
            try sql.log(.passwordReset, account.id, audit, session: opened.id)
            return SignIn(account: account, session: opened, ended: ended)
        }
    }
}

extension SQLTransaction {
    fileprivate func put(_ code: PendingCode) throws(SQLFault) {
        try change(
            .unlogged,
            """
            INSERT INTO codes (purpose, recipient, digest, expires_at, tries_left) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (purpose, recipient) DO UPDATE
            SET digest = excluded.digest, expires_at = excluded.expires_at, tries_left = excluded.tries_left
            """,
            [
                .text(code.purpose.rawValue), .text(code.recipient), .bytes(code.digest), .time(code.expiresAt),
                .integer(code.triesLeft),
            ])
    }

    /// Spends the code and returns its purpose, if it is right; otherwise takes one try from every code of the recipient.
    fileprivate func use(_ redemption: CodeRedemption, now: WallTime) throws(SQLFault) -> CodePurpose? {
        let recipient = redemption.recipient.key
        let pending = try pendingCodes(of: recipient)
        switch CodeRule.verdict(redemption.guess, pending: pending, now: now) {
        case .right(let purpose):
            try drop(purpose, to: recipient)
            return purpose
        case .wrong(let left):
            // One by one: a code stored concurrently is kept.
            for code in pending where !left.contains(where: { $0.purpose == code.purpose }) {
                try drop(code.purpose, to: recipient)
            }
            for code in left { try put(code) }
            return nil
        }
    }

    private func drop(_ purpose: CodePurpose, to recipient: String) throws(SQLFault) {
        try change(
            .unlogged, "DELETE FROM codes WHERE purpose = $1 AND recipient = $2",
            [.text(purpose.rawValue), .text(recipient)])
    }

    /// The pending codes, locked until the transaction ends.
    private func pendingCodes(of recipient: String) throws(SQLFault) -> [PendingCode] {
        try rows(
            """
            SELECT purpose, digest, expires_at, tries_left FROM codes
            WHERE purpose IN (\(Self.purposes)) AND recipient = $1 ORDER BY purpose\(dialect.lockClause)
            """, [.text(recipient)]
        ) { row throws(SQLFault) in
            PendingCode(
                purpose: try row.word(CodePurpose.self), recipient: recipient, digest: try row.bytes(),
                expiresAt: try row.time(), triesLeft: try row.integer())
        }
    }

    /// Drops the codes and reset tokens sent to an account.
    func dropCodes(of account: Account) throws(SQLFault) {
        for recipient in account.recipients { try dropCodes(to: recipient.key) }
    }

    /// Drops the codes and reset tokens sent to an address before an account got it. They may have gone to another mailbox:
    /// addresses that differ in case are equal here, and the account's spelling decides where mail goes.
    func dropCodes(to recipient: String) throws(SQLFault) {
        try change(.unlogged, "DELETE FROM reset_tokens WHERE email_key = $1", [.text(recipient)])
        try change(
            .unlogged, "DELETE FROM codes WHERE purpose IN (\(Self.purposes)) AND recipient = $1", [.text(recipient)])
    }

    /// All purposes, because the primary key begins with the purpose.
    private static let purposes = CodePurpose.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")

    fileprivate func callerSession(_ redemption: CodeRedemption) throws(SQLFault) -> Session? {
        guard let id = redemption.callerSession else { return nil }
        return try session(id)?.0
    }

    /// Spends a valid reset token and all others of its email; returns the email that it was sent to.
    fileprivate func useResetToken(_ digest: [UInt8], now: WallTime) throws(SQLFault) -> Recipient? {
        let row = try locked(
            "SELECT email FROM reset_tokens WHERE digest = $1 AND expires_at > $2", [.bytes(digest), .time(now)])
        guard var row else { return nil }
        let email = EmailAddress(stored: try row.text())
        try change(.unlogged, "DELETE FROM reset_tokens WHERE email_key = $1", [.text(email.key)])
        return .email(email)
    }
}
