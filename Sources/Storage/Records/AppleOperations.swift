package import Accounts
package import Wire

extension SQLStore {
    static let appleTokens = OutgoingTable(
        queue: .appleTokens, columns: "id, client, sealed, is_code, revoked_at, tries", due: "next_at", tries: "tries",
        since: "COALESCE(revoked_at, kept_at)", schedule: .appleTokens,
        ends: [
            ("revoked_at", OutgoingSchedule.appleTokens.lastSeconds), ("CASE is_code WHEN 1 THEN kept_at END", 2 * AppleToken.codeSeconds),
        ],
        giveUp: "DELETE FROM apple_tokens")

    package func claimAppleTokens(at now: WallTime, limit: Int) async throws(StoreFault) -> [AppleToken] {
        try await claim(Self.appleTokens, at: now, limit: limit) { row throws(SQLFault) in
            var token = AppleToken(id: try row.id(), client: try row.text(), sealed: try row.bytes())
            token.isCode = try row.flag()
            token.isRevoked = try row.optionalTime() != nil
            token.tries = try row.count()
            return token
        }
    }

    package func replaceCode(_ token: AppleToken, by sealed: [UInt8], at now: WallTime) async throws(StoreFault) {
        try await database.write { sql throws(SQLFault) in
            // It may have been revoked since.
            try sql.change(
                .unlogged,
                """
                UPDATE apple_tokens SET sealed = $2, is_code = 0, tries = 0, next_at = CASE WHEN revoked_at IS NOT NULL THEN CAST($3 AS BIGINT) END
                WHERE id = $1
                """,
                [.id(token.id), .bytes(sealed), .time(now)])
            try sql.change(
                .unlogged,
                """
                DELETE FROM apple_tokens WHERE is_code = 0 AND revoked_at IS NULL AND id <> $1
                AND (account, subject, client) = (SELECT account, subject, client FROM apple_tokens WHERE id = $1)
                """,
                [.id(token.id)])
        }
    }

    package func drop(_ token: AppleToken) async throws(StoreFault) {
        try await database.write { sql throws(SQLFault) in
            _ = try sql.change(.unlogged, "DELETE FROM apple_tokens WHERE id = $1", [.id(token.id)])
        }
    }

    package func apply(
        _ notice: AppleNotice, _ ways: SignInWays, _ rule: DeletionRule, _ audit: AuditContext
    ) async throws(StoreFault) -> Bool {
        try await database.write(locking: .identity(notice.key)) { sql throws(SQLFault) in
            guard let user = try sql.account(of: notice.key) else { return false }
            let account = try sql.present(user)
            switch notice.kind {
            case .mailStopped(let email), .mailResumed(let email):
                guard account.email?.key == email.key else { return false }
                let stops = notice.kind == .mailStopped(email)
                return try sql.stopMail(stops, to: user, at: notice.at)
            case .consentRevoked:
                try sql.dropAppleTokens(of: user, notice.subject)
                try sql.endSessions(before: notice, of: user, audit)
            case .accountDeleted: return try sql.unlink(notice, from: account, ways, rule, audit)
            }
            return true
        }
    }
}

extension SQLTransaction {
    /// Keeps the code of a sign-in until it is exchanged, in place of an older one.
    func put(_ code: AppleToken, of account: UUID, _ subject: String, at now: WallTime) throws(SQLFault) {
        try change(
            .unlogged,
            "DELETE FROM apple_tokens WHERE account = $1 AND subject = $2 AND client = $3 AND is_code = 1 AND revoked_at IS NULL",
            [.id(account), .text(subject), .text(code.client)])
        try change(
            .unlogged,
            """
            INSERT INTO apple_tokens (id, account, subject, client, sealed, is_code, kept_at, next_at, tries)
            VALUES ($1, $2, $3, $4, $5, 1, $6, $6, 0)
            """,
            [.id(code.id), .id(account), .text(subject), .text(code.client), .bytes(code.sealed), .time(now)])
    }

    /// Has Apple revoke the tokens of an account, or of one of its identities alone, which is closed or unlinked by the transaction. The
    /// store keeps them until that is done, also after the account.
    func revokeAppleTokens(of account: UUID, subject: String? = nil, at now: WallTime) throws(SQLFault) {
        try change(
            .unlogged,
            """
            UPDATE apple_tokens SET revoked_at = $2, next_at = CASE WHEN is_code = 1 THEN next_at ELSE $2 END, tries = 0
            WHERE account = $1 AND revoked_at IS NULL AND ($3 = '' OR subject = $3)
            """,
            [.id(account), .time(now), .text(subject ?? "")])
    }

    /// Forgets those that Apple takes no more.
    fileprivate func dropAppleTokens(of account: UUID, _ subject: String) throws(SQLFault) {
        try change(.unlogged, "DELETE FROM apple_tokens WHERE account = $1 AND subject = $2", [.id(account), .text(subject)])
    }

    fileprivate func stopMail(_ stops: Bool, to account: UUID, at time: WallTime) throws(SQLFault) -> Bool {
        try change(
            .account(account),
            stops
                ? "UPDATE accounts SET mail_stopped_at = $2 WHERE id = $1 AND mail_stopped_at IS NULL"
                : "UPDATE accounts SET mail_stopped_at = NULL WHERE id = $1 AND mail_stopped_at <= $2",
            [.id(account), .time(time)]) == 1
    }

    /// Ends the sessions that an account had when the notice was made.
    fileprivate mutating func endSessions(before notice: AppleNotice, of user: UUID, _ audit: AuditContext) throws(SQLFault) {
        for session in try sessions(of: user) where notice.isAbout(session.createdAt) {
            guard try end(session.id, .revoked, at: audit.now) != nil else { continue }
            try log(.sessionEnded, user, audit, session: session.id, detail: "Apple")
        }
    }

    /// Unlinks an identity whose account at Apple is deleted, and closes the account here if nothing is left to sign in with.
    fileprivate mutating func unlink(
        _ notice: AppleNotice, from account: Account, _ ways: SignInWays, _ rule: DeletionRule, _ audit: AuditContext
    ) throws(SQLFault) -> Bool {
        let user = account.id
        let unlinked = try change(
            .unlogged, "DELETE FROM identities WHERE provider = $1 AND subject = $2 AND linked_at <= $3",
            [.text(notice.key.source.stored), .text(notice.subject), .time(notice.at.advanced(seconds: 60))])
        guard unlinked == 1 else { return false }
        try dropAppleTokens(of: user, notice.subject)
        try log(.identityUnlinked, user, audit, detail: notice.key.source.name)
        try endSessions(before: notice, of: user, audit)
        let isLinked = try first("SELECT subject FROM identities WHERE account = $1 LIMIT 1", [.id(user)]) != nil
        if !isLinked, !ways.lead(to: account, identities: [], relay: false), account.erasedAt == nil {
            try close(account, until: audit.now.advanced(seconds: rule.graceSeconds), audit)
        }
        return true
    }
}
