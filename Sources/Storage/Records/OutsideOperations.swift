package import Accounts
internal import Credentials
internal import Wire

extension SQLStore {
    package func subject(_ key: IdentityKey) async throws(StoreFault) -> SubjectVerdict {
        try await database.read { sql throws(SQLFault) in try sql.verdict(on: key) }
    }

    package func adopted(_ digest: [UInt8]) async throws(StoreFault) -> AdoptedToken? {
        try await database.read { sql throws(SQLFault) in try sql.adopted(digest) }
    }

    package func adopt(_ adoption: Adoption, _ audit: AuditContext) async throws(StoreFault) -> AdoptionOutcome {
        try await database.write(locking: .identity(adoption.key)) { sql throws(SQLFault) in
            if let known = try sql.adopted(adoption.digest) { return .known(known) }
            let verdict = try sql.verdict(on: adoption.key)
            guard case .account(let user) = verdict, var account = try sql.lockedAccount(user) else { return .refused }
            // Its sessions may have ended before it was locked.
            guard try sql.verdict(on: adoption.key) == verdict else { throw .conflict }
            let session = try sql.open(adoption.session, of: &account, audit)
            // Another gateway adopted it a moment ago.
            guard try sql.record(adoption.digest, session: session.id, user, audit) else { throw .conflict }
            try sql.log(.signedIn, user, audit, session: session.id, detail: adoption.key.source.name)
            return .adopted(SignIn(account: account, session: session))
        }
    }

    package func end(
        _ ended: EndedSession, refreshToken digest: [UInt8]?, _ audit: AuditContext
    ) async throws(StoreFault) {
        try await database.write(locking: .account(ended.user)) { sql throws(SQLFault) in
            if try sql.remember(ended) {
                try sql.log(.sessionEnded, ended.user, audit, session: ended.id, detail: ended.reason.rawValue)
            }
            guard let digest, try !sql.record(digest, session: nil, ended.user, audit),
                let session = try sql.adopted(digest)?.session, try sql.lockedSession(session)?.0.user == ended.user,
                let other = try sql.end(session, ended.reason, at: audit.now)
            else { return }
            try sql.log(.sessionEnded, other.user, audit, session: other.id, detail: ended.reason.rawValue)
        }
    }
}

extension SQLTransaction {
    fileprivate func verdict(on key: IdentityKey) throws(SQLFault) -> SubjectVerdict {
        let linked = try account(of: key).flatMap { id throws(SQLFault) in try holder(id) }
        let id = UUID(parsing: key.subject)
        let named = try id.flatMap { id throws(SQLFault) in try holder(id) }
        return SubjectRule.verdict(linked: linked, named: named, wasDeleted: try wasDeleted(key))
    }

    private func holder(_ id: UUID) throws(SQLFault) -> SubjectHolder? {
        let query = """
            SELECT opened_by, outside_ended_at, erased_at, banned_at, banned_until, ban_reason, \(dialect.clock) FROM accounts WHERE id = $1
            """
        guard var row = try first(query, [.id(id)]) else { return nil }
        let (opener, endedAt, erasedAt) = (try row.optionalContract(), try row.optionalTime(), try row.optionalTime())
        let ban = try row.ban()
        let isBanned = ban?.isInForce(at: try row.time()) ?? false
        return SubjectHolder(user: id, openedBy: opener, isDetached: endedAt != nil || erasedAt != nil || isBanned)
    }

    /// Whether an account was deleted that had the identity, or the id that its subject is.
    func wasDeleted(_ key: IdentityKey) throws(SQLFault) -> Bool {
        let own = UUID(parsing: key.subject).map { IdentityKey.ofID($0) }
        return try first(
            "SELECT deleted_at FROM deleted_subjects WHERE (provider = $1 AND subject = $2) OR (provider = $3 AND subject = $4)",
            [.text(key.source.stored), .text(key.subject), .text(own?.source.stored ?? ""), .text(own?.subject ?? "")]) != nil
    }

    func refuseSubject(_ key: IdentityKey, at now: WallTime) throws(SQLFault) {
        try change(
            .unlogged, "INSERT INTO deleted_subjects (provider, subject, deleted_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            [.text(key.source.stored), .text(key.subject), .time(now)])
    }

    /// Ends the sessions that an account has at outside issuers, if it can have any.
    func detach(_ account: UUID, at now: WallTime) throws(SQLFault) {
        let providers = Provider.documented.map { "'\($0.rawValue)'" }.joined(separator: ", ")
        try change(
            .account(account),
            """
            UPDATE accounts SET outside_ended_at = $2 WHERE id = $1 AND outside_ended_at IS NULL AND (opened_by IS NULL
                OR EXISTS (SELECT 1 FROM identities WHERE account = $1 AND provider NOT IN (\(providers))
                    AND provider NOT LIKE '\(IdentitySource.prefix)%'))
            """,
            [.id(account), .time(now)])
    }

    fileprivate func adopted(_ digest: [UInt8]) throws(SQLFault) -> AdoptedToken? {
        guard var row = try first("SELECT session FROM adopted_tokens WHERE digest = $1", [.bytes(digest)]) else { return nil }
        return AdoptedToken(session: try row.optionalID())
    }

    /// Writes the record of a refresh token; false if there is one.
    fileprivate func record(_ digest: [UInt8], session: UUID?, _ account: UUID, _ audit: AuditContext) throws(SQLFault) -> Bool {
        try change(
            .unlogged,
            "INSERT INTO adopted_tokens (digest, session, account, adopted_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
            [.bytes(digest), .id(session), .id(account), .time(audit.now)]) == 1
    }
}
