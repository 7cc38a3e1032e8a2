internal import Accounts
internal import Wire

/// A row of `purchases`.
struct PurchaseRow: Equatable {
    let id: UUID
    var facts: PurchaseFacts
    /// nil until a status is known.
    var outcome: PurchaseOutcome?
    let createdAt: WallTime
    var updatedAt: WallTime

    init(_ key: PurchaseKey, id: UUID, now: WallTime) {
        (self.id, facts, createdAt, updatedAt) = (id, PurchaseFacts(key), now, now)
    }

    /// Of the columns `SQLTransaction.purchaseColumns`.
    init(_ row: inout SQLRow) throws(SQLFault) {
        id = try row.id()
        facts = PurchaseFacts(PurchaseKey(try row.word(PurchaseSource.self), try row.word(StoreEnvironment.self), try row.text()))
        let (named, namedAt, told) = (try row.optionalID(), try row.optionalTime(), try row.optionalTime())
        if let named, let namedAt, let told { facts.named = NamedOwner(named, at: namedAt, told: told) }
        let (state, product, until) = (try row.optionalWord(PurchaseState.self), try row.optionalText(), try row.optionalTime())
        let (renews, transactions) = (try row.optionalInteger() == 1, try row.optionalText()?.split(separator: "\n").map(String.init))
        let (start, at) = (try row.optionalTime(), try row.optionalTime())
        let (paidUntil, paidFrom) = (try row.optionalTime(), try row.optionalTime())
        if let state, let product, let transactions, let start, let at {
            facts.status = PurchaseStatus(
                state, product: product, until: until, renews: renews, transactions: transactions, periodStart: start, at: at,
                paidUntil: paidUntil, paidFrom: paidFrom)
        }
        facts.claimed = try row.optionalID()
        let (account, outcome) = (try row.optionalID(), try row.optionalWord(PurchaseState.self))
        let (end, line, tier) = (try row.optionalTime(), try row.optionalText(), try row.optionalText())
        let (grace, gives) = (try row.optionalInteger(), try row.flag())
        self.outcome = outcome.map {
            PurchaseOutcome(account: account, state: $0, until: end, product: line, tier: tier, grace: grace, gives: gives)
        }
        (createdAt, updatedAt) = (try row.time(), try row.time())
    }

    /// The line from which it has its name and tier, if it is of this product.
    func line(of product: String) -> ProductLine? {
        guard facts.status?.product == product, let name = outcome?.product, let tier = outcome?.tier else { return nil }
        return ProductLine(name: name, tier: tier, products: [:], graceSeconds: outcome?.grace)
    }

    /// nil while no status is known.
    var purchase: Purchase? {
        guard let status = facts.status, let outcome else { return nil }
        return Purchase(
            id: id, key: facts.key, account: outcome.account, status: status, state: outcome.state, until: outcome.until,
            product: outcome.product, tier: outcome.tier, createdAt: createdAt, updatedAt: updatedAt)
    }

    /// In the order of `SQLTransaction.purchaseColumns`.
    fileprivate var values: [SQLValue] {
        let status = facts.status
        return [
            .id(id), .text(facts.key.source.rawValue), .text(facts.key.environment.rawValue), .text(facts.key.original),
            .id(facts.named?.account), .time(facts.named?.at), .time(facts.named?.told), .text(status?.state.rawValue),
            .text(status?.product), .time(status?.until),
            status.map { .flag($0.renews) } ?? .null, .text(status?.transactions.joined(separator: "\n")), .time(status?.periodStart),
            .time(status?.at), .time(status?.paidUntil), .time(status?.paidFrom), .id(facts.claimed), .id(outcome?.account),
            .text(outcome?.state.rawValue),
            .time(outcome?.until), .text(outcome?.product), .text(outcome?.tier), outcome?.grace.map { .integer($0) } ?? .null,
            .flag(outcome?.gives ?? false), .time(createdAt), .time(updatedAt),
        ]
    }
}

/// The tables of purchases.
extension SQLTransaction {
    private static let purchaseColumns = [
        "id", "source", "environment", "original", "named", "named_at", "named_told", "status_state", "status_product", "status_until",
        "status_renews",
        "status_transactions", "status_start", "status_at", "status_paid_until", "status_paid_from", "claimed", "account", "state",
        "ends_at",
        "product", "tier", "grace", "gives", "created_at", "updated_at",
    ]
    private static let selectPurchase = "SELECT \(purchaseColumns.joined(separator: ", ")) FROM purchases "
    private static let putPurchase = """
        INSERT INTO purchases (\(purchaseColumns.joined(separator: ", ")))
        VALUES (\((1...purchaseColumns.count).map { "$\($0)" }.joined(separator: ", ")))
        ON CONFLICT (id) DO UPDATE SET \(purchaseColumns.dropFirst(4).map { "\($0) = excluded.\($0)" }.joined(separator: ", "))
        """

