package import Accounts
package import Wire

extension SQLStore {
    package func events(after position: Int64, of account: UUID?, limit: Int) async throws(StoreFault) -> [AccountEvent] {
        try await numberEvents()
        return try await database.read { sql throws(SQLFault) in
            var events: [AccountEvent] = []
            var place = position
            // Most entries are events; a log of others is read on.
            while events.count < limit {
                let (found, last) = try sql.events(after: place, of: account, limit: limit - events.count)
                events += found
                guard let last else { break }
                place = last
            }
            return events
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
                "INSERT INTO event_subscribers (name, position) VALUES ($1, \(SQLTransaction.newestPosition)) ON CONFLICT DO NOTHING",
                [.text(subscriber)])
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

    /// How many entries get their places in one transaction.
    private static let maxNumbered = 1_000

    /// Gives committed entries of the log their places, where the dialect does not do it at once.
    private func numberEvents() async throws(StoreFault) {
        let isDue = try await database.read(isBrief: true) { sql throws(SQLFault) in
            guard sql.dialect.numbersEventsLater else { return false }
            return try sql.first("SELECT id FROM audit_events WHERE position = 0 LIMIT 1", []) != nil
        }
        guard isDue else { return }
        while try await database.write({ sql throws(SQLFault) in try sql.numberEvents(limit: Self.maxNumbered) }) == Self.maxNumbered {}
    }
}

/// Events in the table `audit_events`, and the tables of subscribers.
extension SQLTransaction {
    /// Expression for the place of the newest entry that has one.
    fileprivate static let newestPosition =
        "COALESCE((SELECT e.position FROM audit_events e WHERE e.position > 0 ORDER BY e.position DESC LIMIT 1), 0)"
    private static let eventColumns = "e.position, e.id, e.kind, e.at, e.account, e.session, e.detail, e.new_device"

    /// An entry whose commit is seen gets its place behind those that had one. The entries of one account are committed in the order of
    /// `sequence`, as each transaction holds the account's row from before its first entry until its end.
    fileprivate func numberEvents(limit: Int) throws(SQLFault) -> Int {
        guard var row = try locked("SELECT position FROM event_numbers WHERE id = 1", []) else {
            throw .failed("the places of events are not counted")
        }
        let newest = try row.integer()
        let count = try change(
            .unlogged,
            """
            UPDATE audit_events SET position = n.place FROM (
                SELECT o.id, $1 + row_number() OVER (ORDER BY o.sequence) AS place FROM (
                    SELECT id, sequence FROM audit_events WHERE position = 0 ORDER BY sequence LIMIT $2) o
            ) n WHERE audit_events.id = n.id
            """, [.integer(newest), .integer(Int64(limit))])
        try change(.unlogged, "UPDATE event_numbers SET position = $1 WHERE id = 1", [.integer(newest + Int64(count))])
        return count
    }

    /// Events among the next `limit` entries, and the place of the last of these; nil if there is none.
    fileprivate func events(after position: Int64, of account: UUID?, limit: Int) throws(SQLFault) -> ([AccountEvent], last: Int64?) {
        let ofAccount = account == nil ? "" : " AND e.account = $3"
        var last: Int64?
        let found = try rows(
            """
            SELECT \(Self.eventColumns) FROM audit_events e
            WHERE e.position > $1 AND e.position > 0\(ofAccount) ORDER BY e.position LIMIT $2
            """,
            [.integer(position), .integer(Int64(limit))] + (account.map { [.id($0)] } ?? [])
        ) { row throws(SQLFault) in
            let (place, event) = try row.event()
            last = place
            return event
        }
        return (found.compactMap(\.self), last)
    }

    /// nil if the subscriber is not known.
    fileprivate func deliveries(to subscriber: String, _ now: WallTime, _ limit: Int) throws(SQLFault) -> DueDeliveries? {
        guard
            var row = try first(
                """
                SELECT position, (SELECT COUNT(*) FROM event_deliveries WHERE subscriber = $1 AND parked_at IS NULL)
                FROM event_subscribers WHERE name = $1
                """, [.text(subscriber)])
        else { return nil }
        let (cursor, waiting) = (try row.integer(), try row.integer())
        let again = try rows(
            """
            SELECT d.failures, d.failed_at, \(Self.eventColumns) FROM event_deliveries d JOIN audit_events e ON e.position = d.position
            WHERE d.subscriber = $1 AND d.parked_at IS NULL AND d.next_at <= $2 AND e.position > 0 AND NOT EXISTS (
                SELECT 1 FROM event_deliveries f WHERE f.subscriber = $1 AND f.account = d.account AND f.parked_at IS NULL
                    AND f.position < d.position)
            ORDER BY d.next_at LIMIT $3
            """, [.text(subscriber), .time(now), .integer(Int64(limit))]
        ) { row throws(SQLFault) in
            let (failures, failedAt) = (try row.count(), try row.optionalTime())
            return try row.event().1.map { Delivery($0, failures: failures, failedAt: failedAt) }
        }.compactMap(\.self)
        guard waiting < DueDeliveries.mostWaiting else {
            return DueDeliveries(again: again, new: [], held: [], cursor: cursor, next: cursor)
        }
        let (new, last) = try events(after: cursor, of: nil, limit: limit)
        var held: Set<UUID> = []
        if waiting > 0, !new.isEmpty {
            let accounts = try rows(
                "SELECT DISTINCT account FROM event_deliveries WHERE subscriber = $1 AND parked_at IS NULL", [.text(subscriber)]
            ) { row throws(SQLFault) in try row.id() }
            held = Set(accounts).intersection(new.map(\.account))
        }
        return DueDeliveries(again: again, new: new, held: held, cursor: cursor, next: last ?? cursor)
    }

    fileprivate func settle(_ settled: SettledDeliveries, of subscriber: String) throws(SQLFault) {
        let name = SQLValue.text(subscriber)
        for position in settled.arrived {
            try change(.unlogged, "DELETE FROM event_deliveries WHERE subscriber = $1 AND position = $2", [name, .integer(position)])
        }
        if settled.isBack {
            try change(
                .unlogged, "UPDATE event_deliveries SET next_at = $2 WHERE subscriber = $1 AND parked_at IS NULL AND next_at > $2",
                [name, .time(settled.now)])
        }
        for waiting in settled.waiting {
            let delivery = waiting.delivery
            try change(
                .unlogged,
                """
                INSERT INTO event_deliveries (subscriber, position, account, failures, failed_at, next_at, parked_at, failure)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                ON CONFLICT (subscriber, position) DO UPDATE SET failures = excluded.failures, failed_at = excluded.failed_at,
                    next_at = excluded.next_at, parked_at = excluded.parked_at, failure = excluded.failure
                """,
                [
                    name, .integer(delivery.event.position), .id(delivery.event.account), .integer(delivery.failures),
                    .time(delivery.failedAt), .time(waiting.next ?? settled.now), .time(waiting.next == nil ? settled.now : nil),
                    .text(waiting.failure),
                ])
        }
        // A replay that came in between has moved it.
        try change(
            .unlogged, "UPDATE event_subscribers SET position = $3 WHERE name = $1 AND position = $2",
            [name, .integer(settled.cursor), .integer(settled.next)])
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
