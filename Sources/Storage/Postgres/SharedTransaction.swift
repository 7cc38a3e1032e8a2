/// Writes that share a transaction over PostgreSQL go through it in steps: what all of them ask next travels in one message.
extension SQLTransaction {
    /// A lock that another transaction keeps must not hold all of them up, in any step: then each is made alone.
    private static let shortPatience = SQLStatement("SELECT set_config('lock_timeout', '100', true)")

    /// Returns what answers the calls, in their order, once this is committed. Throws if one of the writes fails.
    func runTogether(_ writes: [GatheredWrite]) throws(SQLFault) -> [() -> Void] {
        if writes.count == 1 { return try writes.map { write throws(SQLFault) in try write.run(connection) } }
        let steps = writes.map { SteppedWrite($0, dialect) }
        var open = steps
        var before = [Self.shortPatience]
        while true {
            for write in open {
                try write.step()
                for (statement, changes) in write.unsent { try connection.runLater(statement, changes: changes) }
            }
            open.removeAll { $0.asked.isEmpty }
            if open.isEmpty { return steps.compactMap(\.answer) }
            var results = try connection.run(together: before + open.flatMap(\.asked)).dropFirst(before.count)
            before = []
            for write in open { write.take(&results) }
        }
    }
}

/// A write that knows the answers to what it has asked so far, and is run anew for each step up to its next question.
private final class SteppedWrite: SQLConnection {
    private let write: GatheredWrite
    let dialect: SQLDialect
    var touched = TouchedRows()
    private var answers: [[SQLResult]] = []
    /// How many of the answers, and of the statements for later, this run has come to.
    private var (position, met) = (0, 0)
    private var sent = 0
    /// The statements for later of this run that no run before had.
    private(set) var unsent: [(SQLStatement, changes: Bool)] = []
    /// The question; empty once the write is done.
    private(set) var asked: [SQLStatement] = []
    private(set) var answer: (() -> Void)?

    init(_ write: GatheredWrite, _ dialect: SQLDialect) {
        self.write = write
        self.dialect = dialect
    }

    func step() throws(SQLFault) {
        sent += unsent.count
        (position, met, unsent, asked) = (0, 0, [], [])
        do throws(SQLFault) {
            answer = try write.run(self)
        } catch {
            // A question ends a run, too.
            if asked.isEmpty { throw error }
        }
    }

    /// Takes the answers to what it has asked from the first of `results`.
    func take(_ results: inout ArraySlice<SQLResult>) {
        answers.append(Array(results.prefix(asked.count)))
        results.removeFirst(asked.count)
    }

    func run(_ sql: String, _ values: [SQLValue]) throws(SQLFault) -> SQLResult {
        try run(together: [SQLStatement(sql, values)]).first ?? SQLResult()
    }

    func run(together statements: [SQLStatement]) throws(SQLFault) -> [SQLResult] {
        guard position < answers.count else {
            asked = statements
            throw .conflict
        }
        position += 1
        return answers[position - 1]
    }

    func runLater(_ statement: SQLStatement, changes: Bool) {
        met += 1
        if met > sent { unsent.append((statement, changes)) }
    }

    func begin(isWriting: Bool) {}
    func commit() {}
    func rollBack() {}
    func findTables() -> Bool { true }
    func lockSchema() {}
}
