extension SQLDialect {
    private static let microseconds = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"

    /// One writer at a time: its place is lock enough, and the order of ids is the order of commits.
    static let sqlite = SQLDialect(
        foldings: [{ "lower(\($0))" }], lockClause: "", some: { "rowid IN (SELECT rowid \($0))" }, clock: microseconds,
        isClockShared: false, changeMark: "id",
        changeEnd: "(SELECT COALESCE(MAX(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'changes')", changesInProgress: nil,
        serverStart: "0", notice: "NULL",
        changeLog: [
            """
            CREATE TABLE changes (
                id INTEGER PRIMARY KEY AUTOINCREMENT, kind BIGINT NOT NULL, subject BYTEA, at BIGINT NOT NULL)
            """,
            "CREATE INDEX changes_at ON changes (at)",
        ]
            + [
                ("accounts", "UPDATE", 1, "NEW.id"), ("accounts", "DELETE", 1, "OLD.id"),
                ("ended_sessions", "INSERT", 2, "NEW.id"), ("sealed_secrets", "INSERT", 3, "NULL"),
                ("sealed_secrets", "UPDATE", 3, "NULL"),
            ].map { table, event, kind, subject in
                """
                CREATE TRIGGER \(table)_\(event.lowercased())_logged AFTER \(event) ON \(table) BEGIN
                    INSERT INTO changes (kind, subject, at)
                    VALUES (\(kind), \(subject), \(microseconds));
                END
                """
            },
        identityLog: [("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")].map { event, row in
            """
            CREATE TRIGGER identities_\(event.lowercased())_logged AFTER \(event) ON identities
            WHEN \(row).provider NOT IN ('apple', 'google') BEGIN
                INSERT INTO changes (kind, identity_provider, identity_subject, at)
                VALUES (4, \(row).provider, \(row).subject, \(microseconds));
            END
            """
        } + [tierLog(of: "tier, tier_until")],
        grantLog: ["DROP TRIGGER accounts_tier_logged", tierLog(of: "tier, tier_until, grants")], commitMarks: [],
        eventLog: [
            """
            CREATE TRIGGER audit_events_numbered AFTER INSERT ON audit_events BEGIN
                UPDATE audit_events SET position = 1 + COALESCE(
                    (SELECT position FROM audit_events WHERE position > 0 ORDER BY position DESC LIMIT 1), 0)
                WHERE rowid = NEW.rowid;
            END
            """
        ], sessionRoom: [], numbersEventsLater: false)

    private static func tierLog(of columns: String) -> String {
        """
        CREATE TRIGGER accounts_tier_logged AFTER UPDATE OF \(columns) ON accounts BEGIN
            INSERT INTO changes (kind, identity_provider, identity_subject, at)
            SELECT 4, provider, subject, \(microseconds) FROM identities
            WHERE account = NEW.id AND provider NOT IN ('apple', 'google');
        END
        """
    }
}
