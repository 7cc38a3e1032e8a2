internal import CPostgres
internal import Glibc
internal import Wire

/// A connection to a PostgreSQL server.
@safe final class PostgresConnection: SQLConnection {
    /// Timeouts for connecting (seconds), and for a statement (milliseconds).
    private static let connectSeconds = "3"
    private static let answerMilliseconds: Int32 = 5_000
    /// The server's bounds of each transaction, in milliseconds. It gives up a lock and a statement before `answerMilliseconds`, so
    /// that no statement goes on there once its call is answered; a transaction whose gateway has stopped ends before others give up
    /// their waiting for its locks. Set in each transaction: a pooler keeps nothing else for a client.
    private static let limits = settings(lock: 3_000, statement: 4_000, idle: 2_000)
    /// The end of a line that is silent, at both of its ends: probes after 5 s, and 10 s for what was sent.
    private static let keepalives = [
        ("keepalives_idle", "5"), ("keepalives_interval", "2"), ("keepalives_count", "3"), ("tcp_user_timeout", "10000"),
    ]
    private static let serverKeepalives = keepalives.map { "SET \($0.0.hasPrefix("tcp_") ? "" : "tcp_")\($0.0) = \($0.1)" }.joined(
        separator: "; ")

    private let handle: OpaquePointer
    private let statements: PreparedStatements
    let schema: PostgresSchema
    /// The schema that has the tables, or will have them.
    var place: String { didSet { firsts = [:] } }
    /// The statements of `first`: to write one takes a tenth of a refresh.
    private var firsts: [Bool: SQLStatement] = [:]
    var dialect: SQLDialect
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
    /// The names of the statements that are prepared on this connection, by their texts.
    private var names: [String: String] = [:]
    /// The beginning of the transaction, and statements of it, while they wait to be sent.
    private var (beginning, later): ([SQLStatement], [SQLStatement]) = ([], [])
    /// Written with each commit once the schema has the table, so that a commit without an answer can be looked up.
    var marksCommits = false
    /// The timeout of the statements of the transaction in progress.
    var patience = PostgresConnection.answerMilliseconds
    private var isWriting = false
    /// The mark of the writing transaction in progress.
    private(set) var mark: CommitMark?

    /// Whether the connection broke and must be replaced.
    private(set) var isBroken = false
    /// Whether it broke during a commit, whose outcome is therefore unknown.
    private(set) var mayHaveCommitted = false
    /// Whether the server has refused a statement of the transaction.
    private var isRefused = false
    var touched = TouchedRows()

