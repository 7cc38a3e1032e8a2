package import Accounts
internal import Credentials
package import Wire

extension SQLStore {
    package func accounts(after: UUID?, limit: Int) async throws(StoreFault) -> [Account] {
        try await database.read { sql throws(SQLFault) in try sql.accounts(after: after, limit: limit) }
    }

    package func delete(_ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> [EndedSession]? {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            try sql.lockPurchases()
            guard let account = try sql.lockedAccount(user) else { return nil }
            return try sql.erase(account, audit)
        }
    }

    package func standing(of user: UUID) async throws(StoreFault) -> AccountStanding? {
        try await database.read { sql throws(SQLFault) in
            let query = """
                SELECT tier_version, tier, tier_until, grants, email, email_confirmed_at, \(SQLTransaction.standingColumns)
                FROM accounts WHERE id = $1
                """
            if var row = try sql.first(query, [.id(user)]) { return try row.standing(version: try row.integer()) }
            return try sql.wasDeleted(.ofID(user)) ? .erased : nil
        }
    }

    package func entitlement(of identity: IdentityKey) async throws(StoreFault) -> Entitlement? {
        try await database.read { sql throws(SQLFault) in
            try sql.entitlement(
                """
                SELECT a.tier_version, a.tier, a.tier_until, a.grants FROM identities i JOIN accounts a ON a.id = i.account
                WHERE i.provider = $1 AND i.subject = $2
                """,
                [.text(identity.source.stored), .text(identity.subject)])
        }
    }

    package func setTier(
        _ tier: String?, until: WallTime?, of user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Entitlement? {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in try sql.setTier(tier, until: until, of: user, audit) }
    }

    package func setTier(
        _ tier: String?, until: WallTime?, of identity: IdentityKey, newUser: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Account {
        try await database.write { sql throws(SQLFault) in
            guard let user = try sql.account(of: identity) else {
                return try sql.open(identity, tier, until: until, newUser: newUser, audit)
            }
            // Deleted by another gateway a moment ago.
            guard try sql.setTier(tier, until: until, of: user, audit) != nil else { throw .conflict }
            return try sql.present(user)
        }
    }

    package func forget(_ identity: IdentityKey) async throws(StoreFault) {
        try await database.write { sql throws(SQLFault) in try sql.logChange(of: identity) }
    }

    package func auditEvents(of user: UUID?, before: UUID?, limit: Int) async throws(StoreFault) -> [AuditEvent] {
        let before = before ?? UUID(high: .max, low: .max)
        return try await database.read { sql throws(SQLFault) in
            guard let user else { return try sql.auditEvents("id < $1", [.id(before)], limit: limit) }
            return try sql.auditEvents("id < $1 AND account = $2", [.id(before), .id(user)], limit: limit)
        }
    }

    package func sweep(now: WallTime, stride: Int64) async throws(StoreFault) -> [UntakenMerge] {
        let (swept, dialect) = try await database.write { sql throws(SQLFault) in (try sql.sweepTime(now, stride: stride), sql.dialect) }
        func before(_ seconds: Int64) -> SQLValue { .time(swept.advanced(seconds: -seconds)) }
        // A query of its own is evaluated once; a clock that may differ from row to row could use no index.
        let unlogged = "(SELECT \(dialect.clock) - \(SQLTransaction.keptMicroseconds))"
        let ended = "ended_at < $1 AND (expires_at IS NULL OR expires_at <= $2)"
        // Access tokens outlive the session's last refresh and must stay revocable until they expire.
        let oldestDeadline = swept.advanced(seconds: -SessionPolicy.maxAccessSeconds)
        try await sweep { sql, rows throws(SQLFault) in try sql.sweepSessions(through: oldestDeadline, atMost: rows) }
        for (table, condition, values) in [
            ("ended_sessions", ended, [before(SQLTransaction.keptSeconds), before(0)]),
            ("codes", "expires_at <= $1", [before(0)]), ("reset_tokens", "expires_at <= $1", [before(0)]),
            ("merged_accounts", "merged_at <= $1", [before(Merge.aliasSeconds)]), ("notices", "at <= $1", [before(Notice.keptSeconds)]),
            // Their age refuses them at every gateway, whose clocks differ a little.
            ("spent_proofs", "ends_at <= $1", [before(60)]),
            ("live_switches", "expires_at < (SELECT \(dialect.clock))", []), ("leases", "ends_at <= (SELECT \(dialect.clock))", []),
            ("changes", "at < \(unlogged)", []),
            // Of gateways that have not ended by themselves.
            ("gateways", "seen_at < \(unlogged)", []),
            ("store_events", "received_at < $1", [before(KeptStoreEvent.keptSeconds)]),
        ] + (dialect.commitMarks.isEmpty ? [] : [("commit_marks", "at < \(unlogged)", [])]) {
            try await sweep { sql, rows throws(SQLFault) in try sql.deleteSome(of: table, where: condition, values, atMost: rows) }
        }
        let oldestAddress = swept.advanced(seconds: -AuditEvent.addressSeconds)
        try await sweep { sql, rows throws(SQLFault) in try sql.eraseAddresses(before: oldestAddress, atMost: rows) }
        try await sweepEvents(now: swept)
        return try await database.write { sql throws(SQLFault) in try sql.endMerges(at: swept) }
    }

    /// Changes old rows, of which `some` changes as many as a transaction may: others write in between. A lost one is made up for by the
    /// next sweep.
    private func sweep(_ some: @escaping @Sendable (SQLTransaction, Int) throws(SQLFault) -> Int) async throws(StoreFault) {
        var portion = SweepPortion()
        repeat {
            let rows = portion.rows
            let (changed, time) = try await database.write(isDurable: false) { sql throws(SQLFault) in
                let begin = ContinuousClock.now
                return (try some(sql, rows), ContinuousClock.now - begin)
            }
            portion.note(changed, in: time)
        } while !portion.isLast
    }
}

extension SQLTransaction {
    fileprivate func entitlement(_ query: String, _ values: [SQLValue]) throws(SQLFault) -> Entitlement? {
        guard var row = try first(query, values) else { return nil }
        return try row.entitlement()
    }

    fileprivate mutating func setTier(
        _ tier: String?, until: WallTime?, of user: UUID, _ audit: AuditContext
    ) throws(SQLFault) -> Entitlement? {
        let rows = try changing(
            .account(user),
            """
            UPDATE accounts SET tier = $2, tier_until = $3, tier_version = tier_version + 1, tier_changed_at = $4,
                updated_at = $4 WHERE id = $1 RETURNING tier_version, tier, tier_until, grants
            """,
            [.id(user), .text(tier), .time(until), .time(audit.now)])
        guard var row = rows.first else { return nil }
        try log(.tierChanged, user, audit, detail: tier)
        return try row.entitlement()
    }

    /// Makes the account of an outside issuer's subject. Where one was deleted, the new one has a tier, and the subject stays refused.
    fileprivate mutating func open(
        _ identity: IdentityKey, _ tier: String?, until: WallTime?, newUser: UUID, _ audit: AuditContext
    ) throws(SQLFault) -> Account {
        let account = Account(bare: newUser, tier: tier, until: until, now: audit.now)
        guard try insert(account, passwordHash: nil) else { throw .conflict }
        try logOpening(of: account, audit, detail: "operator")
        try link(identity, to: account.id, audit)
        if try wasDeleted(identity) { try detach(account.id, at: audit.now) }
        return account
    }
}
