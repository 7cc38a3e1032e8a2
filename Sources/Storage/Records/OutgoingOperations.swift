package import Accounts
package import Wire

/// The table of an `OutgoingQueue`, which has its name.
struct OutgoingTable {
    let queue: OutgoingQueue
    let columns: String
    /// The column with the time of the next try; NULL where nothing is to be done.
    let due: String
    /// The column that counts the tries.
    var tries: String?
    /// A further condition of those that this release can do.
    var isKnown = ""
    /// Expression for the time from which on an entry waits.
    let since: String
    let schedule: OutgoingSchedule
    /// The columns whose time gives an entry up, with the seconds behind it.
    let ends: [(column: String, seconds: Int64)]
    let giveUp: String

    /// Expression for the pause behind this try, in microseconds.
    fileprivate var pause: String {
        let pauses = schedule.pauses.map { "\($0 * 1_000_000)" }
        guard let tries else { return pauses[0] }
        let cases = pauses.indices.dropLast().map { "WHEN \($0) THEN \(pauses[$0]) " }
        return "CASE \(tries) \(cases.joined())ELSE \(pauses[pauses.count - 1]) END"
    }
}

extension SQLStore {
    /// Claims at most `limit` rows that are due, the oldest first: each is due again after a pause of the schedule, here or at another
    /// gateway.
    func claim<Row: Sendable>(
        _ table: OutgoingTable, at now: WallTime, limit: Int, _ read: @escaping @Sendable (inout SQLRow) throws(SQLFault) -> Row
    ) async throws(StoreFault) -> [Row] {
        let (name, time) = (table.queue.rawValue, table.due)
        let due = "SELECT id FROM \(name) WHERE \(time) <= $1\(table.isKnown) ORDER BY \(time), id LIMIT \(limit)"
        // Mostly there are none, and then nothing is written.
        let isIdle = try await database.read(isBrief: true) { sql throws(SQLFault) in try sql.first(due, [.time(now)]) == nil }
        if isIdle { return [] }
        let tried = table.tries.map { ", \($0) = \($0) + 1" } ?? ""
        return try await database.write { sql throws(SQLFault) in
            try sql.changing(
                .unlogged,
                """
                UPDATE \(name) SET \(time) = CAST($1 AS BIGINT) + \(table.pause)\(tried) WHERE \(time) <= $1 AND id IN (\(due))
                RETURNING \(table.columns)
                """, [.time(now)]
            ).map { row throws(SQLFault) in
                var row = row
                return try read(&row)
            }
        }
    }

    package func giveUp(at now: WallTime) async throws(StoreFault) -> [OutgoingQueue: Int] {
        var counts: [OutgoingQueue: Int] = [:]
        for table in [Self.notices, Self.appleTokens] {
            let ends = table.ends.map { "\($0.column) <= CAST($1 AS BIGINT) - \($0.seconds * 1_000_000)" }.joined(separator: " OR ")
            let old = "\(table.due) IS NOT NULL AND (\(ends))"
            let isAny = try await database.read(isBrief: true) { sql throws(SQLFault) in
                try sql.first("SELECT id FROM \(table.queue.rawValue) WHERE \(old) LIMIT 1", [.time(now)]) != nil
            }
            guard isAny else { continue }
            counts[table.queue] = try await database.write { sql throws(SQLFault) in
                try sql.change(.unlogged, "\(table.giveUp) WHERE \(old)", [.time(now)])
            }
        }
        return counts.filter { $0.value > 0 }
    }

    package func outgoing() async throws(StoreFault) -> [OutgoingState] {
        try await database.read { sql throws(SQLFault) in
            try [Self.notices, Self.appleTokens].map { table throws(SQLFault) in
                try sql.rows("SELECT COUNT(*), MIN(\(table.since)) FROM \(table.queue.rawValue) WHERE \(table.due) IS NOT NULL", []) {
                    row throws(SQLFault) in OutgoingState(table.queue, waiting: try row.integer(), since: try row.optionalTime())
                }
            }.flatMap(\.self)
        }
    }
}