    /// Locks the purchases of these stores until the transaction ends. It comes before any lock of an account, but in `strip`.
    func lockPurchases(of sources: some Sequence<PurchaseSource>) throws(SQLFault) {
        for source in Set(sources.map(\.rawValue)).sorted() {
            _ = try locked("SELECT source FROM purchase_sources WHERE source = $1", [.text(source)])
        }
    }

    /// The purchases that `clauses`, behind the table's name, select.
    func purchaseRows(_ clauses: String, _ values: [SQLValue]) throws(SQLFault) -> [PurchaseRow] {
        try rows(Self.selectPurchase + clauses, values) { row throws(SQLFault) in try PurchaseRow(&row) }
    }

    func purchaseRow(_ key: PurchaseKey) throws(SQLFault) -> PurchaseRow? {
        try purchaseRows(
            "WHERE source = $1 AND environment = $2 AND original = $3",
            [.text(key.source.rawValue), .text(key.environment.rawValue), .text(key.original)]
        ).first
    }

    func purchaseRows(ids: some Sequence<UUID>) throws(SQLFault) -> [PurchaseRow] {
        try ids.map { id throws(SQLFault) in try purchaseRows("WHERE id = $1", [.id(id)]) }.flatMap { $0 }
    }

    func put(_ row: PurchaseRow) throws(SQLFault) { try change(.unlogged, Self.putPurchase, row.values) }

    /// Keeps that the payments of a status belong to a purchase, whether or not a newer status is known.
    func putPayments(_ status: PurchaseStatus, of row: PurchaseRow) throws(SQLFault) {
        for payment in status.transactions {
            try change(
                .unlogged,
                """
                INSERT INTO purchase_payments (source, environment, payment, purchase, paid_from) VALUES ($1, $2, $3, $4, $5)
                ON CONFLICT DO NOTHING
                """,
                [
                    .text(row.facts.key.source.rawValue), .text(row.facts.key.environment.rawValue), .text(payment), .id(row.id),
                    .time(status.paidFrom ?? WallTime(seconds: 0)),
                ])
        }
    }

    /// A status of a purchase with all payments of its period, of which others may have told.
    func withPayments(_ status: PurchaseStatus, of row: PurchaseRow) throws(SQLFault) -> PurchaseStatus {
        guard let start = status.paidFrom else { return status }
        var status = status
        status.transactions += try rows(
            "SELECT payment FROM purchase_payments WHERE purchase = $1 AND paid_from = $2", [.id(row.id), .time(start)]
        ) { row throws(SQLFault) in try row.text() }
        return status
    }

    /// Keeps what is said of a payment, unless something that counts before it is kept.
    func put(_ ended: EndedTransaction) throws(SQLFault) {
        let payment: [SQLValue] = [.text(ended.source.rawValue), .text(ended.environment.rawValue), .text(ended.transaction)]
        if var row = try first("SELECT state, at FROM ended_payments WHERE source = $1 AND environment = $2 AND payment = $3", payment) {
            let state = try row.optionalWord(PurchaseState.self)
            let known = EndedTransaction(ended.source, ended.environment, ended.transaction, state, at: try row.time())
            guard PurchaseRule.counts(ended, before: known) else { return }
        }
        try change(
            .unlogged,
            """
            INSERT INTO ended_payments (source, environment, payment, state, at) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (source, environment, payment) DO UPDATE SET state = excluded.state, at = excluded.at
            """,
            payment + [.text(ended.state?.rawValue), .time(ended.at)])
    }

    /// The ends of all payments that belong to a purchase, whose status is stored.
    func ended(of row: PurchaseRow) throws(SQLFault) -> [EndedTransaction] {
        let key = row.facts.key
        return try rows(
            """
            SELECT payment, state, at FROM ended_payments WHERE source = $1 AND environment = $2 AND payment = $3
            UNION SELECT e.payment, e.state, e.at FROM purchase_payments p JOIN ended_payments e
                ON e.source = p.source AND e.environment = p.environment AND e.payment = p.payment
            WHERE p.purchase = $4
            """,
            [.text(key.source.rawValue), .text(key.environment.rawValue), .text(key.original), .id(row.id)]
        ) { row throws(SQLFault) in
            EndedTransaction(
                key.source, key.environment, try row.text(), try row.optionalWord(PurchaseState.self), at: try row.time())
        }
    }

