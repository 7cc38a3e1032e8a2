internal import CPostgres

/// One connection to a PostgreSQL server.
@safe final class PostgresConnection: SQLConnection {
    /// How long the server may take to let a connection in (in seconds), and to answer a statement (in milliseconds).
    private static let connectSeconds = "3"
    private static let answerMilliseconds: Int32 = 5_000
    /// Any number that no other program takes for the same end: it spells `tollgate` in ASCII.
    private static let schemaLock: Int64 = 0x746F_6C6C_6761_7465

    private let handle: OpaquePointer
    /// The names of the prepared statements.
    private var names: [String: String] = [:]

    /// Whether it broke, and must not be used any more.
    private(set) var isBroken = false
    /// Whether it broke while a commit was under way, so that nobody knows what became of it.
    private(set) var mayHaveCommitted = false
    var touched = TouchedRows()
    let onChange: ChangeNotice

    /// Connects to where `url` says.
    init(url: String, onChange: @escaping ChangeNotice = { _ in }) throws(SQLFault) {
        self.onChange = onChange
        // What the URL says comes after the defaults and counts more.
        let settings = [
            ("connect_timeout", Self.connectSeconds), ("application_name", "tollgate"), ("dbname", url),
            ("client_encoding", "UTF8"),
        ]
        guard let handle = unsafe Self.connect(settings) else { throw .lost("libpq has no memory") }
        unsafe self.handle = handle
        guard unsafe PQstatus(handle) == CONNECTION_OK else { throw lost() }
        // Notices would go to the process's standard error.
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
        let name = try name(of: sql)
        let parameters = PostgresParameters(values)
        let isSent = unsafe parameters.withPointers { pointers, lengths, formats in
            unsafe PQsendQueryPrepared(handle, name, Int32(values.count), pointers, lengths, formats, 1) == 1
        }
        guard isSent else { throw lost() }
        return try answer(to: sql)
    }

    /// The name of the prepared statement of this text. The server finds the types of its parameters.
    private func name(of sql: String) throws(SQLFault) -> String {
        if let known = names[sql] { return known }
        let name = "s\(names.count + 1)"
        guard unsafe PQsendPrepare(handle, name, sql, 0, nil) == 1 else { throw lost() }
        _ = try answer(to: sql)
        names[sql] = name
        return name
    }

    func begin(isWriting: Bool) throws(SQLFault) { try command(isWriting ? "BEGIN" : "BEGIN READ ONLY") }

    func commit() throws(SQLFault) {
        mayHaveCommitted = true
        try command("COMMIT")
        mayHaveCommitted = false
    }

    func rollBack() {
        guard !isBroken else { return }
        do throws(SQLFault) { try command("ROLLBACK") } catch { isBroken = true }
    }

    var lockClause: String { " FOR UPDATE" }
    var dialect: SQLDialect { .postgres }

    func lockSchema() throws(SQLFault) { try command("SELECT pg_advisory_xact_lock(\(Self.schemaLock))") }

    // MARK: notifications

    /// From now on `hears` tells of what the triggers notify.
    func listen() throws(SQLFault) { try command("LISTEN tollgate") }

    /// Whether a notification has come; all that have are forgotten.
    func hears() throws(SQLFault) -> Bool {
        guard unsafe PQconsumeInput(handle) == 1 else { throw lost() }
        var isNotified = false
        while let notice = unsafe PQnotifies(handle) {
            unsafe PQfreemem(notice)
            isNotified = true
        }
        return isNotified
    }

    /// What to wait at for the server's next word.
    var descriptor: Int32 { unsafe PQsocket(handle) }

    private func command(_ sql: String) throws(SQLFault) {
        guard unsafe PQsendQuery(handle, sql) == 1 else { throw lost() }
        _ = try answer(to: sql)
    }

    /// Waits for what the server says, and reads all of it.
    private func answer(to sql: String) throws(SQLFault) -> SQLResult {
        var result = SQLResult()
        var fault: SQLFault?
        while true {
            guard unsafe PostgresWait.forAnswer(handle, milliseconds: Self.answerMilliseconds) else {
                isBroken = true
                throw .lost("PostgreSQL does not answer in time")
            }
            guard let answer = unsafe PostgresAnswer(PQgetResult(handle)) else { break }
            if let refusal = answer.refusal { fault = told(refusal, sql) }
            result.rows += answer.rows
            result.changed += answer.changed
        }
        if unsafe PQstatus(handle) != CONNECTION_OK { throw lost() }
        if let fault { throw fault }
        return result
    }

    /// Why the connection is of no use any more.
    private func lost() -> SQLFault {
        isBroken = true
        let reason = unsafe String(cString: PQerrorMessage(handle))
        return .lost("PostgreSQL: \(reason.split(separator: "\n").joined(separator: "; "))")
    }

    /// What a refusal means, by the class of its SQLSTATE (PostgreSQL manual, appendix A).
    private func told(_ refusal: PostgresAnswer.Refusal, _ sql: String) -> SQLFault {
        let reason = "PostgreSQL: \(refusal.message) (\(refusal.state)), at: \(sql)"
        switch refusal.state {
        // Serialisation, deadlock, and a row that somebody else has just inserted.
        case "40001", "40P01", "23505": return .conflict
        case let state where ["08", "53", "57", "58", "25"].contains(state.prefix(2)):
            // Shutting down, out of room, or read-only after a fail-over: another connection may fare better.
            isBroken = true
            return .lost(reason)
        default: return .failed(reason)
        }
    }
}
