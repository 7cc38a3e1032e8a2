package import Accounts
package import Wire

extension SQLStore {
    package func accounts(after: UUID?, limit: Int) async throws(StoreFault) -> [Account] {
        try await database.read { sql throws(SQLFault) in try sql.accounts(after: after, limit: limit) }
    }

    package func delete(_ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> [EndedSession]? {
        try await database.write { sql throws(SQLFault) in
            guard let account = try sql.lockedAccount(user) else { return nil }
            let ended = try sql.endSessions(of: user, .accountDeleted, at: audit.now)
            try sql.dropCodes(of: account)
            try sql.change(.account(user), "DELETE FROM accounts WHERE id = $1", [.id(user)])
            try sql.log(.accountDeleted, user, audit)
            return ended
        }
    }

    package func entitlement(of user: UUID) async throws(StoreFault) -> Entitlement? {
        try await database.read { sql throws(SQLFault) in
            let row = try sql.first("SELECT tier, tier_until, tier_version FROM accounts WHERE id = $1", [.id(user)])
            guard var row else { return nil }
            return Entitlement(
                tier: try row.optionalText(), until: try row.optionalTime(), version: try row.integer())
        }
    }

    package func setTier(
        _ tier: String?, until: WallTime?, of user: UUID, _ audit: AuditContext
    ) async throws(StoreFault) -> Entitlement? {
        try await database.write { sql throws(SQLFault) in
            let rows = try sql.changing(
                .account(user),
                """
                UPDATE accounts SET tier = $2, tier_until = $3, tier_version = tier_version + 1, tier_changed_at = $4,
                    updated_at = $4 WHERE id = $1 RETURNING tier_version
                """,
                [.id(user), .text(tier), .time(until), .time(audit.now)])
            guard var row = rows.first else { return nil }
            try sql.log(.tierChanged, user, audit, detail: tier)
            return Entitlement(tier: tier, until: until, version: try row.integer())
        }
    }

    package func auditEvents(of user: UUID, limit: Int) async throws(StoreFault) -> [AuditEvent] {
        try await database.read { sql throws(SQLFault) in try sql.auditEvents(of: user, limit: limit) }
    }

    package func sweep(now: WallTime) async throws(StoreFault) {
        try await database.write { sql throws(SQLFault) in
            let oldest = WallTime(seconds: now.seconds - SessionPolicy.longestAccessSeconds)
            // Access tokens outlive the session's last refresh and must stay revocable until they expire.
            try sql.change(.unlogged, "DELETE FROM sessions WHERE idle_deadline <= $1", [.time(oldest)])
            try sql.change(.unlogged, "DELETE FROM ended_sessions WHERE ended_at < $1", [.time(oldest)])
            try sql.change(.unlogged, "DELETE FROM codes WHERE expires_at <= $1", [.time(now)])
            try sql.change(.unlogged, "DELETE FROM reset_tokens WHERE expires_at <= $1", [.time(now)])
            try sql.shortenChangeLog()
        }
    }
}