    /// The keys of the purchases that a payment belongs to.
    func purchases(paidBy ended: EndedTransaction) throws(SQLFault) -> [PurchaseKey] {
        try rows(
            """
            SELECT original FROM purchases WHERE source = $1 AND environment = $2 AND original = $3
            UNION SELECT p.original FROM purchase_payments t JOIN purchases p ON p.id = t.purchase
            WHERE t.source = $1 AND t.environment = $2 AND t.payment = $3
            """,
            [.text(ended.source.rawValue), .text(ended.environment.rawValue), .text(ended.transaction)]
        ) { row throws(SQLFault) in PurchaseKey(ended.source, ended.environment, try row.text()) }
    }

    /// The account that a purchase names, after all transfers.
    func named(_ facts: PurchaseFacts) throws(SQLFault) -> NamedAccount {
        guard let named = facts.named else { return .none }
        let owner = try PurchaseRule.owner(named.account, since: named.at) { account, time throws(SQLFault) in
            try nextTransfer(from: account, since: time, of: facts.key)
        }
        if try isAccount(owner) { return .present(owner) }
        return try wasDeleted(IdentityKey.ofID(owner)) ? .deleted : .unknown
    }

    func isAccount(_ id: UUID) throws(SQLFault) -> Bool { try first("SELECT id FROM accounts WHERE id = $1", [.id(id)]) != nil }

    /// An account that was merged has nothing of its own any more: its transfer also takes what a store names later.
    private func nextTransfer(
        from account: UUID, since time: WallTime, of key: PurchaseKey
    ) throws(SQLFault) -> (to: UUID, at: WallTime)? {
        let found = try first(
            """
            SELECT taker, CASE WHEN at < $2 THEN $2 ELSE at END AS since FROM purchase_transfers
            WHERE giver = $1 AND (at >= $2 AND source = $3 AND environment = $4 OR source = '') ORDER BY since, taker LIMIT 1
            """,
            [.id(account), .time(time), .text(key.source.rawValue), .text(key.environment.rawValue)])
        guard var found else { return nil }
        return (to: try found.id(), at: try found.time())
    }

    /// `source` is nil for all stores, at the merge of two accounts.
    func putTransfer(
        from giver: UUID, to taker: UUID, at time: WallTime, _ source: PurchaseSource?, _ environment: StoreEnvironment?
    ) throws(SQLFault) {
        guard giver != taker else { return }
        try change(
            .unlogged,
            """
            INSERT INTO purchase_transfers (giver, at, taker, source, environment) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING
            """,
            [.id(giver), .time(time), .id(taker), .text(source?.rawValue ?? ""), .text(environment?.rawValue ?? "")])
    }

    /// The keys of the purchases that name an account, or one from which they may have come to it.
    func purchases(passing account: UUID) throws(SQLFault) -> [PurchaseKey] {
        var (givers, waiting) = (Set([account]), [account])
        var keys: [PurchaseKey] = []
        while let giver = waiting.popLast() {
            keys += try purchaseRows("WHERE named = $1", [.id(giver)]).map(\.facts.key)
            let before = try rows("SELECT giver FROM purchase_transfers WHERE taker = $1", [.id(giver)]) { row throws(SQLFault) in
                try row.id()
            }
            waiting += before.filter { givers.insert($0).inserted }
        }
        return keys
    }

    /// Makes the grants of an account those of its purchases.
    func rewriteGrants(of account: UUID, at now: WallTime) throws(SQLFault) {
        guard var row = try locked("SELECT grants FROM accounts WHERE id = $1", [.id(account)]) else { return }
        let known = try row.optionalText()
        let grants = try rows(
            "SELECT source, id, tier, ends_at FROM purchases WHERE account = $1 AND gives = 1 ORDER BY id", [.id(account)]
        ) { row throws(SQLFault) in
            Grant(source: try row.text(), key: try row.id().text, tier: try row.text(), until: try row.optionalTime())
        }
        guard Grant.text(grants) != known else { return }
        try change(
            .account(account),
            """
            UPDATE accounts SET grants = $2, tier_version = tier_version + 1, tier_changed_at = $3, updated_at = $3 WHERE id = $1
            """,
            [.id(account), .text(Grant.text(grants)), .time(now)])
    }
}
