package import Accounts
internal import Synchronization
package import Wire

/// Accounts in an SQL database. The statements are shared; the differences are behind `SQLDatabase` and `SQLDialect`.
package final class SQLStore: AccountStore {
    /// How many reasons of skipped rows are remembered; after so many no other one is reported.
    private static let maxReasons = 100

    let database: any SQLDatabase
    private let report: @Sendable (StoreOutcome) -> Void
    /// The reasons that were reported.
    private let reported = Mutex<Set<String>>([])

    init(_ database: any SQLDatabase, report: @escaping @Sendable (StoreOutcome) -> Void) {
        self.database = database
        self.report = report
    }

    /// For tasks that call the store: they run on its own threads, from one call to the next. Addresses take turns.
    package func executor(for address: IPAddress? = nil) -> any TaskExecutor { database.executor(for: address) }

    package func prepare() async throws(StoreFault) { try await database.prepare() }

    /// Finishes the calls in progress. Blocks the calling thread; for the end of the process.
    package func close() async { database.close() }

    /// Rows of a reading were skipped for these reasons. Each is reported once, for the rows stay.
    func skipped(_ reasons: [String]) {
        for reason in reasons {
            let isNew = reported.withLock { $0.count < Self.maxReasons && $0.insert(reason).inserted }
            if isNew { report(.skippedRow(reason)) }
        }
    }
}
