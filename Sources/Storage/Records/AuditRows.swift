internal import Accounts
internal import Credentials
internal import Wire

/// The table `audit_events`.
extension SQLTransaction {
    /// Its number in the transaction follows the millisecond, so that ids sort in the order of what they name.
    mutating func newID(at now: WallTime) -> UUID {
        let words = SecureRandom.bytes(16)
        defer { events += 1 }
        return UUID(at: now, random: (events << 52, words.rawBytes.load64(8)))
    }

    mutating func log(
        _ kind: AuditEvent.Kind, _ account: UUID?, _ audit: AuditContext, session: UUID? = nil, detail: String? = nil
    ) throws(SQLFault) {
        let id = newID(at: audit.now)
        try changeLater(
            """
            INSERT INTO audit_events (id, kind, at, account, session, address, detail, actor, new_device)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            """,
            [
                .id(id), .text(kind.rawValue), .time(audit.now), .id(account), .id(session),
                .text(audit.address?.text), .text(detail), .text(audit.actor.rawValue),
                session != nil && session == newDevice ? .flag(true) : .null,
            ])
    }

    /// The events that meet `condition`, with `values` as `$1` and so on, newest first.
    func auditEvents(_ condition: String, _ values: [SQLValue], limit: Int) throws(SQLFault) -> [AuditEvent] {
        try rows(
            """
            SELECT id, kind, at, account, session, detail, address, actor,
                (SELECT email FROM accounts WHERE accounts.id = audit_events.account)
            FROM audit_events
            WHERE \(condition) ORDER BY id DESC LIMIT $\(values.count + 1)
            """,
            values + [.integer(Int64(limit))]
        ) { row throws(SQLFault) in
            var event = AuditEvent(
                id: try row.id(), try row.word(AuditEvent.Kind.self), at: try row.time(), user: try row.optionalID(),
                session: try row.optionalID(), detail: try row.optionalText())
            event.address = try row.optionalAddress()
            // Earlier versions recorded an address for users alone.
            event.actor = try row.optionalWord(AuditActor.self) ?? (event.address == nil ? .operator : .user)
            event.email = try row.optionalText()
            return event
        }
    }

    func eraseAddresses(of account: UUID) throws(SQLFault) {
        try change(
            .unlogged,
            "UPDATE audit_events SET address = NULL, actor = COALESCE(actor, 'user') WHERE account = $1 AND address IS NOT NULL",
            [.id(account)])
    }

    /// Erases the addresses of events before `oldest`; returns how many.
    func eraseAddresses(before oldest: WallTime, atMost rows: Int) throws(SQLFault) -> Int {
        try change(
            .unlogged,
            """
            UPDATE audit_events SET address = NULL, actor = COALESCE(actor, 'user') WHERE id IN (
                SELECT id FROM audit_events WHERE address IS NOT NULL AND at < $1 ORDER BY at LIMIT $2)
            """,
            [.time(oldest), .integer(Int64(rows))])
    }
}
