internal import Accounts
internal import Glibc
internal import Synchronization

/// An SQLite file: one thread writes, two read beside it. Other programs may use the file at the same time.
final class SQLiteDatabase: SQLDatabase {
    private static let readers = 2
    /// Calls that may wait for the writer, and for the readers.
    private static let capacity = 1_024

    private let writer: BlockingPool<SQLiteConnector>
    private let reader: BlockingPool<SQLiteConnector>
    /// Whether the schema is known to be up to date.
    private let isPrepared = Atomic(false)

    /// nil if the system gives no threads.
    init?(path: String, start: ThreadStart, onChange: @escaping ChangeNotice) {
        let pools = [false, true].map { isReader in
            BlockingPool(
                name: isReader ? "sqlite reader" : "sqlite writer", threads: isReader ? Self.readers : 1,
                capacity: Self.capacity, start: start
            ) { SQLiteConnector(path: path, isReader: isReader, onChange: onChange) }
        }
        guard let writer = pools[0], let reader = pools[1] else { return nil }
        self.writer = writer
        self.reader = reader
    }

    func read<Value: Sendable>(
        _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        if !isPrepared.load(ordering: .acquiring) { try await prepare() }
        return try await run(reader, isWriting: false, body)
    }

    func write<Value: Sendable>(
        _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
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
        try await run(pool) { connection throws(SQLFault) in
            try connection.transaction(isWriting: isWriting) { sql throws(SQLFault) in try body(&sql) }
        }
    }

    private func run<Value: Sendable>(
        _ pool: BlockingPool<SQLiteConnector>,
        _ body: @escaping @Sendable (SQLiteConnection) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        try await pool.answer { connector throws(SQLFault) in try body(try connector.connected()) }
    }
}

/// What a thread owns: a connection, as soon as there is one.
private struct SQLiteConnector {
    /// How long the first connections of several programs may be in each other's way.
    private static let attempts = 500
    private static let pauseMicroseconds: UInt32 = 10_000

    let path: String
    let isReader: Bool
    private let onChange: ChangeNotice
    private var connection: SQLiteConnection?

    init(path: String, isReader: Bool, onChange: @escaping ChangeNotice) {
        self.path = path
        self.isReader = isReader
        self.onChange = onChange
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
            // Another process is opening the file; this is a thread of the store's own, which may wait.
            usleep(Self.pauseMicroseconds)
        }
        return try open()
    }

    private mutating func open() throws(SQLFault) -> SQLiteConnection {
        let opened = try SQLiteConnection(path: path, isReader: isReader, onChange: onChange)
        connection = opened
        return opened
    }

    /// Makes the file, if it is missing, for its owner alone: SQLite would make it for everyone to read. What SQLite lays
    /// beside it is as private as the file.
    ///
    /// Made without being opened: to close it would give up the locks of all connections that this process has (fcntl(2)),
    /// and the next program that leaves would take the log for its own and remove it with all that is written there.
    private static func makePrivate(_ path: String) {
        // If it cannot be made, SQLite says why.
        _ = unsafe mknod(path, S_IFREG | 0o600, 0)
    }
}
