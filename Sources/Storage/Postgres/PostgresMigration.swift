internal import Glibc

/// Migrations of the schema.
extension PostgresConnection {
    /// The timeout of a statement, in milliseconds. A migration that were given up would go on at the server, be rolled back, and begin
    /// anew.
    private static let migrationMilliseconds: Int32 = 3_600_000
    private static let migrationLimits = settings(lock: 2_000, statement: migrationMilliseconds, idle: 10_000)
    /// How long a program waits for another one that migrates the schema, and between two tries.
    private static let schemaPatience = Duration.seconds(10)
    private static let schemaPause: UInt32 = 50_000

    func findTables() throws(SQLFault) -> Bool {
        let older = schema.findsOlder ? "CAST(current_schemas(false) AS TEXT[])" : "CAST(ARRAY[] AS TEXT[])"
        let found = try runAlone(
            """
            SELECT places.name FROM unnest(CAST($1 AS TEXT) || \(older)) WITH ORDINALITY AS places (name, rank)
            WHERE (SELECT COUNT(*) FROM pg_tables WHERE schemaname = places.name AND tablename IN (\(OwnTables.list)))
                = \(OwnTables.telling.count) ORDER BY places.rank LIMIT 1
            """, [.text(schema.name)])
        guard var row = found.rows.first else { return false }
        place = try row.text()
        dialect = .postgres(schema, in: place)
        return true
    }

    func lockSchema() throws(SQLFault) {
        patience = Self.migrationMilliseconds
        // Its statements are sent as they are, so the transaction begins here.
        _ = try send([])
        try command(Self.migrationLimits.map { "SET LOCAL \($0) = \($1)" }.joined(separator: "; "))
        let deadline = ContinuousClock.now.advanced(by: Self.schemaPatience)
        while try !holds("pg_try_advisory_xact_lock(\(schema.lockKey))") {
            guard .now < deadline else { throw try holderOfSchemaLock() }
            // This thread belongs to the pool and may sleep.
            usleep(Self.schemaPause)
        }
        // Another program may have made the tables meanwhile, in another schema.
        if try findTables() {
            try command("SET LOCAL search_path = \(PostgresSchema.quoted(place)), pg_temp")
            return
        }
        if try holds("to_regnamespace(\(literal(PostgresSchema.quoted(place)))) IS NOT NULL") { return }
        guard try holds("has_database_privilege(current_database(), 'CREATE')") else {
            throw .failed(
                """
                the role may not create the schema \(place) in the database: let an administrator run \
                CREATE SCHEMA \(place) AUTHORIZATION the role, or GRANT CREATE ON DATABASE
                """)
        }
        try command("CREATE SCHEMA \(PostgresSchema.quoted(place))")
    }

    func holds(_ condition: String) throws(SQLFault) -> Bool {
        var row = try runAlone("SELECT CAST(\(condition) AS INTEGER)").rows.first
        return try row?.flag() ?? false
    }

    /// The fault of a wait for the lock that was too long; it names the process that has it.
    private func holderOfSchemaLock() throws(SQLFault) -> SQLFault {
        let holder = try runAlone(
            """
            SELECT locks.pid, COALESCE(host(sessions.client_addr), 'a local socket')
            FROM pg_locks locks LEFT JOIN pg_stat_activity sessions ON sessions.pid = locks.pid
            WHERE locks.locktype = 'advisory' AND locks.granted AND locks.objsubid = 1
                AND (CAST(locks.classid AS BIGINT) << 32 | CAST(locks.objid AS BIGINT)) = $1
                AND locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            """, [.integer(schema.lockKey)])
        guard var row = holder.rows.first else { return .busy("another program migrates the schema of the database") }
        let (id, address) = (try row.integer(), try row.text())
        return .busy(
            """
            another program holds the lock for migrating the schema of the database: process \(id) of the server, from \(address); \
            wait until it is done, or end it by SELECT pg_terminate_backend(\(id))
            """)
    }
}
