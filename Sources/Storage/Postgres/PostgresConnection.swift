internal import CPostgres
internal import Glibc

/// A connection to a PostgreSQL server.
@safe final class PostgresConnection: SQLConnection {
    /// Timeouts for connecting (seconds), for a statement, and for one of a migration (milliseconds). A migration that were given up
    /// would go on at the server, be rolled back, and begin anew.
    private static let connectSeconds = "3"
    private static let answerMilliseconds: Int32 = 5_000
    private static let migrationMilliseconds: Int32 = 3_600_000
    /// The server's bounds of each transaction, in milliseconds. It gives up a lock and a statement before `answerMilliseconds`, so
    /// that no statement goes on there once its call is answered; a transaction whose gateway has stopped ends before others give up
    /// their waiting for its locks. Set in each transaction: a pooler keeps nothing else for a client.
    private static let limits = settings(lock: 3_000, statement: 4_000, idle: 2_000)
    private static let migrationLimits = settings(lock: 2_000, statement: migrationMilliseconds, idle: 10_000)
    /// How long a program waits for another one that migrates the schema, and between two tries.
    private static let schemaPatience = Duration.seconds(10)
    private static let schemaPause: UInt32 = 50_000
    /// The end of a line that is silent, at both of its ends: probes after 5 s, and 10 s for what was sent.
    private static let keepalives = [
        ("keepalives_idle", "5"), ("keepalives_interval", "2"), ("keepalives_count", "3"), ("tcp_user_timeout", "10000"),
    ]
    private static let serverKeepalives = keepalives.map { "SET \($0.0.hasPrefix("tcp_") ? "" : "tcp_")\($0.0) = \($0.1)" }.joined(separator: "; ")

    private let handle: OpaquePointer
    private let statements: PreparedStatements
    private let schema: PostgresSchema
    /// The schema that has the tables, or will have them.
    private(set) var place: String
    private(set) var dialect: SQLDialect
    /// Whether a pooler stands between: then the process that serves this connection is not the one that libpq knows.
    private(set) var isPooled = false
    /// The server's process for this connection; nil behind a pooler, which has another one for each transaction, and where the role may
    /// not see when it started.
    private var process: ServerProcess?
    /// That process if an answer did not come in time: it may still be at work.
    var abandoned: ServerProcess? { hasGivenUp ? process : nil }
    private var hasGivenUp = false
    /// Where the server stands; nil behind a pooler, and where the role may not ask.
    private(set) var epoch: ServerEpoch?
    /// The term of `DatabasePrimary` for which it was opened.
    var term: UInt64 = 0
    /// Whether the URL asks for another kind of server than one that takes writes.
    private let mayRead: Bool
    /// Whether the server took no writes when the connection was made, as the URL allows.
    private var takesReader = false
    /// Whether the server has stopped to take writes: another one is the primary, or will be.
    private var hasLostPrimary = false
    /// Whether all connections must therefore move. A stale connection that a pooler keeps says nothing of its others.
    var endsTerm: Bool { hasLostPrimary && !isPooled }
    /// The texts of the statements that are prepared on this connection.
    private var prepared: Set<String> = []
    /// Written with each commit once the schema has the table, so that a commit without an answer can be looked up.
    var marksCommits = false
    /// The timeout of the statements of the transaction in progress.
    private var patience = PostgresConnection.answerMilliseconds
    private var isWriting = false
    /// The mark of the writing transaction in progress.
    private(set) var mark: CommitMark?

    /// Whether the connection broke and must be replaced.
    private(set) var isBroken = false
    /// Whether it broke during a commit, whose outcome is therefore unknown.
    private(set) var mayHaveCommitted = false
    var touched = TouchedRows()

