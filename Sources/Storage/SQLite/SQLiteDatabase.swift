internal import Accounts
internal import Glibc
internal import Synchronization
internal import Threads

/// An SQLite file, with one writing and two reading threads. Other processes may use the file at the same time.
final class SQLiteDatabase: SQLDatabase {
    private static let readers = 2
    /// Calls that may wait for the writer, and as many for the readers.
    private static let capacity = 4_096

    let onChange: ChangeNotice
    private let writer: BlockingPool<SQLiteConnector>
    private let reader: BlockingPool<SQLiteConnector>
    /// Whether the schema is known to be up to date.
    private let isPrepared = Atomic(false)

    /// nil if no threads can be started.
    init?(path: String, start: ThreadStart, onChange: @escaping ChangeNotice) {
        let pools = [false, true].map { isReader in
            BlockingPool(
                name: isReader ? "sqlite reader" : "sqlite writer", threads: isReader ? Self.readers : 1,
                capacity: Self.capacity, start: start
            ) { SQLiteConnector(path: path, isReader: isReader) }
        }
        guard let writer = pools[0], let reader = pools[1] else { return nil }
        self.onChange = onChange
        self.writer = writer
        self.reader = reader
    }

    func read<Value: Sendable>(
        _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        if !isPrepared.load(ordering: .acquiring) { try await prepare() }
        return try await run(reader, isWriting: false, body)
    }

    /// There is one writer, and no row locks.
    func commit<Value: Sendable>(
        locking _: LockedRow?, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        if !isPrepared.load(ordering: .acquiring) { try await prepare() }
        return try await run(writer, isWriting: true, body)
    }

    func prepare() async throws(StoreFault) {
        try await run(writer) { connection throws(SQLFault) in try Schema.update(connection) }
        isPrepared.store(true, ordering: .releasing)
    }

    func close() {
        reader.close()
        writer.close()
    }

    private func run<Value: Sendable>(
        _ pool: BlockingPool<SQLiteConnector>, isWriting: Bool,
        _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        // From when the call was made: those behind a lock that another process keeps give up together, not one after the other.
        let deadline = ContinuousClock.now.advanced(by: SQLiteConnection.patience)
        return try await run(pool) { connection throws(SQLFault) in
            connection.deadline = deadline
            defer { connection.deadline = nil }
            return try connection.transaction(isWriting: isWriting) { sql throws(SQLFault) in try body(&sql) }
        }
    }

    private func run<Value: Sendable>(
        _ pool: BlockingPool<SQLiteConnector>,
        _ body: @escaping @Sendable (SQLiteConnection) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        try await pool.answer { connector throws(SQLFault) in try body(try connector.connected()) }
    }
}

/// The connection of one thread, opened at first use.
private struct SQLiteConnector {
    /// Retries of opening, which conflicts while another process opens the file for the first time.
    private static let attempts = 500
    private static let pauseMicroseconds: UInt32 = 10_000

    let path: String
    let isReader: Bool
    private var connection: SQLiteConnection?

    init(path: String, isReader: Bool) {
        self.path = path
        self.isReader = isReader
    }

    mutating func connected() throws(SQLFault) -> SQLiteConnection {
        if let connection { return connection }
        Self.makePrivate(path)
        for _ in 1..<Self.attempts {
            do throws(SQLFault) {
                return try open()
            } catch {
                guard error == .conflict else { throw error }
            }
            // This thread belongs to the pool and may sleep.
            usleep(Self.pauseMicroseconds)
        }
        return try open()
    }

    private mutating func open() throws(SQLFault) -> SQLiteConnection {
        let opened = try SQLiteConnection(path: path, isReader: isReader)
        connection = opened
        return opened
    }

    /// Creates a missing file readable by its owner only; SQLite would create it readable by all. SQLite gives the files beside
    /// it the same mode.
    ///
    /// `mknod` does not open the file. Closing a descriptor of it would release the locks of every connection of this process
    /// (fcntl(2)); the next process to disconnect would then delete the write-ahead log with the transactions in it.
    private static func makePrivate(_ path: String) {
        // If it fails, SQLite reports why.
        _ = unsafe mknod(path, S_IFREG | 0o600, 0)
    }
}
