internal import Accounts
internal import Wire

/// The result of a statement.
struct SQLResult: Sendable {
    var rows: [SQLRow] = []
    /// Number of rows inserted, updated or deleted.
    var changed = 0
}

/// A statement with its parameters.
struct SQLStatement {
    let text: String
    let values: [SQLValue]

    init(_ text: String, _ values: [SQLValue] = []) {
        self.text = text
        self.values = values
    }
}

/// The text of a statement, as a key. Few have the same length, and the same one is mostly the same memory, so that its bytes are not read.
struct StatementText: Hashable {
    let text: String

    init(_ text: String) { self.text = text }

    func hash(into hasher: inout Hasher) { hasher.combine(text.utf8.count) }
}

/// A connection to a database. Used only on the thread that made it.
protocol SQLConnection: AnyObject {
    /// Runs one statement; prepares it at first use and caches it by its text.
    func run(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLResult
    /// Runs statements in their order, none of which needs the result of another.
    func run(together statements: [SQLStatement]) throws(SQLFault) -> [SQLResult]
    /// Runs a statement before the next one, or with the commit at the latest. If it `changes` a row, the transaction conflicts where it
    /// changes none, and is not committed.
    func runLater(_ statement: SQLStatement, changes: Bool) throws(SQLFault)
    /// Begins a transaction. A writing one sees everything committed before it.
    func begin(isWriting: Bool) throws(SQLFault)
    func commit() throws(SQLFault)
    /// Ends the transaction, even if the rollback itself fails.
    func rollBack()
    var dialect: SQLDialect { get }
    /// The rows that the transaction has changed, as far as the change log covers them.
    var touched: TouchedRows { get set }
    /// Looks for the tables of the first step; false if they are not there yet. Called outside of transactions.
    func findTables() throws(SQLFault) -> Bool
    /// Locks out other programs that migrate the schema, until the transaction ends, and makes the place of the tables if it is missing.
    func lockSchema() throws(SQLFault)
}

extension SQLConnection {
    func run(together statements: [SQLStatement]) throws(SQLFault) -> [SQLResult] {
        try statements.map { statement throws(SQLFault) in try run(statement.text, statement.values) }
    }

    func runLater(_ statement: SQLStatement, changes: Bool) throws(SQLFault) {
        guard try run(statement.text, statement.values).changed == 1 || !changes else { throw .conflict }
    }

    /// Runs `body` as one transaction.
    func transaction<Value>(
        isWriting: Bool, _ body: (inout SQLTransaction) throws(SQLFault) -> Value
    ) throws(SQLFault) -> Value {
        touched = TouchedRows()
        do throws(SQLFault) {
            try begin(isWriting: isWriting)
            var transaction = SQLTransaction(self)
            let value = try body(&transaction)
            try commit()
            return value
        } catch {
            rollBack()
            throw error
        }
    }
}

/// Statements inside one transaction.
struct SQLTransaction {
    let connection: any SQLConnection
    /// Number of ids made so far, which keeps them in order.
    var events: UInt64 = 0
    /// The session that was opened on a device that its account had never been used on.
    var newDevice: UUID?

    init(_ connection: any SQLConnection) { self.connection = connection }

    var dialect: SQLDialect { connection.dialect }
    var touched: TouchedRows { connection.touched }

    /// The rows of a SELECT.
    func rows(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> [SQLRow] {
        try connection.run(sql, values).rows
    }

    /// The rows of a SELECT, each decoded by `read`.
    func rows<Value>(
        _ sql: String, _ values: [SQLValue], _ read: (inout SQLRow) throws(SQLFault) -> Value
    ) throws(SQLFault) -> [Value] {
        try rows(sql, values).map { row throws(SQLFault) in
            var row = row
            return try read(&row)
        }
    }

    /// The first row, if there is one.
    func first(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLRow? {
        try rows(sql, values).first
    }

    /// The first row, locked until the transaction ends.
    func locked(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLRow? {
        try first(sql + dialect.lockClause, values)
    }

    /// The first row of each SELECT.
    func firsts(_ statements: [SQLStatement]) throws(SQLFault) -> [SQLRow?] {
        try connection.run(together: statements).map(\.rows.first)
    }

    /// Runs an unlogged writing statement as `SQLConnection.runLater` does; it changes a row.
    func changeLater(_ sql: String, _ values: [SQLValue]) throws(SQLFault) {
        try connection.runLater(SQLStatement(sql, values), changes: true)
    }

    /// Runs a writing statement before the next one, or with the commit at the latest.
    func changeLater(_ written: WrittenRows, _ statement: SQLStatement) throws(SQLFault) {
        try connection.runLater(statement, changes: false)
        connection.touched.note(written)
    }

    /// Runs a writing statement; returns the number of rows it changed.
    @discardableResult
    func change(_ written: WrittenRows, _ sql: String, _ values: [SQLValue]) throws(SQLFault) -> Int {
        try write(written, sql, values).changed
    }

    /// Runs a writing statement with `RETURNING`.
    func changing(_ written: WrittenRows, _ sql: String, _ values: [SQLValue]) throws(SQLFault) -> [SQLRow] {
        try write(written, sql, values).rows
    }

    private func write(_ written: WrittenRows, _ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLResult {
        let result = try connection.run(sql, values)
        if result.changed > 0 { connection.touched.note(written) }
        return result
    }
}

/// A database, with the threads that make its blocking calls.
protocol SQLDatabase: Sendable {
    /// Runs `body` as a read-only transaction. `isBrief`: it reads a few rows by their keys, so that others can wait for it.
    func read<Value: Sendable>(
        isBrief: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value

    /// Runs `body` as one transaction. It is run again after a conflict; only the last run takes effect. Callers use `write`.
    /// `row` is the row that it locks, if a client chooses it. Unless it `isDurable` it does not wait for the disk, so a failure of the server
    /// may undo it, and it may be run again if its commit is not answered.
    func commit<Value: Sendable>(
        locking row: LockedRow?, isDurable: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value

    /// Called by `write`.
    var onChange: ChangeNotice { get }
    /// Connects, and migrates the schema.
    func prepare() async throws(StoreFault)
    /// Finishes the calls in progress. Blocks.
    func close()
    /// For tasks that read and write: on its threads they wait for no other thread. Addresses take turns.
    func executor(for address: IPAddress?) -> any TaskExecutor
}

extension SQLDatabase {
    /// Runs `body` as a read-only transaction, of any length.
    func read<Value: Sendable>(
        _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value { try await read(isBrief: false, body) }

    /// Runs `body` as one transaction, as `commit` does; returns after `onChange` has been called for logged changes.
    func write<Value: Sendable>(
        locking row: LockedRow? = nil, isDurable: Bool = true,
        _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        let (value, touched) = try await commit(locking: row, isDurable: isDurable) { sql throws(SQLFault) in (try body(&sql), sql.touched)
        }
        if touched.isLogged { await onChange(touched.accounts) }
        return value
    }
}
