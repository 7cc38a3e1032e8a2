package import Accounts
package import Wire

extension SQLStore {
    package func putCode(_ code: PendingCode) async throws(StoreFault) -> Account? {
        try await database.write { sql throws(SQLFault) in
            try sql.put(code)
            let isPhone = code.purpose.isForPhones
            return try sql.account(
                of: isPhone ? .phone(PhoneNumber(stored: code.recipient)) : .email(EmailAddress(stored: code.recipient)))
        }
    }

    package func redeem(
        _ redemption: CodeRedemption, _ occasion: Occasion
    ) async throws(StoreFault) -> Redemption {
        try await database.write { sql throws(SQLFault) in
            guard let code = try sql.use(redemption, now: occasion.now) else { return .wrongCode }
            var kept: Session?
            if let caller = redemption.proof.caller {
                // The account first: whoever takes it over meanwhile ends its sessions before it can be changed here.
                guard try sql.lockedAccount(caller) != nil, let session = try sql.callerSession(redemption),
                    session.user == caller
                else { return .refused(.callerGone) }
                kept = session
            }
            let holder = try sql.lockedAccount(of: redemption.recipient)
            let verdict = ContactProofRule.verdict(
                redemption.proof, code: code, holder: holder.map { ContactHolder($0, redemption.recipient) })
            guard let (account, ended) = try sql.carryOut(verdict, redemption.recipient, occasion) else {
                return .refused(verdict.refusal ?? .noAccount)
            }
            var signIn = SignIn(account: account, session: nil, ended: ended)
            if let kept, kept.user == account.id, kept.contract == redemption.session.contract {
                signIn.session = kept
            } else {
                signIn.session = try sql.open(redemption.session, of: account.id, at: occasion.now)
                try sql.log(.signedIn, account.id, occasion, session: redemption.session.id, detail: "code")
            }
            return .proven(signIn)
        }
    }

    package func putResetToken(_ token: PendingReset) async throws(StoreFault) -> Account? {
        try await database.write { sql throws(SQLFault) in
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
        digest: [UInt8], hash: String, session: NewSession, _ occasion: Occasion
    ) async throws(StoreFault) -> SignIn? {
        try await database.write { sql throws(SQLFault) in
            guard let recipient = try sql.useResetToken(digest, now: occasion.now) else { return nil }
            let holder = try sql.lockedAccount(of: recipient)
            // Like a code for recovery, it was sent to whoever owns the email.
            let verdict = ContactProofRule.verdict(
                .signIn(caller: nil), code: .recovery, holder: holder.map { ContactHolder($0, recipient) })
            guard var (account, ended) = try sql.carryOut(verdict, recipient, occasion) else { return nil }
            try sql.setPassword(hash, of: &account, occasion)
            ended += try sql.endSessions(of: account.id, .passwordChanged, at: occasion.now)
            let opened = try sql.open(session, of: account.id, at: occasion.now)
            try sql.log(.passwordReset, account.id, occasion, session: opened.id)
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

    /// What the code was sent for, if it is the right one; it is used up then, and else every code of the recipient is one try
    /// poorer.
    fileprivate func use(_ redemption: CodeRedemption, now: WallTime) throws(SQLFault) -> CodePurpose? {
        let recipient = redemption.recipient.key
        let pending = try pendingCodes(of: recipient)
        switch CodeRule.verdict(redemption.guess, pending: pending, now: now) {
        case .right(let purpose):
            try drop(purpose, to: recipient)
            return purpose
        case .wrong(let left):
            // One by one: another that is stored meanwhile stays.
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

    /// Nobody else tries or drops them until this is over.
    private func pendingCodes(of recipient: String) throws(SQLFault) -> [PendingCode] {
        let found = try lockedRows(
            """
            SELECT purpose, digest, expires_at, tries_left FROM codes
            WHERE purpose IN (\(Self.purposes)) AND recipient = $1 ORDER BY purpose
            """, [.text(recipient)])
        var codes: [PendingCode] = []
        for var row in found {
            codes.append(
                PendingCode(
                    purpose: try row.word(CodePurpose.self), recipient: recipient, digest: try row.bytes(),
                    expiresAt: try row.time(), triesLeft: try row.integer()))
        }
        return codes
    }

    /// Drops the codes and reset tokens that were sent to an account.
    func dropCodes(of account: Account) throws(SQLFault) {
        for recipient in account.recipients { try dropCodes(to: recipient.key) }
    }

    /// An account gets its addresses without the codes and reset tokens that were sent there before: they may have gone to
    /// another mailbox, for what differs in case alone is the same address only once an account says how it is spelled.
    func dropCodes(to recipient: String) throws(SQLFault) {
        try change(.unlogged, "DELETE FROM reset_tokens WHERE email_key = $1", [.text(recipient)])
        try change(
            .unlogged, "DELETE FROM codes WHERE purpose IN (\(Self.purposes)) AND recipient = $1", [.text(recipient)])
    }

    /// All of them: codes are found by purpose and recipient.
    private static let purposes = CodePurpose.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")

    fileprivate func callerSession(_ redemption: CodeRedemption) throws(SQLFault) -> Session? {
        guard let id = redemption.callerSession else { return nil }
        return try session(id)
    }

    /// Where a live reset token went to; it, and all others for that email, are used up.
    fileprivate func useResetToken(_ digest: [UInt8], now: WallTime) throws(SQLFault) -> Recipient? {
        let row = try locked(
            "SELECT email FROM reset_tokens WHERE digest = $1 AND expires_at > $2", [.bytes(digest), .time(now)])
        guard var row else { return nil }
        let email = EmailAddress(stored: try row.text())
        try change(.unlogged, "DELETE FROM reset_tokens WHERE email_key = $1", [.text(email.key)])
        return .email(email)
    }
}
