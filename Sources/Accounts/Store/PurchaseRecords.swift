package import Wire

/// Purchases, what stores said of them, and the tiers that they give. Each change of a purchase rewrites the grants of its accounts in the
/// same transaction, by `PurchaseRule` and `Products`.
package protocol PurchaseRecords: Sendable {
    /// Applies a notification, and keeps it; `isRepeated` if one with its id was kept before, which then stays and nothing is applied.
    func record(
        _ event: StoreEvent, body: [UInt8], digest: [UInt8], _ products: Products, _ audit: AuditContext
    ) async throws(StoreFault) -> RecordedEvent
    /// Applies what a store said of a purchase that `account` claims, and binds it. With `transfers`, one that another account has claimed
    /// moves; one that names another account by itself never does.
    func claim(
        _ key: PurchaseKey, _ effects: [PurchaseEffect], by account: UUID, transfers: Bool, _ products: Products, _ audit: AuditContext
    ) async throws(StoreFault) -> ClaimOutcome
    /// Applies what a store answered when it was asked; returns the purchases that it was about.
    func apply(_ effects: [PurchaseEffect], _ products: Products, _ audit: AuditContext) async throws(StoreFault) -> [Purchase]
    /// Gives stored purchases the names and tiers of these lines, at most `limit` in one transaction; returns how many changed.
    func adopt(_ products: Products, limit: Int, _ audit: AuditContext) async throws(StoreFault) -> Int
    func purchase(_ id: UUID) async throws(StoreFault) -> Purchase?
    func purchase(_ key: PurchaseKey) async throws(StoreFault) -> Purchase?
    /// Newest first.
    func purchases(of account: UUID) async throws(StoreFault) -> [Purchase]
    /// Those of an account and of a state at `now`, all with nil, by id behind `after`; at most `limit`.
    func purchases(
        of account: UUID?, _ state: PurchaseState?, at now: WallTime, after: UUID?, limit: Int
    ) async throws(StoreFault) -> [Purchase]
    /// Purchases of these sources that renew and whose end is between the two times, or whose state is in doubt (`grace`, `retry`) and
    /// whose end by the store is after `doubt`; by their end.
    func purchasesInDoubt(
        of sources: [PurchaseSource], after doubt: WallTime, from: WallTime, to: WallTime, limit: Int
    ) async throws(StoreFault) -> [Purchase]
    /// Kept events, newest first, older than the event `before`; all with nil.
    func storeEvents(
        _ source: PurchaseSource?, _ verdict: StoreEvent.Verdict?, before: UUID?, limit: Int
    ) async throws(StoreFault) -> [KeptStoreEvent]
    /// The newest kept events about a purchase, newest first.
    func storeEvents(about purchase: UUID, limit: Int) async throws(StoreFault) -> [KeptStoreEvent]
    func storeEvent(_ id: UUID) async throws(StoreFault) -> KeptStoreEvent?
    /// When each source's newest event came.
    func newestStoreEvents() async throws(StoreFault) -> [PurchaseSource: WallTime]
    /// Takes, or keeps, a lease of this name until a time by the database's clock; false while another holder has it.
    func hold(_ lease: String, by holder: UUID, seconds: Int64) async throws(StoreFault) -> Bool
}

/// The outcome of a notification.
package struct RecordedEvent: Sendable, Equatable {
    package let id: UUID
    package let verdict: StoreEvent.Verdict
    package let isRepeated: Bool
    package let purchases: [Purchase]

    package init(id: UUID, verdict: StoreEvent.Verdict, isRepeated: Bool, purchases: [Purchase]) {
        self.id = id
        self.verdict = verdict
        self.isRepeated = isRepeated
        self.purchases = purchases
    }
}

/// The outcome of a claim.
package enum ClaimOutcome: Sendable, Equatable {
    /// `isNews`: the purchase was without an account before, or in another state. One that moves is no news, as two accounts could move it
    /// to and fro.
    case bound(Purchase, Account, isNews: Bool)
    case ofOtherAccount
    /// The claiming account was deleted meanwhile.
    case noAccount
}
