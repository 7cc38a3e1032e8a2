internal import Accounts
internal import Credentials
internal import Wire

/// The tables `sessions` and `ended_sessions`.
extension SQLTransaction {
    private static let sessionColumns = """
        id, account, contract, device, created_at, last_used_at, idle_deadline, max_deadline, counter, is_confirmed, rotated_at, \
        steps_since, steps, signed_in_at, address, device_name, seen_at, factor_at, key_thumbprint, key_counter
        """
    /// Both rows by one statement.
    private static let selectBoth = """
        SELECT s.\(sessionColumns.replacing(", ", with: ", s.")), a.\(accountColumns.replacing(", ", with: ", a."))
        FROM sessions s JOIN accounts a ON a.id = s.account WHERE s.id = $1
        """
    private static let selectLocked = "SELECT \(sessionColumns) FROM sessions WHERE id = $1 FOR UPDATE"
    private static let selectOwner = selectAccount + "WHERE id = (SELECT account FROM sessions WHERE id = $1)"

    /// An open session, locked until the transaction ends, and its account.
    func lockedSession(_ id: UUID) throws(SQLFault) -> (Session, Account)? {
        if dialect.lockClause.isEmpty { return try session(id) }
        // A statement that waits for a lock reads the other rows as they were before its wait: the account has one of its own.
        let found = try firsts([SQLStatement(Self.selectLocked, [.id(id)]), SQLStatement(Self.selectOwner, [.id(id)])])
        guard var session = found[0], var account = found[1] else { return nil }
        return (try Self.session(&session), try Self.account(&account))
    }

    /// An open session and its account.
    func session(_ id: UUID) throws(SQLFault) -> (Session, Account)? {
        guard var row = try first(Self.selectBoth, [.id(id)]) else { return nil }
        return (try Self.session(&row), try Self.account(&row))
    }

    /// Newest first.
    func sessions(of account: UUID) throws(SQLFault) -> [Session] {
        try rows(
            "SELECT \(Self.sessionColumns) FROM sessions WHERE account = $1 ORDER BY created_at DESC, id DESC", [.id(account)], Self.session
        )
    }

    private static func session(_ row: inout SQLRow) throws(SQLFault) -> Session {
        var session = Session(
            id: try row.id(), user: try row.id(), contract: try row.contract(), device: try row.optionalText(), address: nil,
            createdAt: try row.time(), lastUsedAt: try row.time(), idleDeadline: try row.time(),
            maxDeadline: try row.optionalTime(), counter: UInt64(try row.count()),
            isConfirmed: try row.flag(), rotatedAt: try row.time(), stepsSince: try row.time(), steps: try row.count(),
            signedInAt: try row.optionalTime())
        session.address = try row.optionalAddress()
        session.deviceName = try row.optionalText()
        session.seenAt = try row.optionalTime()
        session.factorAt = try row.optionalTime()
        session.deviceKey = try row.optionalThumbprint()
        session.boundCounter = try row.optionalInteger().map { UInt64(clamping: $0) }
        return session
    }

    /// Opens a session of an account, which the transaction has locked. Throws for a banned one; a closed one is open again.
    mutating func open(_ new: NewSession, of account: inout Account, _ audit: AuditContext) throws(SQLFault) -> Session {
        try admit(&account, audit)
        try keep(new.language, of: &account)
        if new.bound != .none { try makeRoom(for: new, of: account.id, audit) }
        var session = Session(new, user: account.id, now: audit.now)
        if audit.actor == .user { session.isNewDevice = try meet(session.deviceLabel ?? "", of: account.id, at: audit.now) }
        try change(
            .unlogged,
            """
            INSERT INTO sessions (
                id, account, contract, device, created_at, last_used_at, idle_deadline, max_deadline, counter,
                is_confirmed, rotated_at, steps_since, steps, signed_in_at, address, device_name, key_thumbprint, sweep_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $7)
            """,
            [
                .id(session.id), .id(account.id), .integer(Int64(session.contract.rawValue)), .text(session.device),
                .time(session.createdAt), .time(session.lastUsedAt), .time(session.idleDeadline),
                .time(session.maxDeadline), .counter(session.counter), .flag(session.isConfirmed),
                .time(session.rotatedAt), .time(session.stepsSince), .integer(session.steps), .time(session.signedInAt),
                .text(session.address?.text), .text(session.deviceName), .thumbprint(session.deviceKey),
            ])
        if let factorAt = session.factorAt { try logFactor(of: session.id, at: factorAt) }
        if session.isNewDevice {
            newDevice = session.id
            try notify(.newDevice, account, detail: session.deviceLabel, audit)
        }
        return session
    }

