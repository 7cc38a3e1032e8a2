internal import Accounts
internal import Credentials
internal import Wire

/// The log of what happened to accounts.
extension SQLTransaction {
    mutating func log(
        _ kind: AuditEvent.Kind, _ account: UUID?, _ occasion: Occasion, session: UUID? = nil, detail: String? = nil
    ) throws(SQLFault) {
        // The place in the transaction stands behind the millisecond, so that events sort as they happened.
        let words = SecureRandom.bytes(16)
        let id = UUID(at: occasion.now, random: (events << 52, words.rawBytes.load64(8)))
        events += 1
        try change(
            .unlogged,
            """
            INSERT INTO audit_events (id, kind, at, account, session, address, detail)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            """,
            [
                .id(id), .text(kind.rawValue), .time(occasion.now), .id(account), .id(session),
                .text(occasion.address?.text), .text(detail),
            ])
    }

    /// The newest first.
    func auditEvents(of account: UUID, limit: Int) throws(SQLFault) -> [AuditEvent] {
        try auditEvents("account = $1", .id(account), limit: limit)
    }

    /// Those for which `condition` on `$1` holds, the newest first.
    func auditEvents(_ condition: String, _ value: SQLValue, limit: Int) throws(SQLFault) -> [AuditEvent] {
        let found = try rows(
            """
            SELECT kind, at, account, session, address, detail FROM audit_events
            WHERE \(condition) ORDER BY id DESC LIMIT $2
            """,
            [value, .integer(Int64(limit))])
        var events: [AuditEvent] = []
        for var row in found {
            events.append(
                AuditEvent(
                    try row.word(AuditEvent.Kind.self), at: try row.time(), user: try row.optionalID(),
                    session: try row.optionalID(),
                    address: try row.optionalText().flatMap { IPAddress(parsing: $0) }, detail: try row.optionalText()))
        }
        return events
    }
}
