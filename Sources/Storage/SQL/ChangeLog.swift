package import Accounts
package import Wire

/// Told which accounts a transaction of this process has changed; empty where it changed something else that gateways
/// must hear of. Called on the store's own threads behind the commit, before the caller hears of it; must not block.
package typealias ChangeNotice = @Sendable (_ accounts: [UUID]) -> Void

/// The log of changes, which the database itself keeps by triggers: whoever changes something, nobody can forget to log it.
///
/// In PostgreSQL transactions end in another order than that in which they begin or count. So a change is marked with its
/// transaction's number, and a reading goes on from the lowest number that was still under way: what it reads again, its
/// reader knows by the id. In SQLite one writer comes after the other, and the id is mark enough.
enum SQLDialect: Sendable {
    case sqlite, postgres

    /// The column that a reading goes by.
    fileprivate var mark: String {
        switch self {
        case .sqlite: "id"
        case .postgres: "mark"
        }
    }

    /// The lowest mark that a change may have which cannot be seen yet.
    fileprivate var floor: String {
        switch self {
        case .sqlite: "(SELECT COALESCE(MAX(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'changes')"
        case .postgres: "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
        }
    }

    /// The database's own clock in microseconds since 1970.
    fileprivate var clock: String {
        switch self {
        case .sqlite: "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
        case .postgres: "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        }
    }
}

/// As they stand in the log.
private enum ChangeKind: Int64 {
    case account = 1
    case ended = 2
    case secrets = 3
}

extension SQLStore {
    package func changes(since mark: ChangeMark?) async throws(StoreFault) -> ChangeReading {
        try await database.read { sql throws(SQLFault) in
            // Before the changes: what comes to an end in between is read this time and the next.
            let next = try sql.endOfLog()
            guard let mark else { return ChangeReading(changes: [], next: next, isWhole: true) }
            guard mark <= next else { return ChangeReading(changes: [], next: next, isWhole: false) }
            return ChangeReading(changes: try sql.changes(since: mark), next: next, isWhole: true)
        }
    }
}

extension SQLTransaction {
    private static let keptMicroseconds: Int64 = 86_400_000_000

    fileprivate func endOfLog() throws(SQLFault) -> ChangeMark {
        guard var row = try first("SELECT \(dialect.floor)", []) else { throw .failed("the log of changes has no end") }
        return ChangeMark(value: try row.integer())
    }

    fileprivate func changes(since mark: ChangeMark) throws(SQLFault) -> [LoggedChange] {
        let found = try rows(
            """
            SELECT c.id, \(dialect.clock) - c.at, c.kind, c.subject, a.tier_version, a.tier, a.tier_until, e.account,
                e.ended_at, e.reason
            FROM changes c LEFT JOIN accounts a ON c.kind = 1 AND a.id = c.subject
                LEFT JOIN ended_sessions e ON c.kind = 2 AND e.id = c.subject
            WHERE c.\(dialect.mark) >= $1 ORDER BY c.id
            """,
            [.integer(mark.value)])
        var changes: [LoggedChange] = []
        for row in found {
            if let change = try Self.change(row) { changes.append(change) }
        }
        return changes
    }

    /// nil for a session that has been over for so long that nobody remembers it, and for what later versions log.
    private static func change(_ row: SQLRow) throws(SQLFault) -> LoggedChange? {
        var row = row
        let (id, age, kind, subject) = (
            try row.integer(), try row.integer(), ChangeKind(rawValue: try row.integer()), try row.optionalID()
        )
        let (version, tier, until) = (try row.optionalInteger(), try row.optionalText(), try row.optionalTime())
        switch (kind, subject) {
        case (.secrets, _): return LoggedChange(id: id, change: .secrets, age: age)
        case (.account, let user?):
            let entitlement = version.map { Entitlement(tier: tier, until: until, version: $0) }
            return LoggedChange(id: id, change: entitlement.map { .account(user, $0) } ?? .accountDeleted(user), age: age)
        case (.ended, let session?):
            guard let user = try row.optionalID() else { return nil }
            let ended = EndedSession(
                id: session, user: user, endedAt: try row.time(), reason: try row.word(EndReason.self))
            return LoggedChange(id: id, change: .ended(ended), age: age)
        case (.account, nil), (.ended, nil), (nil, _): return nil
        }
    }