    /// Lets a sign-in to an account through.
    mutating func admit(_ account: inout Account, _ audit: AuditContext) throws(SQLFault) {
        if let ban = account.ban, ban.isInForce(at: audit.now) { throw .banned(ban) }
        guard account.erasedAt != nil else { return }
        account.erasedAt = nil
        try change(
            .account(account.id), "UPDATE accounts SET erased_at = NULL, tier_version = tier_version + 1 WHERE id = $1", [.id(account.id)])
        try log(.accountReopened, account.id, audit)
    }

    /// Keeps the language of a sign-in for later mails.
    private func keep(_ language: String?, of account: inout Account) throws(SQLFault) {
        guard let language, language != account.language else { return }
        account.language = language
        try change(
            .account(account.id), "UPDATE accounts SET language = $2, tier_version = tier_version + 1 WHERE id = $1",
            [.id(account.id), .text(language)])
    }

    private mutating func makeRoom(for new: NewSession, of account: UUID, _ audit: AuditContext) throws(SQLFault) {
        let open = try sessions(of: account).map { (id: $0.id, lastUsedAt: $0.usedAt) }
        if open.isEmpty { return }
        let most = try new.bound.most(at: audit.now) { () throws(SQLFault) in try self.account(account)?.entitlement }
        for id in SessionBound.ending(open, most: most) {
            guard try end(id, .revoked, at: audit.now) != nil else { continue }
            try log(.sessionEnded, account, audit, session: id, detail: SessionBound.detail)
        }
    }

    /// Writes a session back if its counter is still that of `former`; it conflicts if it was refreshed concurrently.
    ///
    /// `idleSeconds`: how long it stays open from now on, if that changes. A gateway whose clock is behind must not end it thereby.
    func update(_ session: Session, from former: Session, idleSeconds: Int64? = nil) throws(SQLFault) {
        try changeLater(
            session.idleDeadline < former.idleDeadline ? Self.updateToEarlier : Self.updateFromCounter,
            [
                .id(session.id), .counter(former.counter), .time(session.lastUsedAt), .time(session.idleDeadline),
                .counter(session.counter), .flag(session.isConfirmed), .time(session.rotatedAt),
                .time(session.stepsSince), .integer(session.steps), idleSeconds.map { .integer($0 * 1_000_000) } ?? .null,
                .text(session.address?.text), .text(session.deviceName), .thumbprint(session.deviceKey),
                session.boundCounter.map { .counter($0) } ?? .null,
            ])
    }

    private static let updateFromCounter = update("")
    /// A deadline that moves back moves `sweep_at`, too: the sweep would otherwise be late.
    private static let updateToEarlier = update("sweep_at = $4, ")

    private static func update(_ sweep: String) -> String {
        """
        UPDATE sessions SET \(sweep)last_used_at = $3, idle_deadline = \(noEarlierThanSweep("$4", after: "$10")), counter = $5,
            is_confirmed = $6, rotated_at = $7, steps_since = $8, steps = $9, address = $11, device_name = $12,
            key_thumbprint = $13, key_counter = $14 WHERE id = $1 AND counter = $2
        """
    }

    /// The user of an open session has signed in again, which would else have opened `new`. It stays open as after a refresh.
    func renewSignIn(of session: Session, as new: NewSession, by carried: WallTime?, at now: WallTime) throws(SQLFault) -> Session {
        var session = session
        let idle = session.renewSignIn(by: carried, at: now, idleSeconds: new.idleSeconds)
        let changed = try change(
            .unlogged,
            """
            UPDATE sessions SET signed_in_at = $2, last_used_at = $3, sweep_at = $4,
                idle_deadline = \(Self.noEarlierThanSweep("$4", after: "$5")) WHERE id = $1
            """,
            [
                .id(session.id), .time(session.signedInAt), .time(session.lastUsedAt), .time(session.idleDeadline),
                idle.map { .integer($0 * 1_000_000) } ?? .null,
            ])
        // If it has ended meanwhile the transaction is retried, and finds no caller.
        guard changed == 1 else { throw .conflict }
        return session
    }

    /// Ends one session; nil if there is none, or where `isProven` is set: if it is bound to another key than `key`.
    func end(
        _ session: UUID, _ reason: EndReason, at now: WallTime, isProven: Bool = false, by key: KeyThumbprint? = nil
    ) throws(SQLFault) -> EndedSession? {
        let condition = isProven ? " AND (key_thumbprint IS NULL OR key_thumbprint = $2)" : ""
        let values: [SQLValue] = [.id(session)] + (isProven ? [.thumbprint(key)] : [])
        let statement = "DELETE FROM sessions WHERE id = $1\(condition) RETURNING id, account, contract"
        guard let row = try changing(.unlogged, statement, values).first else { return nil }
        return try ended(row, reason, at: now)
    }

