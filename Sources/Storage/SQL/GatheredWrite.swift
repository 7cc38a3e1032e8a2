internal import Accounts
internal import Threads

/// A write that shares a transaction with others that wait. Used on the thread of its connection.
struct GatheredWrite {
    /// Until when it waits for the write lock of a file, which is tried for once in any case. It counts from when the call was made: calls
    /// behind a lock that another program keeps give up together, not one after the other.
    let deadline: ContinuousClock.Instant
    let isDurable: Bool
    /// Runs it within the transaction in progress; returns what answers the call, to be called once that is committed.
    let run: (any SQLConnection) throws(SQLFault) -> () -> Void
    /// Answers the call with a fault.
    let fail: (SQLFault) -> Void

    init<Value: Sendable>(
        before deadline: ContinuousClock.Instant, isDurable: Bool = true,
        _ body: @escaping (inout SQLTransaction) throws(SQLFault) -> Value,
        _ call: CheckedContinuation<Result<Value, SQLFault>, Never>
    ) {
        self.deadline = deadline
        self.isDurable = isDurable
        run = { connection throws(SQLFault) in
            connection.touched = TouchedRows()
            var sql = SQLTransaction(connection)
            let value = try body(&sql)
            return { call.resume(returning: .success(value)) }
        }
        fail = { call.resume(returning: .failure($0)) }
    }
}

extension BlockingPool {
    /// Hands `body` to one of the threads as a write that `gather` adds to its next transaction; returns after that is committed.
    func together<Value: Sendable>(
        before deadline: ContinuousClock.Instant = .now, isDurable: Bool = true,
        _ body: @escaping @Sendable (inout SQLTransaction) throws(SQLFault) -> Value,
        gather: @escaping @Sendable (inout Resource, GatheredWrite) -> Void
    ) async -> Result<Value, SQLFault> {
        await withCheckedContinuation { call in
            add(refuse: { call.resume(returning: .failure(.lost(StoreFault(queueIsFull: $0 == .full).reason))) }) { resource in
                gather(&resource, GatheredWrite(before: deadline, isDurable: isDurable, body, call))
            }
        }
    }
}
