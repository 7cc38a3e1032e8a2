internal import Accounts
internal import Threads
internal import Wire

/// A PostgreSQL database: a pool of threads, each with its own connection. Writes of sessions that wait together share a transaction.
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
        let pool = BlockingPool(
            name: "postgres", threads: connections, capacity: Self.capacity, start: start, make: { PostgresConnector(server: server) },
            flush: {
                $0.commit()
                return nil
            })
        guard let pool else { return nil }
        self.onChange = onChange
        self.pool = pool
        rows = RowShares(share: max(1, connections / 4 - 1), capacity: Self.rowCapacity)
    }

    func executor(for address: IPAddress?) -> any TaskExecutor { pool.executor(for: address) }

    func read<Value: Sendable>(
        isBrief _: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        try await run(isWriting: false, body)
    }

    func commit<Value: Sendable>(
        locking row: LockedRow?, isDurable: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        try await rows.run(row, account: accountRow) { () async throws(StoreFault) -> Value in
            if case .session(let session) = row {
                let outcome = await pool.together(body) { $0.gather($1, of: session) }
                // Where those that share it conflict, or one of them fails, each is made alone.
                if case .failure(.conflict) = outcome {} else { return try outcome.mapError { StoreFault($0) }.get() }
            }
            return try await run(isWriting: true, isDurable: isDurable, body)
        }
    }

    /// The row of the account that a client names by an email, phone or identity, so that all its calls have one share. Waits for no lock;
    /// what names no account has a share of its own.
    private func accountRow(_ row: LockedRow) async throws(StoreFault) -> LockedRow {
        let named: UUID?
        switch row {
        case .contact(let key):
            named = try await read { sql throws(SQLFault) in
                var row = try sql.first("SELECT id FROM accounts WHERE email_key = $1 OR phone = $1", [.text(key)])
                return try row?.id()
            }
        case .identity(let key): named = try await read { sql throws(SQLFault) in try sql.account(of: key) }
        case .account, .session, .claims, .notifications: return row
        }
        return named.map { .account($0) } ?? row
    }

    private func run<Value: Sendable>(
        isWriting: Bool, isDurable: Bool = true, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        try await pool.answer { connector throws(SQLFault) in
            // The writes gathered on this thread do not wait for this call.
            connector.commit()
            return try connector.run(isWriting: isWriting, isDurable: isDurable, body)
        }
    }

    func prepare() async throws(StoreFault) {
        try await pool.answer { connector throws(SQLFault) in
            try connector.run(isWriting: false) { sql throws(SQLFault) in _ = try sql.first("SELECT 1", []) }
        }
    }

    func close() { pool.close() }
}
