internal import Credentials
internal import Wire

/// How many rows a transaction of a sweep changes, so that it holds the writer for some milliseconds only: half as many after one that took
/// longer, and more again once they are quick.
struct SweepPortion {
    private static let longest = Duration.milliseconds(10)
    private static let most = 500

    private(set) var rows = most
    /// Whether nothing is left.
    private(set) var isLast = false

    mutating func note(_ changed: Int, in time: Duration) {
        isLast = changed < rows
        if time > Self.longest { rows = max(rows / 2, 1) } else if time < Self.longest / 4 { rows = min(rows * 2, Self.most) }
    }
}

/// The time by which expired rows are deleted, kept in the table `sweeps`. A gateway whose clock is wrong must not delete what is
/// alive, nor end a session under a time at which others delete its record.
///
/// It never passes the earlier of the gateway's clock and the database's. Where the database has no clock of its own, it also moves
/// by at most a stride a sweep, so that a clock that is far ahead deletes nothing that lives before it has stayed wrong for days.
/// A time that lags behind only keeps rows longer: their deadlines are checked wherever they are used.
extension SQLTransaction {
    /// How long the record of an ended session is kept beyond its last token: `sweeps` may lag behind by that much.
    static let keptSeconds = SessionPolicy.maxAccessSeconds + 86_400

    /// Deletes rows that meet `condition`; returns how many.
    func deleteSome(of table: String, where condition: String, _ values: [SQLValue], atMost rows: Int) throws(SQLFault) -> Int {
        // PostgreSQL plans for the number: for a parameter it may read the whole table.
        let chosen = dialect.some("FROM \(table) WHERE \(condition) LIMIT \(rows)")
        return try change(.unlogged, "DELETE FROM \(table) WHERE \(chosen)", values)
    }

    /// Deletes sessions whose deadline has passed, and puts off those that were refreshed; returns how many.
    func sweepSessions(through oldest: WallTime, atMost rows: Int) throws(SQLFault) -> Int {
        // The second finds what the first has left, as both go by the index.
        let due = dialect.some("FROM sessions WHERE sweep_at <= $1 ORDER BY sweep_at LIMIT $2")
        let ended = try change(
            .unlogged, "DELETE FROM sessions WHERE idle_deadline <= $1 AND \(due)", [.time(oldest), .integer(Int64(rows))])
        return try ended
            + change(
                .unlogged, "UPDATE sessions SET sweep_at = idle_deadline WHERE idle_deadline > $1 AND \(due)",
                [.time(oldest), .integer(Int64(rows - ended))])
    }

    /// Moves the time of sweeps on, by at most `stride` seconds where clocks are not shared, and returns the one to delete by.
    func sweepTime(_ own: WallTime, stride: Int64) throws(SQLFault) -> WallTime {
        let last = "(SELECT MAX(at) FROM sweeps)"
        // A store that was never swept begins with its newest event. Ids of events are in the order of time.
        let newest = "(SELECT at FROM audit_events ORDER BY id DESC LIMIT 1)"
        guard var row = try first("SELECT \(dialect.clock), COALESCE(\(last), \(newest))", []) else {
            throw .failed("the database does not tell its time")
        }
        let clock = try row.time()
        let now = min(own, clock)
        let found = try row.optionalTime()
        // Without any event there is nothing to delete, and a clock that is ahead would leave its time for good; a shared clock may begin,
        // so that stamps have a floor from the first sweep on.
        guard var known = found ?? (dialect.isClockShared ? now : nil) else { return now }
        // Set by a clock that was ahead and was set right since: the shared one is never ahead of itself, and stamps that are further
        // ahead than records are kept protect nothing.
        if dialect.isClockShared || clock.advanced(seconds: Self.keptSeconds) < known { known = min(known, clock) }
        let limit = dialect.isClockShared ? now : min(now, known.advanced(seconds: stride))
        // Never back otherwise: a clock that is behind would take the floor from under the stamps.
        try change(
            .unlogged, "INSERT INTO sweeps (id, at) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET at = excluded.at",
            [.time(max(limit, known))])
        return limit
    }

    /// The expression for parameter `time`, or for the time of the last sweep, and parameter `after` microseconds, if that is later. A
    /// stamp of a clock that is behind is raised by it; a NULL `after` leaves it alone.
    static func noEarlierThanSweep(_ time: String, after: String = "0") -> String {
        """
        (SELECT MAX(time) FROM (SELECT CAST(\(time) AS BIGINT) AS time
            UNION ALL SELECT at + CAST(\(after) AS BIGINT) FROM sweeps) AS times)
        """
    }
}
