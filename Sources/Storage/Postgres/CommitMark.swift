/// A row that a writing transaction adds with its commit. Whether it is there tells whether a commit without an answer took place,
/// also after a failover: the row and the transaction reach another server together or not at all.
struct CommitMark: Sendable, Equatable {
    let id: [UInt8]

    init() {
        var random = SystemRandomNumberGenerator()
        id = (0..<16).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    /// Adds the row. Sent in one message with the commit.
    var statement: SQLStatement {
        SQLStatement("INSERT INTO commit_marks (id, at) VALUES ($1, \(SQLDialect.postgresClock))", [.bytes(id)])
    }
}

/// The attempts at one transaction whose commits were not answered, each with the value that it returns if it took place.
struct DoubtfulCommits<Value> {
    private var attempts: [(mark: CommitMark, value: Value)] = []

    var isEmpty: Bool { attempts.isEmpty }

    mutating func add(_ mark: CommitMark, _ value: Value) { attempts.append((mark, value)) }

    /// The value of the attempt that took place, if one did. Otherwise adds their rows, so that none of them can be committed any more
    /// once this transaction is: the server may still be working on one.
    func settle(_ sql: inout SQLTransaction) throws(SQLFault) -> Value? {
        // The latest first: an attempt also adds the rows of those before it, so theirs do not tell which of them took place.
        for attempt in attempts.reversed() {
            let added = try sql.change(
                .unlogged, "INSERT INTO commit_marks (id, at) VALUES ($1, \(sql.dialect.clock)) ON CONFLICT DO NOTHING",
                [.bytes(attempt.mark.id)])
            if added == 0 { return attempt.value }
        }
        return nil
    }
}
