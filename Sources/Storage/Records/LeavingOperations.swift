package import Accounts
package import Wire

extension SQLStore {
    package func ban(_ ban: Ban, _ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> BannedAccount? {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            guard try sql.lockedAccount(user) != nil else { return nil }
            let account = try sql.put(ban, on: user)
            let ended = try sql.endSessions(of: user, .accountBanned, at: audit.now)
            try sql.log(.accountBanned, user, audit, detail: ban.until.map { "until \(ISO8601.text($0))" } ?? "for good")
            return BannedAccount(account, ended: ended)
        }
    }

    package func unban(_ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> Account? {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            guard let account = try sql.lockedAccount(user), account.ban != nil else { return try sql.account(user) }
            try sql.log(.accountUnbanned, user, audit)
            return try sql.put(nil, on: user)
        }
    }

    package func leave(_ caller: CallerSession, _ rule: DeletionRule, _ audit: AuditContext) async throws(StoreFault) -> Leave {
        try await database.write(locking: .account(caller.user)) { sql throws(SQLFault) in
            if rule.graceSeconds == 0 { try sql.lockPurchases() }
            guard let account = try sql.lockedAccount(caller.user), let session = try sql.session(caller.session)?.0,
                session.user == caller.user
            else { return .sessionEnded }
            // A guest has nothing to sign in with again.
            let isGuest = try sql.isGuest(account)
            guard isGuest || session.isRecent(rule.recentSeconds, at: audit.now) else { return .notRecent }
            guard rule.graceSeconds > 0 else {
                _ = try sql.erase(account, audit)
                return .erased
            }
            let end = audit.now.advanced(seconds: rule.graceSeconds)
            try sql.close(account, until: end, audit)
            return .closed(until: end)
        }
    }

    package func erasable(at now: WallTime, limit: Int) async throws(StoreFault) -> [UUID] {
        try await database.read { sql throws(SQLFault) in
            try sql.rows(
                "SELECT id FROM accounts WHERE erased_at <= $1 ORDER BY erased_at LIMIT $2", [.time(now), .integer(Int64(limit))]
            ) { row throws(SQLFault) in try row.id() }
        }
    }

    package func erase(_ user: UUID, _ audit: AuditContext) async throws(StoreFault) -> Bool {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            try sql.lockPurchases()
            guard let account = try sql.lockedAccount(user), let end = account.erasedAt, end <= audit.now else { return false }
            _ = try sql.erase(account, audit)
            return true
        }
    }
}

extension SQLTransaction {
    /// Erases an account with all that is its own; what remains stands in `docs/accounts.md`. The transaction has locked the purchases and
    /// the account, in this order.
    mutating func erase(_ account: Account, _ audit: AuditContext) throws(SQLFault) -> [EndedSession] {
        let user = account.id
        let ended = try endSessions(of: user, .accountDeleted, at: audit.now)
        try dropCodes(of: account)
        try dropIdentities(of: user, at: audit.now)
        try refuseSubject(IdentityKey.ofID(user), at: audit.now)
        try change(.account(user), "DELETE FROM accounts WHERE id = $1", [.id(user)])
        try change(.unlogged, "DELETE FROM merged_accounts WHERE account = $1", [.id(user)])
        try releasePurchases(ofDeleted: user, audit)
        if account.erasedAt == nil { try log(.accountClosed, user, audit) }
        try log(.accountDeleted, user, audit)
        try eraseAddresses(of: user)
        return ended
    }

    /// Closes an account until it is erased.
    mutating func close(_ account: Account, until end: WallTime, _ audit: AuditContext) throws(SQLFault) {
        _ = try endSessions(of: account.id, .accountDeleted, at: audit.now)
        try dropCodes(of: account)
        try revokeAppleTokens(of: account.id, at: audit.now)
        try change(
            .account(account.id), "UPDATE accounts SET erased_at = $2, tier_version = tier_version + 1 WHERE id = $1",
            [.id(account.id), .time(end)])
        try log(.accountClosed, account.id, audit, detail: "until \(ISO8601.text(end))")
    }

    /// Writes the ban of an account that the transaction has locked.
    fileprivate func put(_ ban: Ban?, on user: UUID) throws(SQLFault) -> Account {
        try change(
            .account(user),
            "UPDATE accounts SET banned_at = $2, banned_until = $3, ban_reason = $4, tier_version = tier_version + 1 WHERE id = $1",
            [.id(user), .time(ban?.bannedAt), .time(ban?.until), .text(ban?.reason)])
        return try present(user)
    }
}
