internal import Accounts
internal import Wire

/// Purchases of accounts that are deleted, taken over or merged.
extension SQLTransaction {
    /// Locks all purchases until the transaction ends.
    func lockPurchases() throws(SQLFault) { _ = try locked("SELECT source FROM purchase_sources ORDER BY source", []) }

    /// Unbinds the purchases of an account that was deleted in this transaction, which began with `lockPurchases`. They stay, with what
    /// their stores say of them, and may be claimed by another account: the person paid, and may come again. What the stores sent of them,
    /// which may name the person, goes.
    mutating func releasePurchases(ofDeleted account: UUID, _ audit: AuditContext) throws(SQLFault) {
        try change(
            .unlogged,
            """
            UPDATE store_events SET body = $2 WHERE id IN (
                SELECT e.event FROM store_event_purchases e JOIN purchases p ON p.id = e.purchase WHERE p.account = $1)
            """,
            [.id(account), .bytes([])])
        try bind(try purchaseRows("WHERE account = $1 OR claimed = $1", [.id(account)]), from: account, to: nil, audit)
    }

    /// Unbinds the purchases that were claimed by the user who lost this account; those that name the account stay with it.
    mutating func releasePurchases(claimedBy account: inout Account, _ audit: AuditContext) throws(SQLFault) {
        guard try first("SELECT id FROM purchases WHERE claimed = $1 LIMIT 1", [.id(account.id)]) != nil else { return }
        try lockPurchases()
        try bind(try purchaseRows("WHERE claimed = $1", [.id(account.id)]), from: account.id, to: nil, audit)
        if let stored = try self.account(account.id) { account.entitlement = stored.entitlement }
    }

    /// Gives the purchases of an account that is merged into another one to that, also those of which stores tell later. The transaction
    /// begins with `lockPurchases`.
    mutating func movePurchases(from giver: UUID, to taker: UUID, _ audit: AuditContext) throws(SQLFault) {
        try putTransfer(from: giver, to: taker, at: audit.now, nil, nil)
        var rows = try purchaseRows("WHERE account = $1 OR claimed = $1", [.id(giver)])
        for key in try purchases(passing: giver) where !rows.contains(where: { $0.facts.key == key }) {
            if let row = try purchaseRow(key) { rows.append(row) }
        }
        try bind(rows, from: giver, to: taker, audit)
    }

    /// Binds purchases to the accounts that follow from their facts, with the claims of `giver` as the taker's.
    private mutating func bind(_ rows: [PurchaseRow], from giver: UUID, to taker: UUID?, _ audit: AuditContext) throws(SQLFault) {
        var accounts: Set<UUID> = []
        for before in rows {
            var row = before
            if row.facts.claimed == giver { row.facts.claimed = taker }
            row.outcome?.account = PurchaseRule.account(try named(row.facts), claimed: row.facts.claimed)
            guard row != before else { continue }
            row.updatedAt = audit.now
            try put(row)
            try log(row, before: before, audit)
            accounts.formUnion([before.outcome?.account, row.outcome?.account].compactMap { $0 })
        }
        for account in accounts.sorted() { try rewriteGrants(of: account, at: audit.now) }
    }
}
