package import Accounts
package import Credentials
package import Wire

/// The tables `factors` and `backup_codes`.
extension SQLStore {
    package func factor(of user: UUID) async throws(StoreFault) -> KeptFactor? {
        try await database.read(isBrief: true) { sql throws(SQLFault) in try sql.factor(of: user) }
    }

    package func enrol(_ factor: KeptFactor, by caller: CallerSession, _ audit: AuditContext) async throws(StoreFault) -> FactorOutcome {
        try await change(by: caller) { sql, _, kept throws(SQLFault) in
            guard kept?.confirmedAt == nil else { return .failure(.exists) }
            try sql.change(
                .unlogged,
                """
                INSERT INTO factors (account, id, sealed, created_at, last_step) VALUES ($1, $2, $3, $4, 0)
                ON CONFLICT (account) DO UPDATE SET id = excluded.id, sealed = excluded.sealed, created_at = excluded.created_at, last_step = 0
                """,
                [.id(caller.user), .id(factor.id), .bytes(factor.sealed), .time(factor.createdAt)])
            return .success(())
        }
    }

    package func prove(_ proof: FactorProof, by caller: CallerSession, _ audit: AuditContext) async throws(StoreFault) -> FactorOutcome {
        try await change(by: caller) { sql, open, kept throws(SQLFault) in
            guard let kept else { return .failure(.none) }
            switch proof {
            case .code(let step, let id, let enrols):
                guard kept.id == id, kept.takes(step, enrols: enrols, at: audit.now) else { return .failure(.wrongCode) }
                try sql.change(
                    .unlogged, "UPDATE factors SET last_step = $2, confirmed_at = COALESCE(confirmed_at, $3) WHERE account = $1",
                    [.id(caller.user), .integer(step), .time(audit.now)])
                if kept.confirmedAt == nil {
                    try sql.log(.factorAdded, caller.user, audit, session: caller.session)
                    try sql.notify(.factorAdded, open.account, audit)
                }
            case .backup(let digest):
                let spent = try sql.change(
                    .unlogged, "DELETE FROM backup_codes WHERE account = $1 AND digest = $2", [.id(caller.user), .bytes(digest)])
                guard kept.confirmedAt != nil, spent == 1 else { return .failure(.wrongCode) }
                try sql.log(.backupCodeUsed, caller.user, audit, session: caller.session)
            }
            try sql.logFactor(of: caller.session, at: audit.now)
            return .success(())
        }
    }

    package func setBackupCodes(
        _ digests: [[UInt8]], by caller: CallerSession, _ audit: AuditContext
    ) async throws(StoreFault) -> FactorOutcome {
        try await changeProven(by: caller, audit) { sql, _ throws(SQLFault) in
            try sql.change(.unlogged, "DELETE FROM backup_codes WHERE account = $1", [.id(caller.user)])
            for digest in digests {
                try sql.change(
                    .unlogged, "INSERT INTO backup_codes (account, digest) VALUES ($1, $2)", [.id(caller.user), .bytes(digest)])
            }
            try sql.log(.backupCodesMade, caller.user, audit, session: caller.session)
        }
    }

    package func dropFactor(by caller: CallerSession, _ audit: AuditContext) async throws(StoreFault) -> FactorOutcome {
        try await changeProven(by: caller, audit) { sql, account throws(SQLFault) in _ = try sql.removeFactor(of: account, audit) }
    }

    package func dropFactor(of user: UUID, _ audit: AuditContext) async throws(StoreFault) -> Bool? {
        try await database.write(locking: .account(user)) { sql throws(SQLFault) in
            guard let account = try sql.lockedAccount(user) else { return nil }
            return try sql.removeFactor(of: account, audit)
        }
    }

    package func provenSessions(since time: WallTime) async throws(StoreFault) -> [ProvenSession] {
        try await database.read { sql throws(SQLFault) in
            try sql.rows("SELECT id, factor_at FROM sessions WHERE factor_at > $1", [.time(time)]) { row throws(SQLFault) in
                ProvenSession(id: try row.id(), at: try row.time())
            }
        }
    }

    /// Runs `body` with the caller's session and account, and the factor, all locked.
    private func change(
        by caller: CallerSession,
        _ body:
            @escaping @Sendable (inout SQLTransaction, (session: Session, account: Account), KeptFactor?) throws(SQLFault) -> FactorOutcome
    ) async throws(StoreFault) -> FactorOutcome {
        try await database.write(locking: .account(caller.user)) { sql throws(SQLFault) in
            guard let account = try sql.lockedAccount(caller.user), let session = try sql.lockedSession(caller.session)?.0,
                session.user == account.id
            else { return .failure(.recency(.sessionEnded)) }
            return try body(&sql, (session, account), try sql.factor(of: account.id))
        }
    }

    /// The same for a session that has proven the factor lately.
    private func changeProven(
        by caller: CallerSession, _ audit: AuditContext,
        _ body: @escaping @Sendable (inout SQLTransaction, Account) throws(SQLFault) -> Void
    ) async throws(StoreFault) -> FactorOutcome {
        try await change(by: caller) { sql, open, kept throws(SQLFault) in
            guard kept?.confirmedAt != nil else { return .failure(.none) }
            guard open.session.hasFactor(at: audit.now) else { return .failure(.recency(.noFactor(maxAge: KeptFactor.recentSeconds))) }
            try body(&sql, open.account)
            return .success(())
        }
    }
}

extension SQLTransaction {
    fileprivate func factor(of user: UUID) throws(SQLFault) -> KeptFactor? {
        let row = try first(
            """
            SELECT id, sealed, created_at, confirmed_at, last_step, (SELECT COUNT(*) FROM backup_codes WHERE account = $1)
            FROM factors WHERE account = $1
            """, [.id(user)])
        guard var row else { return nil }
        var factor = KeptFactor(id: try row.id(), sealed: try row.bytes(), createdAt: try row.time())
        factor.confirmedAt = try row.optionalTime()
        factor.lastStep = try row.integer()
        factor.backupCodes = Int(try row.count())
        return factor
    }

    /// Removes the factor of an account, which the transaction has locked, and tells its user; false if there is none.
    fileprivate mutating func removeFactor(of account: Account, _ audit: AuditContext) throws(SQLFault) -> Bool {
        let wasConfirmed = try factor(of: account.id)?.confirmedAt != nil
        try dropFactor(of: account.id)
        guard wasConfirmed else { return false }
        try log(.factorRemoved, account.id, audit)
        try notify(.factorRemoved, account, audit)
        return true
    }

    /// Removes a factor that was set up since `start`, with its backup codes; no session of the account counts as proven any more.
    mutating func dropFactor(of user: UUID, since start: WallTime = WallTime(microseconds: 0)) throws(SQLFault) {
        let dropped = try change(.unlogged, "DELETE FROM factors WHERE account = $1 AND created_at >= $2", [.id(user), .time(start)])
        guard dropped == 1 else { return }
        try change(.unlogged, "DELETE FROM backup_codes WHERE account = $1", [.id(user)])
        for session in try sessions(of: user) where session.factorAt != nil { try logFactor(of: session.id, at: nil) }
    }
}