    /// Connects to the first server of the URL that accepts writes, unless the URL asks for another kind.
    /// `place`: the schema that has the tables, if it is known. `left`: the servers of the URL that are to be tried; nil: all.
    init(
        url: String, schema: PostgresSchema, place: String? = nil, statements: PreparedStatements = PreparedStatements(),
        at left: ServersLeft? = nil
    ) throws(SQLFault) {
        self.statements = statements
        self.schema = schema
        self.place = place ?? schema.name
        mayRead = url.contains("target_session_attrs=") && !url.contains("target_session_attrs=read-write")
        dialect = .postgres(schema, in: place ?? schema.name)
        // Later settings override earlier ones, so the URL overrides the defaults.
        let settings = [
            ("connect_timeout", Self.connectSeconds), ("application_name", "tollgate"), ("target_session_attrs", "read-write"),
        ] + Self.keepalives + [("dbname", url), ("client_encoding", "UTF8")] + (left?.settings ?? [])
        guard var handle = unsafe Self.connect(settings) else { throw .lost("libpq has no memory") }
        while unsafe PQstatus(handle) != CONNECTION_OK, let left = unsafe ServersLeft(behind: handle),
            let next = unsafe Self.connect(settings + left.settings)
        {
            unsafe PQfinish(handle)
            unsafe handle = next
        }
        unsafe self.handle = handle
        guard unsafe PQstatus(handle) == CONNECTION_OK else { throw lost() }
        // By default libpq writes notices to standard error.
        _ = unsafe PQsetNoticeProcessor(handle, { _, _ in }, nil)
        try meetServer()
    }

    /// Learns which process serves the connection. Without a pooler between, which would hand the session on, that one ends silent lines.
    private func meetServer() throws(SQLFault) {
        let own = "SELECT pid, \(ServerProcess.start) FROM pg_stat_get_activity(pg_backend_pid())"
        guard var row = try run(own, [], as: nil).rows.first else { return }
        let (id, start) = (try row.integer(), try row.optionalInteger())
        isPooled = id != Int64(unsafe PQbackendPID(handle))
        // Behind a pooler this may be another server than libpq has asked: unless the URL allows a reader, none is taken for one.
        if mayRead { takesReader = try !takesWrites() }
        if isPooled { return }
        process = start.map { ServerProcess(id: id, start: $0) }
        try command(Self.serverKeepalives)
        if !takesReader { epoch = try askEpoch() }
    }

    /// The servers of the URL behind this one.
    var serversLeft: ServersLeft? { unsafe ServersLeft(behind: handle) }

    /// nil where the role may not ask.
    private func askEpoch() throws(SQLFault) -> ServerEpoch? {
        let question = """
            SELECT system_identifier, CAST(CAST('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS BIT(32)) AS BIGINT)
            FROM pg_control_system()
            """
        do throws(SQLFault) {
            guard var row = try run(question, [], as: nil).rows.first else { return nil }
            return ServerEpoch(system: try row.integer(), timeline: try row.integer())
        } catch {
            if isBroken { throw error }
            return nil
        }
    }

    /// A setting of the server that it reports; nil if it does not.
    private func reported(_ setting: String) -> String? {
        unsafe PQparameterStatus(handle, setting).map { unsafe String(cString: $0) }
    }

    /// Whether the server takes writes, as one from PostgreSQL 14 on tells with the answer to each message; nil from another one, and
    /// behind a pooler: these are asked for `writesAreTaken`.
    private var reportsWrites: Bool? {
        let reports = ["in_hot_standby", "default_transaction_read_only"].map(reported)
        return isPooled || reports.contains(nil) ? nil : !reports.contains("on")
    }

    private static let writesAreTaken = "NOT pg_is_in_recovery() AND current_setting('default_transaction_read_only') = 'off'"

    private func takesWrites() throws(SQLFault) -> Bool {
        if let reportsWrites { return reportsWrites }
        return try holds(Self.writesAreTaken)
    }

