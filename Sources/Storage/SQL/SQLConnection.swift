internal import Accounts

/// What a statement did.
struct SQLResult: Sendable {
    var rows: [SQLRow] = []
    /// How many rows it inserted, changed or deleted.
    var changed = 0
}

/// One connection to a database; it belongs to the thread that made it.
///
/// All statements are written once for both databases: parameters as `$1`, `$2`; numbers are BIGINT, ids and digests
/// BYTEA, the rest TEXT.
protocol SQLConnection: AnyObject {
    /// Runs one statement, prepared once for each text.
    func run(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLResult
    /// Begins a transaction; one that writes sees what all before it committed.
    func begin(isWriting: Bool) throws(SQLFault)
    func commit() throws(SQLFault)
    /// Whatever goes wrong with that: the transaction is over.
    func rollBack()
    /// What stands behind a SELECT whose rows the transaction is about to change.
    var lockClause: String { get }
    var dialect: SQLDialect { get }
    /// The accounts that the transaction has changed, and whether it has changed anything that the log of changes tells.
    var touched: TouchedRows { get set }
    /// Told of `touched` behind each commit that has changed something.
    var onChange: ChangeNotice { get }
    /// Keeps other programs out that bring the schema up to date, until the transaction ends.
    func lockSchema() throws(SQLFault)
}

extension SQLConnection {
    /// Runs `body` as one transaction.
    func transaction<Value>(
        isWriting: Bool, _ body: (inout SQLTransaction) throws(SQLFault) -> Value
    ) throws(SQLFault) -> Value {
        try begin(isWriting: isWriting)
        touched = TouchedRows()
        do throws(SQLFault) {
            var transaction = SQLTransaction(self)
            let value = try body(&transaction)
            try commit()
            if touched.isLogged { onChange(touched.accounts) }
            return value
        } catch {
            rollBack()
            throw error
        }
    }
}

/// Statements inside one transaction.
struct SQLTransaction {
    private let connection: any SQLConnection
    /// Events written so far: their ids keep their order.
    var events: UInt64 = 0

    init(_ connection: any SQLConnection) { self.connection = connection }

    var dialect: SQLDialect { connection.dialect }

    /// The rows of a SELECT.
    func rows(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> [SQLRow] {
        try connection.run(sql, values).rows
    }

    /// The first row, if there is one.
    func first(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLRow? {
        try rows(sql, values).first
    }

    /// The first row, which nobody else changes until this is over.
    func locked(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLRow? {
        try first(sql + connection.lockClause, values)
    }

    /// All rows, which nobody else changes until this is over.
    func lockedRows(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> [SQLRow] {
        try rows(sql + connection.lockClause, values)
    }

    /// Runs a statement that writes; answers how many rows it changed.
    @discardableResult
    func change(_ written: WrittenRows, _ sql: String, _ values: [SQLValue]) throws(SQLFault) -> Int {
        try write(written, sql, values).changed
    }

    /// Runs a statement that writes and returns rows.
    func changing(_ written: WrittenRows, _ sql: String, _ values: [SQLValue]) throws(SQLFault) -> [SQLRow] {
        try write(written, sql, values).rows
    }

    private func write(_ written: WrittenRows, _ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLResult {
        let result = try connection.run(sql, values)
        if result.changed > 0 { connection.touched.note(written) }
        return result
    }
}

/// A database, and threads that wait for it.
protocol SQLDatabase: Sendable {
    /// Runs `body` as one transaction that changes nothing.
    func read<Value: Sendable>(
        _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value

    /// Runs `body` as one transaction. It may run more than once, and only the last time counts.
    func write<Value: Sendable>(
        _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value

    /// Connects, and brings the schema up to date.
    func prepare() async throws(StoreFault)
    /// Blocks until what was begun is done.
    func close()
}
