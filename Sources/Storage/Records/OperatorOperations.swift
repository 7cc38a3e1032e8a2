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
        let swept = try await database.write { sql throws(SQLFault) in
            let now = try sql.sweepTime(now, stride: stride)
            let oldest = now.advanced(seconds: -SessionPolicy.maxAccessSeconds)
            let oldestEnd = now.advanced(seconds: -SQLTransaction.keptSeconds)
            // Access tokens outlive the session's last refresh and must stay revocable until they expire.
            try sql.change(.unlogged, "DELETE FROM sessions WHERE idle_deadline <= $1", [.time(oldest)])
            try sql.change(
                .unlogged, "DELETE FROM ended_sessions WHERE ended_at < $1 AND (expires_at IS NULL OR expires_at <= $2)",
                [.time(oldestEnd), .time(now)])
            try sql.change(.unlogged, "DELETE FROM codes WHERE expires_at <= $1", [.time(now)])
            try sql.change(.unlogged, "DELETE FROM reset_tokens WHERE expires_at <= $1", [.time(now)])
            try sql.change(
                .unlogged, "DELETE FROM merged_accounts WHERE merged_at <= $1", [.time(now.advanced(seconds: -Merge.aliasSeconds))])
            try sql.sweepNotices(now)
            try sql.sweepProofs(now)
            try sql.change(.unlogged, "DELETE FROM leases WHERE ends_at <= (SELECT \(sql.dialect.clock))", [])
            try sql.shortenChangeLog()
            return now
        }
        // In transactions of their own, between which others write.
        let oldestAddress = WallTime(seconds: swept.seconds - AuditEvent.addressSeconds)
        while try await database.write({ sql throws(SQLFault) in try sql.eraseAddresses(before: oldestAddress) })
            == SQLTransaction.maxErased
        {}
        let oldestEvent = WallTime(seconds: swept.seconds - KeptStoreEvent.keptSeconds)
        while try await database.write({ sql throws(SQLFault) in try sql.deleteStoreEvents(before: oldestEvent) })
            == SQLTransaction.maxDeletedEvents
        {}
        try await sweepEvents(now: swept)
        return try await database.write { sql throws(SQLFault) in try sql.endMerges(at: swept) }
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
