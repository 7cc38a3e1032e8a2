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
            guard try sql.holds(redemption, now: occasion.now) else { return .wrongCode }
            var kept: Session?
            if let caller = redemption.proof.caller {
                guard let session = try sql.callerSession(redemption), session.user == caller,
                    try sql.lockedAccount(caller) != nil
                else { return .refused(.callerGone) }
                kept = session
            }
            let holder = try sql.lockedAccount(of: redemption.recipient)
            let verdict = ContactProofRule.verdict(
                redemption.proof, holder: holder.map { ContactHolder($0, redemption.recipient) })
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
                "INSERT INTO reset_tokens (digest, email, email_key, expires_at) VALUES ($1, $2, $3, $4)",
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
            guard let email = try sql.useResetToken(digest, now: occasion.now),
                var account = try sql.lockedAccount(email: email)
            else { return nil }
            account.hasPassword = true
            account.emailConfirmedAt = account.emailConfirmedAt ?? occasion.now
            account.updatedAt = occasion.now
            try sql.update(account)
            try sql.setPasswordHash(hash, of: account.id)
            let ended = try sql.endSessions(of: account.id, .passwordChanged, at: occasion.now)
            let opened = try sql.open(session, of: account.id, at: occasion.now)
            try sql.log(.passwordReset, account.id, occasion, session: opened.id)
            return SignIn(account: account, session: opened, ended: ended)
        }
    }
}

extension SQLTransaction {
    fileprivate func put(_ code: PendingCode) throws(SQLFault) {
        try change(
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

    /// Whether the code is the right one; it is used up then, and else one try poorer.
    fileprivate func holds(_ redemption: CodeRedemption, now: WallTime) throws(SQLFault) -> Bool {
        let key: [SQLValue] = [.text(redemption.purpose.rawValue), .text(redemption.recipient.key)]
        let row = try locked(
            "SELECT digest, expires_at, tries_left FROM codes WHERE purpose = $1 AND recipient = $2", key)
        guard var row else { return false }
        let code = PendingCode(
            purpose: redemption.purpose, recipient: redemption.recipient.key, digest: try row.bytes(),
            expiresAt: try row.time(), triesLeft: try row.integer())
        let verdict = code.verdict(digest: redemption.digest, now: now)
        switch verdict {
        case .right, .dead: try change("DELETE FROM codes WHERE purpose = $1 AND recipient = $2", key)
        case .wrong:
            try change("UPDATE codes SET tries_left = tries_left - 1 WHERE purpose = $1 AND recipient = $2", key)
        }
        return verdict == .right
    }

    fileprivate func callerSession(_ redemption: CodeRedemption) throws(SQLFault) -> Session? {
        guard let id = redemption.callerSession else { return nil }
        return try session(id)
    }

    /// The email that a live reset token went to; it, and all others for that email, are used up.
    fileprivate func useResetToken(_ digest: [UInt8], now: WallTime) throws(SQLFault) -> EmailAddress? {
        let row = try locked(
            "SELECT email FROM reset_tokens WHERE digest = $1 AND expires_at > $2", [.bytes(digest), .time(now)])
        guard var row else { return nil }
        let email = EmailAddress(stored: try row.text())
        try change("DELETE FROM reset_tokens WHERE email_key = $1", [.text(email.key)])
        return email
    }
}
