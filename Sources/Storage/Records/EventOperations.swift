package import Accounts
package import Wire

extension SQLStore {
    package func events(after position: Int64, of account: UUID?, limit: Int) async throws(StoreFault) -> [AccountEvent] {
        try await numberEvents()
        return try await database.read { sql throws(SQLFault) in
            let ofAccount = account == nil ? "" : " AND e.account = $3"
            return try sql.rows(
                """
                SELECT \(SQLTransaction.eventColumns) FROM audit_events e
                WHERE e.position > $1 AND e.position > 0 AND \(SQLTransaction.isEvent(of: Set(AccountEvent.Kind.allCases)))\(ofAccount)
                ORDER BY e.position LIMIT $2
                """,
                [.integer(position), .integer(Int64(limit))] + (account.map { [.id($0)] } ?? [])
            ) { row throws(SQLFault) in try row.event().1 }.compactMap(\.self)
        }
    }

    package func position(ofEvent id: UUID) async throws(StoreFault) -> Int64? {
        try await numberEvents()
        return try await database.read(isBrief: true) { sql throws(SQLFault) in
            var row = try sql.first("SELECT position FROM audit_events WHERE id = $1", [.id(id)])
            return try row?.optionalInteger()
        }
    }

    package func deliveries(to subscriber: String, now: WallTime, limit: Int) async throws(StoreFault) -> DueDeliveries {
        try await numberEvents()
        let due = try await database.read { sql throws(SQLFault) in try sql.deliveries(to: subscriber, now, limit) }
        if let due { return due }
        return try await database.write { sql throws(SQLFault) in
            try sql.change(
                .unlogged,
                """
                INSERT INTO event_subscribers (name, position, seen_at) VALUES ($1, \(SQLTransaction.newestPosition), $2)
                ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at
                """, [.text(subscriber), .time(now)])
            guard let due = try sql.deliveries(to: subscriber, now, limit) else { throw .conflict }
            return due
        }
    }

    package func settle(
        _ settled: SettledDeliveries, of subscriber: String, lease: String, by sender: UUID
    ) async throws(StoreFault) -> Bool {
        try await database.write { sql throws(SQLFault) in
            let held = try sql.locked(
                "SELECT holder FROM leases WHERE name = $1 AND holder = $2 AND ends_at > (SELECT \(sql.dialect.clock))",
                [.text(lease), .id(sender)])
            guard held != nil else { return false }
            try sql.settle(settled, of: subscriber)
            return true
        }
    }

    package func subscriptions() async throws(StoreFault) -> [Subscription] {
        try await numberEvents()
        return try await database.read { sql throws(SQLFault) in
            try sql.rows(
                """
                SELECT s.name, \(SQLTransaction.newestPosition) - s.position,
                    (SELECT COUNT(*) FROM event_deliveries d WHERE d.subscriber = s.name AND d.parked_at IS NULL),
                    (SELECT COUNT(*) FROM event_deliveries d WHERE d.subscriber = s.name AND d.parked_at IS NOT NULL),
                    (SELECT MIN(d.failed_at) FROM event_deliveries d WHERE d.subscriber = s.name AND d.parked_at IS NULL),
                    (SELECT d.failure FROM event_deliveries d WHERE d.subscriber = s.name AND d.failure IS NOT NULL
                        ORDER BY d.next_at DESC LIMIT 1)
                FROM event_subscribers s ORDER BY s.name
                """, []
            ) { row throws(SQLFault) in
                Subscription(
                    name: try row.text(), behind: try row.integer(), waiting: try row.integer(), parked: try row.integer(),
                    waitingSince: try row.optionalTime(), failure: try row.optionalText())
            }
        }
    }

    package func replay(to subscriber: String, after position: Int64) async throws(StoreFault) -> Bool {
        try await database.write { sql throws(SQLFault) in
            let isKnown =
                try sql.change(
                    .unlogged, "UPDATE event_subscribers SET position = $2 WHERE name = $1", [.text(subscriber), .integer(position)]) == 1
            try sql.change(
                .unlogged, "DELETE FROM event_deliveries WHERE subscriber = $1 AND position > $2", [.text(subscriber), .integer(position)])
            return isKnown
        }
    }

    /// A subscriber that no gateway has sent anything for so long is forgotten.
    private static let keptSeconds: Int64 = 7 * 86_400

    /// Forgets subscribers that were taken out, and old parked events; numbers what no request has asked for.
    func sweepEvents(now: WallTime) async throws(StoreFault) {
        let numbersLater = try await database.write { sql throws(SQLFault) in
            try sql.change(
                .unlogged, "DELETE FROM event_deliveries WHERE parked_at <= $1",
                [.time(now.advanced(seconds: -Subscription.parkedSeconds))])
            let oldest = SQLValue.time(now.advanced(seconds: -Self.keptSeconds))
            try sql.change(
                .unlogged,
                "DELETE FROM event_deliveries WHERE subscriber IN (SELECT name FROM event_subscribers WHERE seen_at <= $1)", [oldest])
            try sql.change(.unlogged, "DELETE FROM event_subscribers WHERE seen_at <= $1", [oldest])
            return sql.dialect.numbersEventsLater
        }
        if numbersLater { try await numberEvents() }
    }

