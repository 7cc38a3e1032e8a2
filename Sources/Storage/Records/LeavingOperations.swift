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
}

extension SQLTransaction {
    /// Writes the ban of an account that the transaction has locked.
    fileprivate func put(_ ban: Ban?, on user: UUID) throws(SQLFault) -> Account {
        try change(
            .account(user),
            "UPDATE accounts SET banned_at = $2, banned_until = $3, ban_reason = $4, tier_version = tier_version + 1 WHERE id = $1",
            [.id(user), .time(ban?.bannedAt), .time(ban?.until), .text(ban?.reason)])
        return try present(user)
    }
}
