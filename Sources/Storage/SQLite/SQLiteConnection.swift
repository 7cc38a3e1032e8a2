internal import CSQLite
internal import Glibc
internal import Wire

/// A connection to an SQLite file.
@safe final class SQLiteConnection: SQLConnection {
    /// How long a call waits for another process that writes the file.
    static let patience = Duration.milliseconds(busyMilliseconds)
    private static let busyMilliseconds: Int32 = 2_000
    /// Between two tries for the write lock, in microseconds. SQLite's own waiting pauses for up to 100 ms, and so misses the moments
    /// that a busy writer leaves free.
    static let pauses = 500...2_000

    private let handle: OpaquePointer
    private var statements: [StatementText: SQLiteStatement] = [:]
    var touched = TouchedRows()
    /// Whether a commit waits for the disk; changed between transactions only. Without that a failure of the machine may undo it.
    var syncsCommits = true {
        didSet {
            // Not prepared: SQLite sets it when it compiles the text. It refuses nothing here; and if it did, commits would wait.
            if syncsCommits != oldValue {
                unsafe sqlite3_exec(handle, "PRAGMA synchronous = \(syncsCommits ? "FULL" : "NORMAL")", nil, nil, nil)
            }
        }
    }

    /// Opens the file, or creates it. The write-ahead log lets readers run beside the writer; each commit is synced to disk.
    /// Throws `conflict` while another program opens the file too: retry.
    init(path: String, isReader: Bool) throws(SQLFault) {
        var opened: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        let status = unsafe sqlite3_open_v2(path, &opened, flags, nil)
        guard let handle = unsafe opened else { throw .lost("SQLite has no memory") }
        unsafe self.handle = handle
        guard status == SQLITE_OK else { throw fault(status, "open \(path)") }
        unsafe sqlite3_busy_timeout(handle, Self.busyMilliseconds)
        if let reason = try otherProgram() { throw .failed("the file \(path) \(reason)") }
        try useWriteAheadLog(path)
        for pragma in [
            "PRAGMA synchronous = FULL", "PRAGMA foreign_keys = ON", "PRAGMA trusted_schema = OFF",
            "PRAGMA query_only = \(isReader ? "ON" : "OFF")",
        ] { _ = try run(pragma, []) }
        // `begin` waits by itself.
        if !isReader { unsafe sqlite3_busy_timeout(handle, 0) }
    }

    /// Opens an existing file for reading, and changes nothing about it or beside it.
    init(inspecting path: String) throws(SQLFault) {
        var opened: OpaquePointer?
        // A reader makes the write-ahead log where none is. Without one no program has the file open, so it is read as it lies.
        let isClosed = unsafe access(path + "-wal", F_OK) != 0
        let url = "file:\(PercentEncoding.encode(path))\(isClosed ? "?immutable=1" : "")"
        let flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        let status = unsafe sqlite3_open_v2(url, &opened, flags, nil)
        guard let handle = unsafe opened else { throw .lost("SQLite has no memory") }
        unsafe self.handle = handle
        guard status == SQLITE_OK else { throw fault(status, "open \(path)") }
        unsafe sqlite3_busy_timeout(handle, Self.busyMilliseconds)
    }

