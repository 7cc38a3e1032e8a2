package import Accounts

/// Accounts in an SQL database. The statements are shared; the differences are behind `SQLDatabase` and `SQLDialect`.
package final class SQLStore: AccountStore {
    let database: any SQLDatabase

    init(_ database: any SQLDatabase) { self.database = database }

    package func prepare() async throws(StoreFault) { try await database.prepare() }

    /// Finishes the calls in progress. Blocks the calling thread; for the end of the process.
    package func close() async { database.close() }
}
