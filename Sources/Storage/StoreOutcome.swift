internal import Accounts
internal import Wire

/// How a transaction of the store ended.
package enum StoreOutcome: Sendable, Equatable {
    case wrote
    /// With the reason.
    case writeFailed(String)
    case readFailed
    /// It succeeded, without a row that cannot be read, for this reason.
    case skippedRow(String)
}

/// A database that reports how its transactions end, but for successful reads.
struct ReportingDatabase: SQLDatabase {
    private let database: any SQLDatabase
    private let report: @Sendable (StoreOutcome) -> Void

    init(_ database: any SQLDatabase, report: @escaping @Sendable (StoreOutcome) -> Void) {
        self.database = database
        self.report = report
    }

    var onChange: ChangeNotice { database.onChange }
    func prepare() async throws(StoreFault) { try await database.prepare() }
    func close() { database.close() }
    func executor(for address: IPAddress?) -> any TaskExecutor { database.executor(for: address) }

    func read<Value: Sendable>(
        isBrief: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        do throws(StoreFault) {
            return try await database.read(isBrief: isBrief, body)
        } catch {
            report(.readFailed)
            throw error
        }
    }

    func commit<Value: Sendable>(
        locking row: LockedRow?, isDurable: Bool, _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        do throws(StoreFault) {
            let value = try await database.commit(locking: row, isDurable: isDurable, body)
            report(.wrote)
            return value
        } catch {
            // One row that is held is its caller's affair: no client turns the whole gateway degraded by it.
            switch error {
            case .busy, .banned: throw error
            case .unavailable, .failed: break
            }
            report(.writeFailed(error.reason))
            throw error
        }
    }
}
