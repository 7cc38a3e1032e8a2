package import Accounts
package import Wire

extension SQLStore {
    package func claim(
        _ key: PurchaseKey, _ effects: [PurchaseEffect], by account: UUID, transfers: Bool, _ products: Products, _ audit: AuditContext
    ) async throws(StoreFault) -> ClaimOutcome {
        try await database.write(locking: .claims(key.source)) { sql throws(SQLFault) in
            try sql.lockPurchases(of: effects.map(\.source) + [key.source])
            // It cannot be deleted meanwhile: a deletion locks the purchases first.
            guard try sql.isAccount(account) else { return .noAccount }
            var ledger = PurchaseLedger(products, audit)
            try sql.apply(effects, to: &ledger)
            let isClaimed = try sql.claim(key, effects, by: account, transfers: transfers, in: &ledger)
            try sql.settle(&ledger)
            guard isClaimed else { return .ofOtherAccount }
            guard let purchase = ledger[key]?.purchase, let owner = try sql.account(account) else {
                throw .failed("a purchase is claimed of which its store said nothing")
            }
            return .bound(purchase, owner, isNews: ledger.isNews(key))
        }
    }

    package func apply(
        _ effects: [PurchaseEffect], _ products: Products, _ audit: AuditContext
    ) async throws(StoreFault) -> [Purchase] {
        guard let source = effects.first?.source else { return [] }
        return try await database.write(locking: .notifications(source)) { sql throws(SQLFault) in
            try sql.lockPurchases(of: effects.map(\.source))
            var ledger = PurchaseLedger(products, audit)
            try sql.apply(effects, to: &ledger)
            try sql.settle(&ledger)
            return ledger.purchases
        }
    }

    package func adopt(_ products: Products, limit: Int, _ audit: AuditContext) async throws(StoreFault) -> Int {
        // Most often there is nothing to do, which needs no lock.
        guard try await !database.read({ sql throws(SQLFault) in try sql.unadopted(products, limit: 1) }).isEmpty else { return 0 }
        return try await database.write(locking: .notifications(.apple)) { sql throws(SQLFault) in
            try sql.lockPurchases()
            var ledger = PurchaseLedger(products, audit)
            let found = try sql.unadopted(products, limit: limit)
            for row in try sql.purchaseRows(ids: found) { ledger.take(row) }
            try sql.settle(&ledger, adopting: true)
            return found.count
        }
    }

    package func purchase(_ id: UUID) async throws(StoreFault) -> Purchase? {
        try await database.read(isBrief: true) { sql throws(SQLFault) in try sql.purchaseRows(ids: [id]).first?.purchase }
    }

    package func purchase(_ key: PurchaseKey) async throws(StoreFault) -> Purchase? {
        try await database.read(isBrief: true) { sql throws(SQLFault) in try sql.purchaseRow(key)?.purchase }
    }

    package func purchases(of account: UUID) async throws(StoreFault) -> [Purchase] {
        try await database.read(isBrief: true) { sql throws(SQLFault) in
            try sql.purchases("WHERE account = $1 AND state IS NOT NULL ORDER BY id DESC", [.id(account)])
        }
    }

    package func purchases(
        of account: UUID?, _ state: PurchaseState?, at now: WallTime, after: UUID?, limit: Int
    ) async throws(StoreFault) -> [Purchase] {
        var (condition, values): (String, [SQLValue]) = ("id > $2", [.integer(Int64(limit)), .id(after ?? UUID(high: 0, low: 0))])
        if let account {
            values.append(.id(account))
            condition += " AND account = $\(values.count)"
        }
        if let state {
            values += [.text(state.rawValue), .time(now)]
            // As `PurchaseRule.state` has it.
            let isOver = "state IN ('active', 'grace') AND COALESCE(ends_at <= $\(values.count), FALSE)"
            let isStored = "state = $\(values.count - 1)"
            condition += state == .expired ? " AND (\(isStored) OR \(isOver))" : " AND \(isStored) AND NOT (\(isOver))"
        } else {
            condition += " AND state IS NOT NULL"
        }
        let (clauses, parameters) = ("WHERE \(condition) ORDER BY id LIMIT $1", values)
        return try await database.read { sql throws(SQLFault) in try sql.purchases(clauses, parameters) }
    }

    package func purchasesInDoubt(
        of sources: [PurchaseSource], after doubt: WallTime, from: WallTime, to: WallTime, limit: Int
    ) async throws(StoreFault) -> [Purchase] {
        guard !sources.isEmpty else { return [] }
        let places = sources.indices.map { "$\($0 + 5)" }.joined(separator: ", ")
        return try await database.read { sql throws(SQLFault) in
            try sql.purchases(
                """
                WHERE ((status_renews = 1 AND state IN ('active', 'expired') AND ends_at BETWEEN $1 AND $2)
                    OR (state IN ('grace', 'retry') AND COALESCE(status_until, status_at) > $3))
                AND source IN (\(places)) ORDER BY ends_at, id LIMIT $4
                """,
                [.time(from), .time(to), .time(doubt), .integer(Int64(limit))] + sources.map { .text($0.rawValue) })
        }
    }