    /// Ends a process of the same server that may still be at work for a connection that was given up.
    func end(_ process: ServerProcess) throws(SQLFault) {
        _ = try run(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_get_activity(CAST(CAST($1 AS BIGINT) AS INTEGER))
            WHERE \(ServerProcess.start) = $2
            """,
            [.integer(process.id), .integer(process.start)], as: nil)
    }

    deinit { unsafe PQfinish(handle) }

    private static func connect(_ settings: [(String, String)]) -> OpaquePointer? {
        let keywords = settings.map { $0.0.utf8CString }.map(Array.init)
        let values = settings.map { $0.1.utf8CString }.map(Array.init)
        return unsafe withPointers(keywords) { keywords in
            unsafe withPointers(values) { values in unsafe PQconnectdbParams(keywords, values, 1) }
        }
    }

    func run(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLResult {
        try run(sql, values, as: try preparedName(of: sql))
    }

    /// Runs a statement by the name under which it is prepared; without one as it is.
    private func run(_ sql: String, _ values: [SQLValue], as name: String?) throws(SQLFault) -> SQLResult {
        let parameters = PostgresParameters(values)
        let count = Int32(values.count)
        let isSent = unsafe parameters.withPointers { pointers, lengths, formats in
            if let name { return unsafe PQsendQueryPrepared(handle, name, count, pointers, lengths, formats, 1) == 1 }
            return unsafe PQsendQueryParams(handle, sql, count, nil, pointers, lengths, formats, 1) == 1
        }
        guard isSent else { throw lost() }
        return try answer(to: sql)
    }

    /// The name of the prepared statement for this text, whose parameter types the server infers; nil to send the text itself.
    private func preparedName(of sql: String) throws(SQLFault) -> String? {
        guard let name = statements.name(of: sql) else { return nil }
        if prepared.contains(sql) { return name }
        guard unsafe PQsendPrepare(handle, name, sql, 0, nil) == 1 else { throw lost() }
        _ = try answer(to: sql)
        prepared.insert(sql)
        return name
    }

    func begin(isWriting: Bool) throws(SQLFault) {
        mark = isWriting && marksCommits ? CommitMark() : nil
        mayHaveCommitted = false
        patience = Self.answerMilliseconds
        let path = "SET LOCAL search_path = \(PostgresSchema.quoted(place)), pg_temp"
        self.isWriting = isWriting
        // Asked in the same message, so that a transaction takes no longer. Only a text comes alike in both formats of values.
        let question = takesReader || reportsWrites != nil ? "" : "; SELECT CAST((\(Self.writesAreTaken)) AS TEXT)"
        var answer = try command("\(isWriting ? "BEGIN" : "BEGIN READ ONLY"); \(path); \(Self.limits)\(question)").rows.first
        // Read from a server that takes no writes, nothing is sure to be the newest.
        let isTaken = try answer?.text()
        if !takesReader, !(reportsWrites ?? (isTaken == "true")) {
            (isBroken, hasLostPrimary) = (true, true)
            throw .lost("PostgreSQL: the server takes no writes any more")
        }
    }

    /// Asks whether the server is there, and still the primary; outside of transactions.
    func probe() throws(SQLFault) {
        try begin(isWriting: false)
        try commit()
    }

    func commit() throws(SQLFault) {
        mayHaveCommitted = true
        patience = Self.answerMilliseconds
        try command(mark.map { "\($0.statement); COMMIT" } ?? "COMMIT")
        mayHaveCommitted = false
    }

    func rollBack() {
        guard !isBroken else { return }
        patience = Self.answerMilliseconds
        do throws(SQLFault) { try command("ROLLBACK") } catch { isBroken = true }
    }

    private static func settings(lock: Int32, statement: Int32, idle: Int32) -> String {
        [("lock_timeout", lock), ("statement_timeout", statement), ("idle_in_transaction_session_timeout", idle)]
            .map { "SET LOCAL \($0) = \($1)" }.joined(separator: "; ")
    }

    // MARK: the schema

    func findTables() throws(SQLFault) -> Bool {
        let older = schema.findsOlder ? "CAST(current_schemas(false) AS TEXT[])" : "CAST(ARRAY[] AS TEXT[])"
        let found = try run(
            """
            SELECT places.name FROM unnest(CAST($1 AS TEXT) || \(older)) WITH ORDINALITY AS places (name, rank)
            WHERE (SELECT COUNT(*) FROM pg_tables WHERE schemaname = places.name AND tablename IN (\(OwnTables.list)))
                = \(OwnTables.telling.count) ORDER BY places.rank LIMIT 1
            """, [.text(schema.name)], as: nil)
        guard var row = found.rows.first else { return false }
        place = try row.text()
        dialect = .postgres(schema, in: place)
        return true
    }

    func lockSchema() throws(SQLFault) {
        patience = Self.migrationMilliseconds
        try command(Self.migrationLimits)
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

    private func holds(_ condition: String) throws(SQLFault) -> Bool {
        var row = try run("SELECT CAST(\(condition) AS INTEGER)", [], as: nil).rows.first
        return try row?.flag() ?? false
    }

    /// The fault of a wait for the lock that was too long; it names the process that has it.
    private func holderOfSchemaLock() throws(SQLFault) -> SQLFault {
        let holder = try run(
            """
            SELECT locks.pid, COALESCE(host(sessions.client_addr), 'a local socket')
            FROM pg_locks locks LEFT JOIN pg_stat_activity sessions ON sessions.pid = locks.pid
            WHERE locks.locktype = 'advisory' AND locks.granted AND locks.objsubid = 1
                AND (CAST(locks.classid AS BIGINT) << 32 | CAST(locks.objid AS BIGINT)) = $1
                AND locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            """, [.integer(schema.lockKey)], as: nil)
        guard var row = holder.rows.first else { return .busy("another program migrates the schema of the database") }
        let (id, address) = (try row.integer(), try row.text())
        return .busy(
            """
            another program holds the lock for migrating the schema of the database: process \(id) of the server, from \(address); \
            wait until it is done, or end it by SELECT pg_terminate_backend(\(id))
            """)
    }

    private func literal(_ text: String) -> String { "'" + text.replacing("'", with: "''") + "'" }

    // MARK: notifications

    /// Subscribes to the notifications of the triggers.
    func listen() throws(SQLFault) { try command("LISTEN \(PostgresSchema.quoted(schema.channel))") }

    /// Whether a notification has arrived; discards all that have.
    func isNotified() throws(SQLFault) -> Bool {
        guard unsafe PQconsumeInput(handle) == 1 else { throw lost() }
        var found = false
        while let notice = unsafe PQnotifies(handle) {
            unsafe PQfreemem(notice)
            found = true
        }
        return found
    }

    /// The socket, to poll for notifications.
    var descriptor: Int32 { unsafe PQsocket(handle) }

    @discardableResult
    private func command(_ sql: String) throws(SQLFault) -> SQLResult {
        guard unsafe PQsendQuery(handle, sql) == 1 else { throw lost() }
        return try answer(to: sql)
    }

    /// Waits for the results of a statement, and reads all of them.
    private func answer(to sql: String) throws(SQLFault) -> SQLResult {
        var result = SQLResult()
        var found: SQLFault?
        while true {
            guard unsafe PostgresWait.forAnswer(handle, milliseconds: patience) else {
                (isBroken, hasGivenUp) = (true, true)
                throw .lost("PostgreSQL does not answer in time")
            }
            guard let answer = unsafe PostgresAnswer(PQgetResult(handle)) else { break }
            if let refusal = answer.refusal { found = fault(of: refusal, sql) }
            result.rows += answer.rows
            result.changed += answer.changed
        }
        if unsafe PQstatus(handle) != CONNECTION_OK { throw lost() }
        if let found { throw found }
        return result
    }

    /// Marks the connection as broken; returns libpq's error.
    private func lost() -> SQLFault {
        isBroken = true
        let reason = unsafe String(cString: PQerrorMessage(handle))
        return .lost("PostgreSQL: \(reason.split(separator: "\n").joined(separator: "; "))")
    }

    /// Classifies an error by its SQLSTATE (PostgreSQL manual, appendix A).
    private func fault(of refusal: PostgresAnswer.Refusal, _ sql: String) -> SQLFault {
        let reason = "PostgreSQL: \(refusal.message) (\(refusal.state)), at: \(sql)"
        switch refusal.state {
        // Serialisation failure, deadlock, and a unique row inserted concurrently.
        case "40001", "40P01", "23505": return .conflict
        // A prepared statement that is there already, or is missing: a pooler has changed the server connection.
        case "42P05", "26000":
            statements.giveUp()
            return .conflict
        // A lock, or a statement, took too long.
        case "55P03", "57014": return .busy(reason)
        case let state where ["08", "53", "57", "58", "25"].contains(state.prefix(2)):
            if state == "25006", isWriting { hasLostPrimary = true }
            // Shutting down, out of space, or read-only after a failover: a new connection may succeed.
            isBroken = true
            return .lost(reason)
        default: return .failed(reason)
        }
    }
}

/// A process of the server that serves one connection.
struct ServerProcess: Sendable, Equatable {
    /// Expression for when a session's process started, in microseconds since 1970: its number may be another one's later.
    static let start = "CAST(EXTRACT(EPOCH FROM backend_start) * 1000000 AS BIGINT)"

    let id: Int64
    let start: Int64
}