    /// Connects to the first server of the URL that accepts writes, unless the URL asks for another kind.
    /// `place`: the schema that has the tables, if it is known. `left`: the servers of the URL that are to be tried; nil: all.
    init(
        url: String, schema: PostgresSchema, place: String? = nil, statements: PreparedStatements = PreparedStatements(),
        at left: RemainingHosts? = nil
    ) throws(SQLFault) {
        self.statements = statements
        self.schema = schema
        self.place = place ?? schema.name
        mayRead = url.contains("target_session_attrs=") && !url.contains("target_session_attrs=read-write")
        dialect = .postgres(schema, in: place ?? schema.name)
        // Later settings override earlier ones, so the URL overrides the defaults.
        let settings =
            [
                ("connect_timeout", Self.connectSeconds), ("application_name", "tollgate"), ("target_session_attrs", "read-write"),
            ] + Self.keepalives + [("dbname", url), ("client_encoding", "UTF8")] + (left?.settings ?? [])
        guard var handle = unsafe Self.connect(settings) else { throw .lost("libpq has no memory") }
        while unsafe PQstatus(handle) != CONNECTION_OK, let left = unsafe RemainingHosts(behind: handle),
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
        guard var row = try runAlone(own).rows.first else { return }
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
    var serversLeft: RemainingHosts? { unsafe RemainingHosts(behind: handle) }

    /// nil where the role may not ask.
    private func askEpoch() throws(SQLFault) -> ServerEpoch? {
        let question = """
            SELECT system_identifier, CAST(CAST('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS BIT(32)) AS BIGINT)
            FROM pg_control_system()
            """
        do throws(SQLFault) {
            guard var row = try runAlone(question).rows.first else { return nil }
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
        _ = try runAlone(
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_get_activity(CAST(CAST($1 AS BIGINT) AS INTEGER))
            WHERE \(ServerProcess.start) = $2
            """,
            [.integer(process.id), .integer(process.start)])
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
        try run(together: [SQLStatement(sql, values)]).first ?? SQLResult()
    }

    func run(together statements: [SQLStatement]) throws(SQLFault) -> [SQLResult] {
        for statement in statements { try prepare(statement.text) }
        return try send(statements)
    }

    /// Fails with a division by zero where no row changes, so that the server skips what is behind it, the commit too.
    private static let laterPrefix = "WITH changed AS ("

    func runLater(_ statement: SQLStatement, changes: Bool) throws(SQLFault) {
        let conditional = "\(Self.laterPrefix)\(statement.text) RETURNING 1) SELECT 1 / COUNT(*) FROM changed"
        let text = changes ? conditional : statement.text
        try prepare(text)
        later.append(SQLStatement(text, statement.values))
    }

    /// Sends what waits to be sent, then these statements, in one message; returns the results of these. The server skips what is behind
    /// one that fails.
    func send(_ statements: [SQLStatement]) throws(SQLFault) -> [SQLResult] {
        let (begun, all) = (beginning.count, beginning + later + statements)
        (beginning, later) = ([], [])
        guard !all.isEmpty else { return [] }
        guard unsafe PQenterPipelineMode(handle) == 1, all.allSatisfy({ isSent($0, as: names[$0.text]) }),
            unsafe PQpipelineSync(handle) == 1
        else { throw lost() }
        var results: [SQLResult] = []
        var found: SQLFault?
        for (index, statement) in all.enumerated() {
            do throws(SQLFault) {
                results.append(try answer(to: statement.text))
            } catch {
                // The server skips what is behind a statement that it refuses, a commit too.
                if isRefused, index < all.count - 1 { mayHaveCommitted = false }
                if isBroken { throw error }
                found = found ?? error
            }
        }
        // The end of the message has a result of its own.
        _ = try answer(to: "")
        guard unsafe PQexitPipelineMode(handle) == 1 else { throw lost() }
        if let found {
            mayHaveCommitted = false
            throw found
        }
        if begun > 0 { try checkTakesWrites(results[begun - 1]) }
        return Array(results.suffix(statements.count))
    }

    private func isSent(_ statement: SQLStatement, as name: String?) -> Bool {
        let parameters = PostgresParameters(statement.values)
        let count = Int32(statement.values.count)
        return unsafe parameters.withPointers { pointers, lengths, formats in
            if let name { return unsafe PQsendQueryPrepared(handle, name, count, pointers, lengths, formats, 1) == 1 }
            return unsafe PQsendQueryParams(handle, statement.text, count, nil, pointers, lengths, formats, 1) == 1
        }
    }

    /// Runs a statement as it is, outside of what waits to be sent.
    func runAlone(_ sql: String, _ values: [SQLValue] = []) throws(SQLFault) -> SQLResult {
        guard isSent(SQLStatement(sql, values), as: nil) else { throw lost() }
        return try answer(to: sql)
    }

    /// Prepares the statement of this text, whose parameter types the server infers, unless texts themselves are sent. The server reads its
    /// names by the settings of the transaction.
    private func prepare(_ sql: String) throws(SQLFault) {
        guard let name = statements.name(of: sql) else { return names = [:] }
        if names[sql] != nil { return }
        _ = try send([])
        guard unsafe PQsendPrepare(handle, name, sql, 0, nil) == 1 else { throw lost() }
        _ = try answer(to: sql)
        names[sql] = name
    }

    /// Sent with the first statement, so that it takes no time of its own.
    func begin(isWriting: Bool) {
        mark = isWriting && marksCommits ? CommitMark() : nil
        (mayHaveCommitted, isRefused) = (false, false)
        patience = Self.answerMilliseconds
        self.isWriting = isWriting
        let asks = !takesReader && reportsWrites == nil
        let first = firsts[asks] ?? first(asks)
        firsts[asks] = first
        beginning = [SQLStatement(isWriting ? "BEGIN" : "BEGIN READ ONLY"), first]
        later = []
    }

    /// The first statement of a transaction, which sets its bounds and may ask whether the server takes writes.
    private func first(_ asks: Bool) -> SQLStatement {
        // Only a text comes alike in both formats of values.
        let question = asks ? "CAST((\(Self.writesAreTaken)) AS TEXT)" : "NULL"
        let settings = [("search_path", "\(PostgresSchema.quoted(place)), pg_temp")] + Self.limits
        let set = settings.map { "set_config('\($0.0)', \(literal($0.1)), true)" }.joined(separator: ", ")
        return SQLStatement("SELECT \(question), \(set)")
    }

    /// The transaction that has begun, of which nothing was sent yet, ends without waiting for the disk, and leaves no mark.
    func forgoDurability() {
        mark = nil
        beginning.insert(SQLStatement("SET LOCAL synchronous_commit = off"), at: 1)
    }

    /// Read from a server that takes no writes, nothing is sure to be the newest.
    private func checkTakesWrites(_ answer: SQLResult) throws(SQLFault) {
        var row = answer.rows.first
        let isTaken = try row?.optionalText()
        if !takesReader, !(reportsWrites ?? (isTaken == "true")) {
            (isBroken, hasLostPrimary) = (true, true)
            throw .lost("PostgreSQL: the server takes no writes any more")
        }
    }

    /// Asks whether the server is there, and still the primary; outside of transactions.
    func probe() throws(SQLFault) {
        begin(isWriting: false)
        try commit()
    }

    func commit() throws(SQLFault) {
        mayHaveCommitted = true
        patience = Self.answerMilliseconds
        _ = try send((mark.map { [$0.statement] } ?? []) + [SQLStatement("COMMIT")])
        mayHaveCommitted = false
    }

    func rollBack() {
        let hasBegun = beginning.isEmpty
        (beginning, later) = ([], [])
        guard !isBroken, hasBegun else { return }
        patience = Self.answerMilliseconds
        do throws(SQLFault) { try command("ROLLBACK") } catch { isBroken = true }
    }

    static func settings(lock: Int32, statement: Int32, idle: Int32) -> [(String, String)] {
        [("lock_timeout", "\(lock)"), ("statement_timeout", "\(statement)"), ("idle_in_transaction_session_timeout", "\(idle)")]
    }

    func literal(_ text: String) -> String { "'" + text.replacing("'", with: "''") + "'" }

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
    func command(_ sql: String) throws(SQLFault) -> SQLResult {
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
        // A connection that is lost has no SQLSTATE, and what ends one may come in place of a statement's answer.
        isRefused = !refusal.state.isEmpty && !["08", "57", "58"].contains(refusal.state.prefix(2))
        switch refusal.state {
        // Serialisation failure, deadlock, and a unique row inserted concurrently.
        case "40001", "40P01", "23505": return .conflict
        case "22012" where sql.hasPrefix(Self.laterPrefix): return .conflict
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