    package func hold(_ lease: String, by holder: UUID, seconds: Int64) async throws(StoreFault) -> Bool {
        try await database.write { sql throws(SQLFault) in
            let clock = "(SELECT \(sql.dialect.clock))"
            return try sql.change(
                .unlogged,
                """
                INSERT INTO leases (name, holder, ends_at) VALUES ($1, $2, \(clock) + $3)
                ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, ends_at = excluded.ends_at
                WHERE leases.holder = excluded.holder OR leases.ends_at <= \(clock)
                """,
                [.text(lease), .id(holder), .integer(seconds * 1_000_000)]) == 1
        }
    }
}

/// The purchases that a transaction is about, as they are stored and as they will be.
struct PurchaseLedger {
    fileprivate let products: Products
    fileprivate let audit: AuditContext
    fileprivate var rows: [PurchaseRow] = []
    fileprivate var stored: [UUID: PurchaseRow] = [:]
    /// Accounts that get purchases by a transfer.
    fileprivate var takers: Set<UUID> = []
    /// Whether a purchase, or a transfer, names an account that is not there, and nothing else binds the purchase.
    fileprivate(set) var isNamedMissing = false

    init(_ products: Products, _ audit: AuditContext) {
        self.products = products
        self.audit = audit
    }

    subscript(key: PurchaseKey) -> PurchaseRow? { rows.first { $0.facts.key == key } }
    var purchases: [Purchase] { rows.compactMap(\.purchase) }
    /// Whether a purchase was without an account before, or in another state.
    func isNews(_ key: PurchaseKey) -> Bool {
        guard let row = self[key], let before = stored[row.id]?.outcome, let account = before.account else { return true }
        return account == row.outcome?.account && before != row.outcome
    }

    mutating func take(_ row: PurchaseRow) {
        rows.append(row)
        stored[row.id] = row
    }

    /// Takes back that a purchase which has an account names another one.
    fileprivate mutating func keepOwner(of key: PurchaseKey) {
        for index in rows.indices where rows[index].facts.key == key {
            guard let known = stored[rows[index].id], known.outcome?.account != nil else { continue }
            rows[index].facts.named = known.facts.named
        }
    }
}

extension SQLTransaction {
    /// Applies effects to the registers, and gathers the purchases that they are about. The caller has locked the purchases of their
    /// sources, and settles the ledger.
    mutating func apply(_ effects: [PurchaseEffect], to ledger: inout PurchaseLedger) throws(SQLFault) {
        for effect in effects {
            switch effect {
            case .status(let key, let status):
                try change(key, in: &ledger) { $0.take(status) }
                for row in ledger.rows where row.facts.key == key { try putPayments(status, of: row) }
            case .owner(let key, let owner, let time, let told):
                try change(key, in: &ledger) { $0.take(NamedOwner(owner, at: time, told: told)) }
            case .ended(let ended):
                try put(ended)
                for key in try purchases(paidBy: ended) { try change(key, in: &ledger) }
            case .transfer(let source, let environment, let givers, let taker, let time):
                ledger.takers.insert(taker)
                for giver in givers {
                    try putTransfer(from: giver, to: taker, at: time, source, environment)
                    for key in try purchases(passing: giver) where key.source == source && key.environment == environment {
                        try change(key, in: &ledger)
                    }
                }
            }
        }
    }

    /// Claims a purchase for an account; false if it is another one's, which then keeps it.
    mutating func claim(
        _ key: PurchaseKey, _ effects: [PurchaseEffect], by account: UUID, transfers: Bool, in ledger: inout PurchaseLedger
    ) throws(SQLFault) -> Bool {
        try change(key, in: &ledger)
        // The proof may be of an older transaction, and that names an account of its own.
        var proof = PurchaseFacts(key)
        for case .owner(key, let owner, let at, let told) in effects { proof.take(NamedOwner(owner, at: at, told: told)) }
        guard let facts = ledger[key]?.facts,
            try PurchaseRule.mayClaim(account, named(proof), claimed: nil, transfers: false),
            try PurchaseRule.mayClaim(account, named(facts), claimed: facts.claimed, transfers: transfers)
        else {
            ledger.keepOwner(of: key)
            return false
        }
        try change(key, in: &ledger) { $0.claimed = account }
        return true
    }

