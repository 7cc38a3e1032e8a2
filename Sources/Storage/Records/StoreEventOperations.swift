package import Accounts
package import Wire

extension SQLStore {
    package func record(
        _ event: StoreEvent, body: [UInt8], digest: [UInt8], _ products: Products, _ audit: AuditContext
    ) async throws(StoreFault) -> RecordedEvent {
        try await database.write(locking: .notifications(event.source)) { sql throws(SQLFault) in
            try sql.lockPurchases(of: event.effects.map(\.source) + [event.source])
            if let known = try sql.kept("source = $1 AND event = $2", [.text(event.source.rawValue), .text(event.id)], limit: 1).first {
                let purchases = try sql.purchaseRows(ids: known.purchases).compactMap(\.purchase)
                return RecordedEvent(id: known.id, verdict: known.verdict, isRepeated: true, purchases: purchases)
            }
            var ledger = PurchaseLedger(products, audit)
            try sql.apply(event.effects, to: &ledger)
            try sql.settle(&ledger)
            let verdict = PurchaseRule.verdict(event, ledger.purchases, isNamedMissing: ledger.isNamedMissing)
            let id = sql.newID(at: audit.now)
            let kept = KeptStoreEvent(
                id: id, event: event.id, source: event.source, type: event.type, environment: event.environment, at: event.at,
                receivedAt: audit.now, verdict: verdict, digest: digest, body: body, purchases: ledger.purchases.map(\.id))
            try sql.put(kept)
            return RecordedEvent(id: id, verdict: verdict, isRepeated: false, purchases: ledger.purchases)
        }
    }

    package func storeEvents(
        _ source: PurchaseSource?, _ verdict: StoreEvent.Verdict?, before: UUID?, limit: Int
    ) async throws(StoreFault) -> [KeptStoreEvent] {
        var (condition, values): (String, [SQLValue]) = ("id < $1", [.id(before ?? UUID(high: .max, low: .max))])
        for (column, value) in [("source", source?.rawValue), ("verdict", verdict?.rawValue)] where value != nil {
            values.append(.text(value))
            condition += " AND \(column) = $\(values.count)"
        }
        let (selected, parameters) = (condition, values)
        return try await database.read { sql throws(SQLFault) in try sql.kept(selected, parameters, limit: limit) }
    }

    package func storeEvents(about purchase: UUID, limit: Int) async throws(StoreFault) -> [KeptStoreEvent] {
        try await database.read { sql throws(SQLFault) in
            try sql.kept("id IN (SELECT event FROM store_event_purchases WHERE purchase = $1)", [.id(purchase)], limit: limit)
        }
    }

    package func storeEvent(_ id: UUID) async throws(StoreFault) -> KeptStoreEvent? {
        try await database.read { sql throws(SQLFault) in try sql.kept("id = $1", [.id(id)], limit: 1).first }
    }

    package func newestStoreEvents() async throws(StoreFault) -> [PurchaseSource: WallTime] {
        let found = try await database.read { sql throws(SQLFault) in
            try sql.rows("SELECT source, newest_event_at FROM purchase_sources WHERE newest_event_at IS NOT NULL", []) {
                row throws(SQLFault) in (try row.word(PurchaseSource.self), try row.time())
            }
        }
        return Dictionary(uniqueKeysWithValues: found)
    }
}

/// The tables of store events.
extension SQLTransaction {
    /// The events that meet `condition`, with `values` as `$1` and so on, newest first.
    fileprivate func kept(_ condition: String, _ values: [SQLValue], limit: Int) throws(SQLFault) -> [KeptStoreEvent] {
        try rows(
            """
            SELECT id, event, source, type, environment, at, received_at, verdict, digest, body FROM store_events
            WHERE \(condition) ORDER BY id DESC LIMIT $\(values.count + 1)
            """,
            values + [.integer(Int64(limit))]
        ) { row throws(SQLFault) in
            let id = try row.id()
            let (event, source, type) = (try row.text(), try row.word(PurchaseSource.self), try row.text())
            return KeptStoreEvent(
                id: id, event: event, source: source, type: type, environment: try row.word(StoreEnvironment.self), at: try row.time(),
                receivedAt: try row.time(), verdict: try row.word(StoreEvent.Verdict.self), digest: try row.bytes(),
                body: try row.bytes(), purchases: try purchases(of: id))
        }
    }

    private func purchases(of event: UUID) throws(SQLFault) -> [UUID] {
        try rows("SELECT purchase FROM store_event_purchases WHERE event = $1 ORDER BY purchase", [.id(event)]) { row throws(SQLFault) in
            try row.id()
        }
    }

    fileprivate func put(_ event: KeptStoreEvent) throws(SQLFault) {
        try change(
            .unlogged,
            """
            INSERT INTO store_events (id, event, source, type, environment, at, received_at, verdict, digest, body)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            """,
            [
                .id(event.id), .text(event.event), .text(event.source.rawValue), .text(event.type), .text(event.environment.rawValue),
                .time(event.at), .time(event.receivedAt), .text(event.verdict.rawValue), .bytes(event.digest), .bytes(event.body),
            ])
        for purchase in event.purchases {
            try change(
                .unlogged, "INSERT INTO store_event_purchases (event, purchase) VALUES ($1, $2)", [.id(event.id), .id(purchase)])
        }
        try change(
            .unlogged, "UPDATE purchase_sources SET newest_event_at = $2 WHERE source = $1",
            [.text(event.source.rawValue), .time(event.receivedAt)])
    }
}