    /// Gives committed entries of the log their places, where the dialect does not do it at once.
    private func numberEvents() async throws(StoreFault) {
        let isDue = try await database.read(isBrief: true) { sql throws(SQLFault) in
            guard sql.dialect.numbersEventsLater else { return false }
            // In the order of the index: without it the planner may read the whole log, where many entries had no place when it was analysed.
            return try sql.first("SELECT sequence FROM audit_events WHERE position = 0 ORDER BY sequence LIMIT 1", []) != nil
        }
        guard isDue else { return }
        while try await database.write({ sql throws(SQLFault) in try sql.numberEvents() }) == SQLTransaction.maxNumbered {}
    }
}

/// Events in the table `audit_events`, and the tables of subscribers.
extension SQLTransaction {
    /// Expression for the place of the newest entry that has one.
    fileprivate static let newestPosition =
        "COALESCE((SELECT e.position FROM audit_events e WHERE e.position > 0 ORDER BY e.position DESC LIMIT 1), 0)"
    fileprivate static let eventColumns = "e.position, e.id, e.kind, e.at, e.account, e.session, e.detail, e.new_device"

    /// How many entries get their places in one transaction. In the statement's text, by which the planner knows it.
    fileprivate static let maxNumbered = 1_000

    /// An entry whose commit is seen gets its place behind those that had one. The entries of one account are committed in the order of
    /// `sequence`, as each transaction holds the account's row from before its first entry until its end.
    fileprivate func numberEvents() throws(SQLFault) -> Int {
        guard var row = try locked("SELECT position FROM event_numbers WHERE id = 1", []) else {
            throw .failed("the places of events are not counted")
        }
        let newest = try row.integer()
        let count = try change(
            .unlogged,
            """
            UPDATE audit_events SET position = n.place FROM (
                SELECT o.id, $1 + row_number() OVER (ORDER BY o.sequence) AS place FROM (
                    SELECT id, sequence FROM audit_events WHERE position = 0 ORDER BY sequence LIMIT \(Self.maxNumbered)) o
            ) n WHERE audit_events.id = n.id
            """, [.integer(newest)])
        try change(.unlogged, "UPDATE event_numbers SET position = $1 WHERE id = 1", [.integer(newest + Int64(count))])
        return count
    }

    /// Condition for the entries of which subscribers of these kinds are told.
    fileprivate static func isEvent(of kinds: Set<AccountEvent.Kind>) -> String {
        let words = AuditEvent.Kind.allCases.filter { kind in AccountEvent.Kind(kind).map(kinds.contains) ?? false }
        return "e.account IS NOT NULL AND e.kind IN (\(words.map { "'\($0.rawValue)'" }.joined(separator: ", ")))"
    }

    /// Events among the next `limit` entries, and the place of the last of these; nil if there is none.
    private func events(after position: Int64, limit: Int) throws(SQLFault) -> ([AccountEvent], last: Int64?) {
        var last: Int64?
        let found = try rows(
            """
            SELECT \(Self.eventColumns) FROM audit_events e
            WHERE e.position > $1 AND e.position > 0 ORDER BY e.position LIMIT $2
            """, [.integer(position), .integer(Int64(limit))]
        ) { row throws(SQLFault) in
            let (place, event) = try row.event()
            last = place
            return event
        }
        return (found.compactMap(\.self), last)
    }

    /// Between two notes that a gateway sends to a subscriber.
    private static let noteSeconds: Int64 = 3_600

    /// nil if the subscriber is not known, or if it is to be noted that a gateway sends to it.
    fileprivate func deliveries(to subscriber: String, _ now: WallTime, _ limit: Int) throws(SQLFault) -> DueDeliveries? {
        guard
            var row = try first(
                """
                SELECT position, seen_at, (SELECT COUNT(*) FROM event_deliveries WHERE subscriber = $1 AND parked_at IS NULL)
                FROM event_subscribers WHERE name = $1
                """, [.text(subscriber)])
        else { return nil }
        let (cursor, seen, waiting) = (try row.integer(), try row.time(), try row.integer())
        guard now < seen.advanced(seconds: Self.noteSeconds) else { return nil }
        let again = try rows(
            """
            SELECT d.failures, d.failed_at, \(Self.eventColumns) FROM event_deliveries d JOIN audit_events e ON e.position = d.position
            WHERE d.subscriber = $1 AND d.parked_at IS NULL AND d.next_at <= $2 AND e.position > 0
            ORDER BY d.next_at LIMIT $3
            """, [.text(subscriber), .time(now), .integer(Int64(limit))]
        ) { row throws(SQLFault) in
            let (failures, failedAt) = (try row.count(), try row.optionalTime())
            return try row.event().1.map { Delivery($0, failures: failures, failedAt: failedAt) }
        }.compactMap(\.self)
        guard waiting < DueDeliveries.mostWaiting else {
            return DueDeliveries(again: again, new: [], held: [], cursor: cursor, next: cursor)
        }
        let (new, last) = try events(after: cursor, limit: limit)
        var held: Set<UUID> = []
        if waiting > 0, !new.isEmpty {
            let accounts = try rows(
                "SELECT account FROM event_deliveries WHERE subscriber = $1 AND parked_at IS NULL", [.text(subscriber)]
            ) { row throws(SQLFault) in try row.id() }
            held = Set(accounts).intersection(new.map(\.account))
        }
        return DueDeliveries(again: again, new: new, held: held, cursor: cursor, next: last ?? cursor)
    }

