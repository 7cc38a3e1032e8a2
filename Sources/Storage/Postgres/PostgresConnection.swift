internal import CPostgres

/// A connection to a PostgreSQL server.
@safe final class PostgresConnection: SQLConnection {
    /// Timeouts for connecting (seconds), for a statement, and for one of a migration (milliseconds). A migration that were given up
    /// would go on at the server, be rolled back, and begin anew.
    private static let connectSeconds = "3"
    private static let answerMilliseconds: Int32 = 5_000
    private static let migrationMilliseconds: Int32 = 3_600_000
    /// Key of the advisory lock: `tollgate` in ASCII, so that no other program uses it.
    private static let schemaLock: Int64 = 0x746F_6C6C_6761_7465

    private let handle: OpaquePointer
    private let statements: PreparedStatements
    /// The texts of the statements that are prepared on this connection.
    private var prepared: Set<String> = []
    /// Written with each commit once the schema has the table, so that a commit without an answer can be looked up.
    var marksCommits = false
    /// The timeout of the statements of the transaction in progress.
    private var patience = PostgresConnection.answerMilliseconds
    /// The mark of the writing transaction in progress.
    private(set) var mark: CommitMark?

    /// Whether the connection broke and must be replaced.
    private(set) var isBroken = false
    /// Whether it broke during a commit, whose outcome is therefore unknown.
    private(set) var mayHaveCommitted = false
    var touched = TouchedRows()

    /// Connects to the first server of the URL that accepts writes, unless the URL asks for another kind.
    init(url: String, statements: PreparedStatements = PreparedStatements()) throws(SQLFault) {
        self.statements = statements
        // Later settings override earlier ones, so the URL overrides the defaults.
        let settings = [
            ("connect_timeout", Self.connectSeconds), ("application_name", "tollgate"), ("target_session_attrs", "read-write"),
            ("dbname", url), ("client_encoding", "UTF8"),
        ]
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
        let name = try preparedName(of: sql)
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
        try command(isWriting ? "BEGIN" : "BEGIN READ ONLY")
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

    var dialect: SQLDialect { .postgres }

    func lockSchema() throws(SQLFault) {
        patience = Self.migrationMilliseconds
        try command("SELECT pg_advisory_xact_lock(\(Self.schemaLock))")
    }

    // MARK: notifications

    /// Subscribes to the notifications of the triggers.
    func listen() throws(SQLFault) { try command("LISTEN tollgate") }

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

    /// Whether a pooler stands between: then the process that serves this connection is not the one that libpq knows.
    func isPooled() throws(SQLFault) -> Bool {
        guard var row = try run("SELECT pg_backend_pid()", []).rows.first else { return false }
        return try row.integer() != Int64(unsafe PQbackendPID(handle))
    }

    /// The socket, to poll for notifications.
    var descriptor: Int32 { unsafe PQsocket(handle) }

    private func command(_ sql: String) throws(SQLFault) {
        guard unsafe PQsendQuery(handle, sql) == 1 else { throw lost() }
        _ = try answer(to: sql)
    }

    /// Waits for the results of a statement, and reads all of them.
    private func answer(to sql: String) throws(SQLFault) -> SQLResult {
        var result = SQLResult()
        var found: SQLFault?
        while true {
            guard unsafe PostgresWait.forAnswer(handle, milliseconds: patience) else {
                isBroken = true
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
        case let state where ["08", "53", "57", "58", "25"].contains(state.prefix(2)):
            // Shutting down, out of space, or read-only after a failover: a new connection may succeed.
            isBroken = true
            return .lost(reason)
        default: return .failed(reason)
        }
    }
}