    /// Whether the header of the file says that its programs keep a write-ahead log; a connection that reads the file as it lies
    /// does not know. The byte is the version for readers, 2 with a log (SQLite's file format, 1.3.3).
    static func keepsWriteAheadLog(_ path: String) -> Bool {
        let file = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return false }
        defer { close(file) }
        var version: UInt8 = 0
        return unsafe pread(file, &version, 1, 19) == 1 && version == 2
    }

    private func useWriteAheadLog(_ path: String) throws(SQLFault) {
        var row = try run("PRAGMA journal_mode = WAL", []).rows.first
        guard try row?.text() == "wal" else {
            throw .failed("SQLite cannot keep a write-ahead log beside \(path): use a local file system")
        }
    }

    deinit {
        statements.removeAll()
        unsafe sqlite3_close_v2(handle)
    }

    func run(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLResult {
        let statement = try statement(sql)
        defer { statement.reset() }
        guard statement.bind(values) else { throw fault(SQLITE_RANGE, sql) }
        var result = SQLResult()
        while true {
            let status = statement.step()
            switch status {
            case SQLITE_ROW: result.rows.append(SQLRow(statement.row()))
            case SQLITE_DONE:
                result.changed = Int(unsafe sqlite3_changes(handle))
                return result
            default: throw fault(status, sql)
            }
        }
    }

    private func statement(_ sql: String) throws(SQLFault) -> SQLiteStatement {
        if let known = statements[StatementText(sql)] { return known }
        var prepared: OpaquePointer?
        let status = unsafe sqlite3_prepare_v3(
            handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil)
        guard status == SQLITE_OK, let pointer = unsafe prepared else { throw fault(status, sql) }
        let statement = unsafe SQLiteStatement(adopting: pointer)
        statements[StatementText(sql)] = statement
        return statement
    }

    func begin(isWriting: Bool) throws(SQLFault) {
        guard isWriting else { return _ = try run("BEGIN", []) }
        let end = ContinuousClock.now.advanced(by: Self.patience)
        while try !beginWriting() {
            guard .now < end else { throw Self.isLocked }
            // This thread belongs to the pool and may sleep.
            usleep(UInt32(Int.random(in: Self.pauses)))
        }
    }

    static let isLocked = SQLFault.lost("another program kept the write lock of the database")

    /// Begins a writing transaction; false while another program has the write lock. SQLite has one writer per file. IMMEDIATE takes the
    /// lock at once: upgrading a read lock later could fail.
    func beginWriting() throws(SQLFault) -> Bool {
        do throws(SQLFault) {
            _ = try run("BEGIN IMMEDIATE", [])
            return true
        } catch {
            guard error == .conflict else { throw error }
            return false
        }
    }

    /// Runs `body` as a part of the transaction in progress. If it fails its changes are undone, and if it `isAlone` the transaction ends.
    func part(isAlone: Bool, _ body: () throws(SQLFault) -> Void) -> SQLFault? {
        var fault: SQLFault?
        do throws(SQLFault) {
            if isAlone {
                try body()
                return nil
            }
            _ = try run("SAVEPOINT part", [])
            do throws(SQLFault) { try body() } catch { fault = error }
            if fault != nil { _ = try run("ROLLBACK TO part", []) }
            _ = try run("RELEASE part", [])
            return fault
        } catch {
            // Its changes cannot be told from those of the others, so none of them is committed.
            rollBack()
            return fault ?? error
        }
    }

    /// False once a fault has rolled the transaction back, as some do by themselves.
    var isInTransaction: Bool { unsafe sqlite3_get_autocommit(handle) == 0 }

    func commit() throws(SQLFault) { _ = try run("COMMIT", []) }

    func rollBack() {
        // Some faults roll back by themselves; then ROLLBACK fails.
        do throws(SQLFault) { _ = try run("ROLLBACK", []) } catch {}
    }

    var dialect: SQLDialect { .sqlite }

    func findTables() throws(SQLFault) -> Bool { Set(try tables()).isSuperset(of: OwnTables.telling) }

    /// Why the file is another program's: it has tables, and not ours; nil if it is not.
    func otherProgram() throws(SQLFault) -> String? {
        let found = try tables()
        if found.isEmpty || Set(found).isSuperset(of: OwnTables.telling) { return nil }
        return
            "holds tables of another program (\(found.prefix(3).joined(separator: ", "))) and none of Tollgate's: give Tollgate a file of its own with TOLLGATE_DATABASE_URL=sqlite:///path/to/file, which wins over DATABASE_URL"
    }

    private func tables() throws(SQLFault) -> [String] {
        let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
        var found: [String] = []
        for var row in try run(names, []).rows { found.append(try row.text()) }
        return found
    }

    /// The write lock is enough.
    func lockSchema() {}

    private func fault(_ status: Int32, _ operation: String) -> SQLFault {
        // SQLite says only that it could not; the system says why.
        let number = status & 0xFF == SQLITE_CANTOPEN ? unsafe sqlite3_system_errno(handle) : 0
        let cause = number == 0 ? "" : ", \(unsafe String(cString: strerror(number)).lowercased())"
        let reason = "SQLite: \(unsafe String(cString: sqlite3_errmsg(handle))) (\(status))\(cause), at: \(operation)"
        switch status & 0xFF {
        case SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL: return .conflict
        case SQLITE_FULL, SQLITE_IOERR, SQLITE_CANTOPEN, SQLITE_NOMEM: return .lost(reason)
        default:
            return .failed(reason)
        }
    }
}