    fileprivate func settle(_ settled: SettledDeliveries, of subscriber: String) throws(SQLFault) {
        let name = SQLValue.text(subscriber)
        guard var row = try locked("SELECT position FROM event_subscribers WHERE name = $1", [name]) else { return }
        // A replay that came in between has moved it, and has dropped what waited behind it.
        let isMoved = try row.integer() != settled.cursor
        if !isMoved {
            try change(.unlogged, "UPDATE event_subscribers SET position = $2 WHERE name = $1", [name, .integer(settled.next)])
        }
        for position in settled.arrived {
            let wasWaiting = try change(
                .unlogged, "DELETE FROM event_deliveries WHERE subscriber = $1 AND position = $2", [name, .integer(position)])
            if wasWaiting == 1 { try keepNext(behind: position, settled, name) }
        }
        if settled.isBack {
            try change(
                .unlogged,
                "UPDATE event_deliveries SET next_at = $2 WHERE subscriber = $1 AND parked_at IS NULL AND next_at > $2 AND is_away = 1",
                [name, .time(settled.now)])
        }
        for waiting in settled.waiting {
            let position = waiting.delivery.event.position
            let isNew = position > settled.cursor
            if isNew, isMoved { continue }
            let isNoted = isNew ? try add(waiting, settled, name) : try note(waiting, settled, name)
            if isNoted, waiting.next == nil { try keepNext(behind: position, settled, name) }
        }
    }

    /// Notes the outcome of one that waits; false if it waits no more.
    private func note(_ waiting: SettledDeliveries.Waiting, _ settled: SettledDeliveries, _ name: SQLValue) throws(SQLFault) -> Bool {
        try change(
            .unlogged,
            """
            UPDATE event_deliveries SET failures = $3, failed_at = $4, next_at = $5, parked_at = $6, failure = $7, is_away = $8
            WHERE subscriber = $1 AND position = $2 AND parked_at IS NULL
            """, [name, .integer(waiting.delivery.event.position)] + Self.outcome(waiting, settled)) == 1
    }

    private func add(_ waiting: SettledDeliveries.Waiting, _ settled: SettledDeliveries, _ name: SQLValue) throws(SQLFault) -> Bool {
        let event = waiting.delivery.event
        return try change(
            .unlogged,
            """
            INSERT INTO event_deliveries (subscriber, position, failures, failed_at, next_at, parked_at, failure, is_away, account)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            """, [name, .integer(event.position)] + Self.outcome(waiting, settled) + [.id(event.account)]) == 1
    }

    private static func outcome(_ waiting: SettledDeliveries.Waiting, _ settled: SettledDeliveries) -> [SQLValue] {
        [
            .integer(waiting.delivery.failures), .time(waiting.delivery.failedAt), .time(waiting.next ?? settled.now),
            .time(waiting.next == nil ? settled.now : nil), .text(waiting.failure?.reason),
            .integer(waiting.failure?.isAway == true ? 1 : 0),
        ]
    }

    /// Has the next event of an account be due, if there is one up to the subscriber's place.
    private func keepNext(behind position: Int64, _ settled: SettledDeliveries, _ name: SQLValue) throws(SQLFault) {
        guard !settled.kinds.isEmpty else { return }
        try change(
            .unlogged,
            """
            INSERT INTO event_deliveries (subscriber, position, account, failures, next_at, is_away)
            SELECT s.name, e.position, e.account, 0, CAST($3 AS BIGINT), 0 FROM event_subscribers s, audit_events p, audit_events e
            WHERE s.name = $1 AND p.position = $2 AND p.position > 0 AND e.account = p.account AND e.position > p.position
                AND e.position > 0 AND e.position <= s.position AND \(Self.isEvent(of: settled.kinds))
            ORDER BY e.position LIMIT 1
            """, [name, .integer(position), .time(settled.now)])
    }
}

extension SQLRow {
    /// The columns `eventColumns`; nil for an entry of which services are not told, also one of a later release.
    fileprivate mutating func event() throws(SQLFault) -> (Int64, AccountEvent?) {
        let (position, id) = (try integer(), try id())
        guard let kind = AuditEvent.Kind(rawValue: try text()) else { return (position, nil) }
        let (at, user, session, detail) = (try time(), try optionalID(), try optionalID(), try optionalText())
        let isNewDevice = try optionalInteger() == 1
        let entry = AuditEvent(id: id, kind, at: at, user: user, session: session, detail: detail)
        return (position, AccountEvent(entry, position: position, isNewDevice: isNewDevice))
    }
}