    func shortenChangeLog() throws(SQLFault) {
        try change(.unlogged, "DELETE FROM changes WHERE at < \(dialect.clock) - $1", [.integer(Self.keptMicroseconds)])
    }
}

/// The rows that a statement writes, as far as the log of changes tells of them. Each statement that writes names its own;
/// the triggers log the same changes, and those that come past this program.
enum WrittenRows {
    /// This account is changed or deleted.
    case account(UUID)
    /// A session is remembered as ended.
    case endedSession
    case sealedSecret
    /// Rows that no gateway remembers: of other tables, of new accounts, and those that are dropped because they are over.
    case unlogged
}

/// The logged rows that one transaction has changed.
struct TouchedRows {
    /// Each once.
    private(set) var accounts: [UUID] = []
    private(set) var isLogged = false

    mutating func note(_ rows: WrittenRows) {
        switch rows {
        case .account(let user):
            isLogged = true
            if !accounts.contains(user) { accounts.append(user) }
        case .endedSession, .sealedSecret: isLogged = true
        case .unlogged: break
        }
    }
}

/// The tables and triggers of the log, as the second step of the schema.
enum ChangeLogSchema {
    static let shared: [String] = [
        """
        CREATE TABLE sealed_secrets (
            name TEXT PRIMARY KEY,
            version BIGINT NOT NULL,
            sealed BYTEA NOT NULL
        )
        """
    ]

    static let sqlite: [String] =
        [
            """
            CREATE TABLE changes (
                id INTEGER PRIMARY KEY AUTOINCREMENT, kind BIGINT NOT NULL, subject BYTEA, at BIGINT NOT NULL)
            """,
            "CREATE INDEX changes_at ON changes (at)",
        ]
        + [
            ("accounts", "UPDATE", 1, "NEW.id"), ("accounts", "DELETE", 1, "OLD.id"), ("ended_sessions", "INSERT", 2, "NEW.id"),
            ("sealed_secrets", "INSERT", 3, "NULL"), ("sealed_secrets", "UPDATE", 3, "NULL"),
        ].map { table, event, kind, subject in
            """
            CREATE TRIGGER \(table)_\(event.lowercased())_logged AFTER \(event) ON \(table) BEGIN
                INSERT INTO changes (kind, subject, at)
                VALUES (\(kind), \(subject), CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER));
            END
            """
        }

    /// What is notified of is on the channel that `PostgresListener` hears.
    static let postgres: [String] =
        [
            """
            CREATE TABLE changes (
                id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, mark BIGINT NOT NULL, kind BIGINT NOT NULL,
                subject BYTEA, at BIGINT NOT NULL)
            """,
            "CREATE INDEX changes_mark ON changes (mark)",
            "CREATE INDEX changes_at ON changes (at)",
            """
            CREATE FUNCTION tollgate_log_change() RETURNS trigger LANGUAGE plpgsql AS $$
            DECLARE
                subject BYTEA;
            BEGIN
                IF TG_TABLE_NAME <> 'sealed_secrets' THEN
                    IF TG_OP = 'DELETE' THEN subject := OLD.id; ELSE subject := NEW.id; END IF;
                END IF;
                INSERT INTO changes (mark, kind, subject, at)
                VALUES (
                    pg_current_xact_id()::text::bigint, TG_ARGV[0]::bigint, subject,
                    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
                PERFORM pg_notify('tollgate', '');
                RETURN NULL;
            END
            $$
            """,
        ]
        + [
            ("accounts", "UPDATE OR DELETE", 1), ("ended_sessions", "INSERT", 2), ("sealed_secrets", "INSERT OR UPDATE", 3),
        ].map { table, events, kind in
            """
            CREATE TRIGGER \(table)_logged AFTER \(events) ON \(table)
            FOR EACH ROW EXECUTE FUNCTION tollgate_log_change('\(kind)')
            """
        }
}
