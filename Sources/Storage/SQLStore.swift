package import Accounts

/// Accounts in SQLite or PostgreSQL. The statements are the same for both; what differs is behind `SQLDatabase`.
package final class SQLStore: AccountStore {
    let database: any SQLDatabase

    init(_ database: any SQLDatabase) { self.database = database }

    package func prepare() async throws(StoreFault) { try await database.prepare() }

    /// Blocks the calling task's thread until what was begun is done: for the end of the process.
    package func close() async { database.close() }
}
