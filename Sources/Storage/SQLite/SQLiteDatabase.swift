internal import Accounts
internal import Glibc
internal import Synchronization
internal import Threads
internal import Wire

/// An SQLite file, with one writing and two reading threads. Other processes may use the file at the same time.
final class SQLiteDatabase: SQLDatabase {
    private static let readers = 2
    /// Calls that may wait for the writer, and as many for the readers.
    private static let capacity = 4_096

    let onChange: ChangeNotice
    private let writer: BlockingPool<SQLiteWriter>
    private let reader: BlockingPool<SQLiteConnector>
    /// Whether the schema is known to be up to date.
    private let isPrepared = Atomic(false)

    /// nil if no threads can be started.
    init?(path: String, start: ThreadStart, onChange: @escaping ChangeNotice) {
        let writer = BlockingPool(
            name: "sqlite writer", threads: 1, capacity: Self.capacity, start: start,
            make: { SQLiteWriter(path: path, capacity: Self.capacity) }, flush: { $0.commit() })
        let reader = BlockingPool(name: "sqlite reader", threads: Self.readers, capacity: Self.capacity, start: start) {
            SQLiteConnector(path: path, isReader: true)
        }
        guard let writer, let reader else { return nil }
        self.onChange = onChange
        self.writer = writer
        self.reader = reader
    }

    func executor(for address: IPAddress?) -> any TaskExecutor { writer.executor(for: address) }

    /// A brief one runs on the writer's thread if its task does.
    func read<Value: Sendable>(
        isBrief: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        if !isPrepared.load(ordering: .acquiring) { try await prepare() }
        if isBrief, writer.isCurrent { return try await writer.answer { writer throws(SQLFault) in try writer.reader.read(body) } }
        return try await reader.answer { connector throws(SQLFault) in try connector.read(body) }
    }

    /// There is one writer, and no row locks.
    func commit<Value: Sendable>(
        locking _: LockedRow?, isDurable: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        if !isPrepared.load(ordering: .acquiring) { try await prepare() }
        let deadline = ContinuousClock.now.advanced(by: SQLiteConnection.patience)
        return try await writer.together(before: deadline, isDurable: isDurable, body) { $0.gather($1) }.mapError { StoreFault($0) }.get()
    }

    func prepare() async throws(StoreFault) {
        try await writer.answer { writer throws(SQLFault) in try Schema.update(try writer.connector.connected()) }
        isPrepared.store(true, ordering: .releasing)
    }

    func close() {
        reader.close()
        writer.close()
    }
}

/// The connection of one thread, opened at first use.
struct SQLiteConnector {
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

    /// Runs `body` as a read-only transaction.
    mutating func read<Value>(_ body: (inout SQLTransaction) throws(SQLFault) -> Value) throws(SQLFault) -> Value {
        try connected().transaction(isWriting: false, body)
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