    /// Finds a purchase, or begins one, and changes what is known of it.
    private mutating func change(
        _ key: PurchaseKey, in ledger: inout PurchaseLedger, _ body: (inout PurchaseFacts) -> Void = { _ in }
    ) throws(SQLFault) {
        if ledger[key] == nil {
            if let row = try purchaseRow(key) {
                ledger.take(row)
            } else {
                ledger.rows.append(PurchaseRow(key, id: newID(at: ledger.audit.now), now: ledger.audit.now))
            }
        }
        for index in ledger.rows.indices where ledger.rows[index].facts.key == key { body(&ledger.rows[index].facts) }
    }

    /// Writes what follows from the registers, and the grants of all accounts that are concerned.
    ///
    /// A product that no line has keeps the name and tier that it was given, unless the purchases adopt these lines: while gateways are
    /// updated one after the other, one that has the line and one that has not yet handle the same purchase.
    mutating func settle(_ ledger: inout PurchaseLedger, adopting: Bool = false) throws(SQLFault) {
        var accounts: Set<UUID> = []
        for index in ledger.rows.indices {
            var row = ledger.rows[index]
            let before = ledger.stored[row.id]
            let named = try named(row.facts)
            row.outcome = try row.facts.status.map { status throws(SQLFault) in
                let whole = try withPayments(status, of: row)
                let line = ledger.products.line(row.facts.key.source, status.product) ?? (adopting ? nil : before?.line(of: status.product))
                return PurchaseRule.outcome(of: row.facts, whole, named, ended: try ended(of: row), line, at: ledger.audit.now)
            }
            if named == .unknown || (named == .deleted && row.outcome?.account == nil) { ledger.isNamedMissing = true }
            if row != before {
                row.updatedAt = ledger.audit.now
                try put(row)
                try log(row, before: before, ledger.audit)
                accounts.formUnion([before?.outcome?.account, row.outcome?.account].compactMap { $0 })
            }
            ledger.rows[index] = row
        }
        for taker in ledger.takers where try !isAccount(taker) { ledger.isNamedMissing = true }
        // In the order of their ids, so that two transactions wait for each other in one direction.
        for account in accounts.sorted() { try rewriteGrants(of: account, at: ledger.audit.now) }
    }

    /// Writes the audit events of a purchase that changed.
    mutating func log(_ row: PurchaseRow, before: PurchaseRow?, _ audit: AuditContext) throws(SQLFault) {
        guard let outcome = row.outcome, outcome != before?.outcome else { return }
        func change(isOwned: Bool) -> PurchaseChange {
            PurchaseChange(
                row.id, source: row.facts.key.source.rawValue, product: outcome.product ?? row.facts.status?.product ?? "",
                state: outcome.state.rawValue, until: outcome.until, isOwned: isOwned)
        }
        if let account = outcome.account { try log(.purchaseChanged, account, audit, detail: change(isOwned: true).detail) }
        if let former = before?.outcome?.account, former != outcome.account {
            try log(.purchaseChanged, former, audit, detail: change(isOwned: false).detail)
        }
    }

    fileprivate func purchases(_ clauses: String, _ values: [SQLValue]) throws(SQLFault) -> [Purchase] {
        try purchaseRows(clauses, values).compactMap(\.purchase)
    }

    /// Purchases that have another name, tier or grace than their product's line, at most `limit`.
    fileprivate func unadopted(_ products: Products, limit: Int) throws(SQLFault) -> [UUID] {
        let kinds = try rows(
            "SELECT DISTINCT source, status_product, product, tier, grace FROM purchases WHERE status_product IS NOT NULL", []
        ) { row throws(SQLFault) in
            (
                source: try row.word(PurchaseSource.self), sold: try row.text(), name: try row.optionalText(), tier: try row.optionalText(),
                grace: try row.optionalInteger()
            )
        }
        var found: [UUID] = []
        for kind in kinds where found.count < limit {
            let line = products.line(kind.source, kind.sold)
            guard (line?.name, line?.tier, line?.graceSeconds) != (kind.name, kind.tier, kind.grace) else { continue }
            found += try rows(
                """
                SELECT id FROM purchases WHERE source = $1 AND status_product = $2
                AND COALESCE(product, '') = $3 AND COALESCE(tier, '') = $4 AND COALESCE(grace, -1) = $5 ORDER BY id LIMIT $6
                """,
                [
                    .text(kind.source.rawValue), .text(kind.sold), .text(kind.name ?? ""), .text(kind.tier ?? ""),
                    .integer(kind.grace ?? -1), .integer(Int64(limit - found.count)),
                ]
            ) { row throws(SQLFault) in try row.id() }
        }
        return found
    }
}

extension PurchaseEffect {
    var source: PurchaseSource {
        switch self {
        case .status(let key, _), .owner(let key, _, _, _): key.source
        case .ended(let ended): ended.source
        case .transfer(let source, _, _, _, _): source
        }
    }
}