    /// Ends all sessions of an account except `kept`, also those at outside issuers.
    func endSessions(
        of account: UUID, _ reason: EndReason, keeping kept: UUID? = nil, at now: WallTime
    ) throws(SQLFault) -> [EndedSession] {
        let found = try changing(
            .unlogged, "DELETE FROM sessions WHERE account = $1 AND id <> $2 RETURNING id, account, contract",
            [.id(account), .id(kept ?? UUID(high: 0, low: 0))])
        let all = try found.map { row throws(SQLFault) in try ended(row, reason, at: now) }
        try detach(account, at: now)
        return all.sorted { $0.id < $1.id }
    }

    /// Remembers the session of this deleted row.
    private func ended(_ row: SQLRow, _ reason: EndReason, at now: WallTime) throws(SQLFault) -> EndedSession {
        var row = row
        // A session of a contract of a later release ends, too.
        let (id, user, contract) = (try row.id(), try row.id(), try? row.contract())
        let ended = EndedSession(id: id, of: contract, user: user, endedAt: now, reason: reason)
        try changeLater(.endedSession, remembering(ended, seconds: EndedSession.life(of: contract)))
        return ended
    }

    /// Adds to the list of ended sessions; false if it is there.
    func remember(_ ended: EndedSession) throws(SQLFault) -> Bool {
        let statement = remembering(ended, seconds: nil)
        return try change(.endedSession, statement.text, statement.values) == 1
    }

    /// `seconds`: how long it stays in the list after its end, for one of ours.
    private func remembering(_ ended: EndedSession, seconds: Int64?) -> SQLStatement {
        SQLStatement(
            Self.insertEnded,
            [
                .id(ended.id), .id(ended.user), .time(ended.endedAt), .text(ended.reason.rawValue),
                .time(ended.expiresAt), seconds.map { .integer($0 * 1_000_000) } ?? .null,
            ])
    }

    private static let insertEnded = """
        INSERT INTO ended_sessions (id, account, ended_at, reason, expires_at)
        VALUES ($1, $2, \(noEarlierThanSweep("$3")), $4, \(noEarlierThanSweep("$5", after: "$6"))) ON CONFLICT DO NOTHING
        """

    /// Oldest first, and why rows cannot be read. Read in pages of so many rows by id, so that no statement takes longer for many.
    func endedSessions(page: Int = 20_000) throws(SQLFault) -> (sessions: [EndedSession], unreadable: [String]) {
        var (found, unreadable): ([EndedSession], [String]) = ([], [])
        var (last, count): ([UInt8], Int) = ([], 0)
        repeat {
            let rows = try self.rows(
                """
                SELECT id, \(dialect.clock), account, ended_at, reason, expires_at FROM ended_sessions
                WHERE id > $1 ORDER BY id LIMIT \(page)
                """,
                [.bytes(last)])
            for var row in rows {
                last = try row.bytes()
                if let id = UUID(bytes: last.rawBytes) {
                    let now = try row.time()
                    found.append(EndedSession(id, &row, at: now))
                } else {
                    unreadable.append("a row of ended_sessions is skipped: its id has \(last.count) bytes, not 16")
                }
            }
            count = rows.count
        } while count == page
        return (found.sorted { ($0.endedAt, $0.id) < ($1.endedAt, $1.id) }, unreadable)
    }
}

extension EndedSession {
    /// The columns `account`, `ended_at`, `reason` and `expires_at`, read at `now`. None of them keeps the tokens of the session valid:
    /// a reason of a later release, and one that an operator made up, counts as `revoked`.
    init(_ id: UUID, _ row: inout SQLRow, at now: WallTime) {
        func read<Value>(_ column: (inout SQLRow) throws(SQLFault) -> Value?) -> Value? {
            do throws(SQLFault) { return try column(&row) } catch { return nil }
        }
        let user = read { row throws(SQLFault) in try row.id() } ?? UUID(high: 0, low: 0)
        let endedAt = read { row throws(SQLFault) in try row.time() } ?? now
        let reason = read { row throws(SQLFault) in try row.word(EndReason.self) } ?? .revoked
        self.init(
            id: id, user: user, endedAt: endedAt, reason: reason, expiresAt: read { row throws(SQLFault) in try row.optionalTime() })
    }
}
