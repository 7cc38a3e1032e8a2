internal import Accounts
internal import Glibc

/// A write that waits for the writer of a file. Used on its thread.
struct SQLiteWrite {
    /// Until when it waits for the write lock, which is tried for once in any case. It counts from when the call was made: calls behind a
    /// lock that another program keeps give up together, not one after the other.
    fileprivate let deadline: ContinuousClock.Instant
    fileprivate let isDurable: Bool
    /// Runs it within the transaction in progress; returns its fault.
    fileprivate let run: (SQLiteConnection) -> SQLFault?
    /// Answers the call, with the fault if it has one. Called once, after the commit.
    fileprivate let answer: (SQLFault?) -> Void

    init<Value: Sendable>(
        before deadline: ContinuousClock.Instant, isDurable: Bool = true,
        _ body: @escaping (inout SQLTransaction) throws(SQLFault) -> Value,
        _ call: CheckedContinuation<Result<Value, StoreFault>, Never>
    ) {
        var outcome = Result<Value, SQLFault>.failure(.conflict)
        self.deadline = deadline
        self.isDurable = isDurable
        run = { connection in
            connection.touched = TouchedRows()
            var sql = SQLTransaction(connection)
            do throws(SQLFault) {
                outcome = .success(try body(&sql))
                return nil
            } catch {
                return error
            }
        }
        answer = { fault in
            call.resume(returning: fault.map { .failure(StoreFault($0)) } ?? outcome.mapError { StoreFault($0) })
        }
    }
}

/// The writer of a file. Writes that wait together share a transaction, so that the disk is waited for once; one that fails is undone
/// alone. Each is answered after the commit that has it.
struct SQLiteWriter {
    /// No write of a transaction begins later than this.
    private static let longest = Duration.milliseconds(5)

    var connector: SQLiteConnector
    /// For brief readings on the same thread.
    var reader: SQLiteConnector
    private let capacity: Int
    /// In the order of arrival.
    private var waiting: [SQLiteWrite] = []

    init(path: String, capacity: Int) {
        connector = SQLiteConnector(path: path, isReader: false)
        reader = SQLiteConnector(path: path, isReader: true)
        self.capacity = capacity
    }

    /// Adds a write to the next transaction.
    mutating func gather(_ write: SQLiteWrite) {
        guard waiting.count < capacity else { return write.answer(.lost("too many calls wait for the database")) }
        waiting.append(write)
    }

    /// Commits what waits. Returns after how many microseconds the rest is to be tried; nil if there is none.
    mutating func commit() -> Int? {
        if waiting.isEmpty { return nil }
        var pause = 0
        do throws(SQLFault) {
            let connection = try connector.connected()
            connection.syncsCommits = waiting.contains(where: \.isDurable)
            if try connection.beginWriting() {
                commit(over: connection)
            } else {
                // The thread does not sleep: tasks that do not write go on.
                let now = ContinuousClock.now
                end(waiting.prefix { $0.deadline <= now }.count, SQLiteConnection.isLocked)
                pause = .random(in: SQLiteConnection.pauses)
            }
        } catch {
            end(waiting.count, error)
        }
        return waiting.isEmpty ? nil : pause
    }

    private mutating func end(_ count: Int, _ fault: SQLFault) {
        for write in waiting.prefix(count) { write.answer(fault) }
        waiting.removeFirst(count)
    }

    private mutating func commit(over connection: SQLiteConnection) {
        let end = ContinuousClock.now.advanced(by: Self.longest)
        var faults: [SQLFault?] = []
        for write in waiting where faults.isEmpty || ContinuousClock.now < end && connection.isInTransaction {
            faults.append(connection.part { write.run(connection) })
        }
        // A full disk has ended the transaction for all of them.
        let lost = connection.isInTransaction ? Self.fault(of: connection) : faults.last ?? nil
        for (write, fault) in zip(waiting, faults) { write.answer(fault ?? lost) }
        waiting.removeFirst(faults.count)
    }

    private static func fault(of connection: SQLiteConnection) -> SQLFault? {
        do throws(SQLFault) {
            try connection.commit()
            return nil
        } catch {
            connection.rollBack()
            return error
        }
    }
}
