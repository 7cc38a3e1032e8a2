internal import Accounts

/// A PostgreSQL database: a pool of threads, each with its own connection.
final class PostgresDatabase: SQLDatabase {
    /// Calls that may wait for a connection, and for those of the same row.
    private static let capacity = 4_096
    private static let rowCapacity = 256

    let onChange: ChangeNotice
    private let pool: BlockingPool<PostgresConnector>
    private let rows: RowShares

    /// nil if no threads can be started.
    init?(
        url: String, schema: PostgresSchema, connections: Int, primary: DatabasePrimary, start: ThreadStart,
        onChange: @escaping ChangeNotice
    ) {
        let server = PostgresServer(url: url, schema: schema, primary: primary)
        let pool = BlockingPool(name: "postgres", threads: connections, capacity: Self.capacity, start: start) {
            PostgresConnector(server: server)
        }
        guard let pool else { return nil }
        self.onChange = onChange
        self.pool = pool
        rows = RowShares(share: max(1, connections / 4), capacity: Self.rowCapacity)
    }

    func read<Value: Sendable>(
        _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        try await run(isWriting: false, body)
    }

    func commit<Value: Sendable>(
        locking row: LockedRow?, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        try await rows.run(row) { () async throws(StoreFault) -> Value in try await run(isWriting: true, body) }
    }

    private func run<Value: Sendable>(
        isWriting: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        try await pool.answer { connector throws(SQLFault) in try connector.run(isWriting: isWriting, body) }
    }

    func prepare() async throws(StoreFault) {
        try await pool.answer { connector throws(SQLFault) in
            try connector.run(isWriting: false) { sql throws(SQLFault) in _ = try sql.first("SELECT 1", []) }
        }
    }

    func close() { pool.close() }
}
