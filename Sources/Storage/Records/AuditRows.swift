internal import Accounts
internal import Credentials
internal import Wire

/// The table `audit_events`.
extension SQLTransaction {
    mutating func log(
        _ kind: AuditEvent.Kind, _ account: UUID?, _ audit: AuditContext, session: UUID? = nil, detail: String? = nil
    ) throws(SQLFault) {
        // The event's number in its transaction follows the millisecond, so that ids sort in the order of events.
        let words = SecureRandom.bytes(16)
        let id = UUID(at: audit.now, random: (events << 52, words.rawBytes.load64(8)))
        events += 1
        try change(
            .unlogged,
            """
            INSERT INTO audit_events (id, kind, at, account, session, address, detail)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            """,
            [
                .id(id), .text(kind.rawValue), .time(audit.now), .id(account), .id(session),
                .text(audit.address?.text), .text(detail),
            ])
    }

    /// Newest first.
    func auditEvents(of account: UUID, limit: Int) throws(SQLFault) -> [AuditEvent] {
        try auditEvents("account = $1", .id(account), limit: limit)
    }

    /// The events that meet `condition`, with `value` as `$1`, newest first.
    func auditEvents(_ condition: String, _ value: SQLValue, limit: Int) throws(SQLFault) -> [AuditEvent] {
        try rows(
            """
            SELECT kind, at, account, session, address, detail FROM audit_events
            WHERE \(condition) ORDER BY id DESC LIMIT $2
            """,
            [value, .integer(Int64(limit))]
        ) { row throws(SQLFault) in
            AuditEvent(
                try row.word(AuditEvent.Kind.self), at: try row.time(), user: try row.optionalID(),
                session: try row.optionalID(),
                address: try row.optionalText().flatMap { IPAddress(parsing: $0) }, detail: try row.optionalText())
        }
    }
}
