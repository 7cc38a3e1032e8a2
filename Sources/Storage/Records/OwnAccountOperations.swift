package import Accounts
internal import Credentials
package import Wire

extension SQLStore {
    package func link(
        _ proof: IdentityProof, by session: CallerSession, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<Account, LinkRefusal> {
        try await database.write(locking: .identity(proof.key)) { sql throws(SQLFault) in
            guard var account = try sql.lockedAccount(session.user), let open = try sql.lockedSession(session.session)?.0,
                open.user == account.id
            else { return .failure(.sessionEnded) }
            switch try sql.account(of: proof.key) {
            case account.id?: break
            case _?: return .failure(.ofOtherAccount)
            case nil:
                try sql.link(proof.key, to: account.id, carrying: open.carried, audit)
                try sql.notify(.identityLinked, account, detail: proof.key.source.name, audit)
            }
            if let code = proof.appleCode { try sql.put(code, of: account.id, proof.subject, at: audit.now) }
            try sql.complete(&account, by: proof, emailIsFree: try sql.holder(of: proof.verifiedEmail) == nil, audit)
            return .success(account)
        }
    }

    package func unlink(
        _ source: IdentitySource, by session: CallerSession, _ ways: SignInWays, _ audit: AuditContext
    ) async throws(StoreFault) -> Result<Void, UnlinkRefusal> {
        try await database.write(locking: .account(session.user)) { sql throws(SQLFault) in
            guard let account = try sql.lockedAccount(session.user), let open = try sql.lockedSession(session.session)?.0,
                open.user == account.id
            else { return .failure(.sessionEnded) }
            let linked = try sql.identities(of: account.id).map(\.key)
            let leaving = linked.filter { $0.source == source }
            guard !leaving.isEmpty else { return .failure(.notLinked) }
            guard ways.lead(to: account, identities: linked.filter { $0.source != source }) else { return .failure(.last) }
            for key in leaving { try sql.unlink(key, from: account.id, audit) }
            // Sessions do not know by which identity they were opened.
            _ = try sql.endSessions(of: account.id, keeping: session.session, .identityUnlinked, audit)
            try sql.notify(.identityUnlinked, account, detail: source.name, audit)
            return .success(())
        }
    }

    package func endSessions(
        of user: UUID, keeping session: UUID, _ reason: EndReason, _ audit: AuditContext
    ) async throws(StoreFault) -> [EndedSession] {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            try sql.endSessions(of: user, keeping: session, reason, audit)
        }
    }

    package func saw(_ uses: [SessionUse]) async throws(StoreFault) {
        try await database.write(isDurable: false) { sql throws(SQLFault) in
            // As `confirm`.
            let updates = uses.sorted { $0.session < $1.session }.map { use in
                SQLStatement(
                    "UPDATE sessions SET seen_at = $2 WHERE id = $1 AND last_used_at < $2 AND (seen_at IS NULL OR seen_at < $2)",
                    [.id(use.session), .time(use.at)])
            }
            _ = try sql.firsts(updates)
        }
    }

    package func devices(of user: UUID) async throws(StoreFault) -> [KnownDevice] {
        try await database.read { sql throws(SQLFault) in
            try sql.rows(
                """
                SELECT device, first_seen_at, last_seen_at FROM account_devices WHERE account = $1
                ORDER BY last_seen_at DESC, device
                """, [.id(user)]
            ) { row throws(SQLFault) in
                KnownDevice(label: try row.text(), firstSeenAt: try row.time(), lastSeenAt: try row.time())
            }
        }
    }

    package func guessTarget(_ target: GuessTarget) async throws(StoreFault) -> GuessTarget {
        try await database.read(isBrief: true) { sql throws(SQLFault) in
            let condition =
                switch target {
                case .email: "email_key = $1"
                // As for `credential(for:)`.
                case .username: "username_key = $1 AND password_hash IS NOT NULL"
                case .phone: "phone = $1"
                }
            let found = try sql.rows("SELECT email, phone FROM accounts WHERE \(condition) LIMIT 2", [.text(target.key)])
            guard found.count == 1, var row = found.first else { return target }
            if let email = try row.optionalText() { return .email(EmailAddress(stored: email)) }
            return try row.optionalText().map { .phone(PhoneNumber(stored: $0)) } ?? target
        }
    }
}

extension SQLTransaction {
    /// Remembers the device of a session; returns whether its account has been on others, and never on this one.
    func meet(_ device: String, of account: UUID, at now: WallTime) throws(SQLFault) -> Bool {
        let known = try first(
            "SELECT COUNT(*), COUNT(CASE WHEN device = $2 THEN 1 END) FROM account_devices WHERE account = $1",
            [.id(account), .text(device)])
        guard var known else { return false }
        let (count, same) = (try known.count(), try known.count())
        try change(
            .unlogged,
            """
            INSERT INTO account_devices (account, device, first_seen_at, last_seen_at) VALUES ($1, $2, $3, $3)
            ON CONFLICT (account, device) DO UPDATE SET last_seen_at = excluded.last_seen_at
            """,
            [.id(account), .text(device), .time(now)])
        guard same == 0 else { return false }
        guard count > 0 else {
            // The account may be older than the list of its devices.
            let labels = try sessions(of: account).map { $0.deviceLabel ?? "" }
            for label in Set(labels).subtracting([device]).sorted() { _ = try meet(label, of: account, at: now) }
            return !labels.isEmpty && !labels.contains(device)
        }
        if count >= KnownDevice.most {
            try change(
                .unlogged,
                """
                DELETE FROM account_devices WHERE account = $1 AND device = (
                    SELECT device FROM account_devices WHERE account = $1 AND device <> $2 ORDER BY last_seen_at, device LIMIT 1)
                """,
                [.id(account), .text(device)])
        }
        return true
    }

    /// Unlinks an identity of a provider from its account, which the transaction has locked.
    mutating func unlink(_ key: IdentityKey, from account: UUID, _ audit: AuditContext) throws(SQLFault) {
        let values: [SQLValue] = [.text(key.source.stored), .text(key.subject), .id(account)]
        try change(.identity, "DELETE FROM identities WHERE provider = $1 AND subject = $2 AND account = $3", values)
        if key.source == IdentitySource(.apple) { try revokeAppleTokens(of: account, subject: key.subject, at: audit.now) }
        try log(.identityUnlinked, account, audit, detail: key.source.name)
    }

    /// Ends all sessions of an account but `kept`, and logs that.
    mutating func endSessions(
        of account: UUID, keeping kept: UUID?, _ reason: EndReason, _ audit: AuditContext
    ) throws(SQLFault) -> [EndedSession] {
        let ended = try endSessions(of: account, reason, keeping: kept, at: audit.now)
        for session in ended { try log(.sessionEnded, account, audit, session: session.id, detail: reason.rawValue) }
        return ended
    }
}
