internal import Glibc

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
    private var waiting: [GatheredWrite] = []

    init(path: String, capacity: Int) {
        connector = SQLiteConnector(path: path, isReader: false)
        reader = SQLiteConnector(path: path, isReader: true)
        self.capacity = capacity
    }

    /// Adds a write to the next transaction.
    mutating func gather(_ write: GatheredWrite) {
        guard waiting.count < capacity else { return write.fail(.lost("too many calls wait for the database")) }
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
        for write in waiting.prefix(count) { write.fail(fault) }
        waiting.removeFirst(count)
    }

    private mutating func commit(over connection: SQLiteConnection) {
        let end = ContinuousClock.now.advanced(by: Self.longest)
        var parts: [(answer: (() -> Void)?, fault: SQLFault?)] = []
        for write in waiting where parts.isEmpty || ContinuousClock.now < end && connection.isInTransaction {
            var answer: (() -> Void)?
            let fault = connection.part(isAlone: waiting.count == 1) { () throws(SQLFault) in answer = try write.run(connection) }
            parts.append((answer, fault))
        }
        // A full disk has ended the transaction for all of them.
        let lost = connection.isInTransaction ? Self.fault(of: connection) : parts.last?.fault
        for (write, part) in zip(waiting, parts) {
            if let fault = part.fault ?? lost { write.fail(fault) } else { part.answer?() }
        }
        waiting.removeFirst(parts.count)
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
