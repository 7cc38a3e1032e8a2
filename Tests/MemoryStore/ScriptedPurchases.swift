package import Accounts
import Synchronization
package import Wire

/// Purchases as a test has them: a list in memory that applies statuses and nothing else.
package final class ScriptedPurchases: PurchaseRecords {
    package struct Content: Sendable {
        package var purchases: [Purchase] = []
        package var events: [KeptStoreEvent] = []
        /// Whether another gateway has the lease.
        package var isHeldElsewhere = false
        /// The authors of what was applied.
        package var actors: [AuditActor] = []
        package var fault: StoreFault?
    }

    private let state: Mutex<Content>

    package init(_ purchases: [Purchase] = [], events: [KeptStoreEvent] = []) {
        state = Mutex(Content(purchases: purchases, events: events))
    }

    package var content: Content {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }

    private func read<Value>(_ body: (inout Content) -> Value) throws(StoreFault) -> Value {
        if let fault = content.fault { throw fault }
        return state.withLock { body(&$0) }
    }

    package func record(
        _ event: StoreEvent, body: [UInt8], digest: [UInt8], _ products: Products, _ audit: AuditContext
    ) async throws(StoreFault) -> RecordedEvent { throw .failed("not scripted") }

    package func claim(
        _ key: PurchaseKey, _ effects: [PurchaseEffect], by account: UUID, transfers: Bool, _ products: Products, _ audit: AuditContext
    ) async throws(StoreFault) -> ClaimOutcome { throw .failed("not scripted") }

    package func apply(_ effects: [PurchaseEffect], _ products: Products, _ audit: AuditContext) async throws(StoreFault) -> [Purchase] {
        try read { content in
            content.actors.append(audit.actor)
            var changed: [Purchase] = []
            for case .status(let key, let status) in effects {
                guard let index = content.purchases.firstIndex(where: { $0.key == key }) else { continue }
                (content.purchases[index].status, content.purchases[index].state) = (status, status.state)
                content.purchases[index].until = status.until
                changed.append(content.purchases[index])
            }
            return changed
        }
    }

    package func adopt(_ products: Products, limit: Int, _ audit: AuditContext) async throws(StoreFault) -> Int { 0 }
    package func purchase(_ id: UUID) async throws(StoreFault) -> Purchase? { try read { $0.purchases.first { $0.id == id } } }
    package func purchase(_ key: PurchaseKey) async throws(StoreFault) -> Purchase? { try read { $0.purchases.first { $0.key == key } } }
    package func purchases(of account: UUID) async throws(StoreFault) -> [Purchase] {
        try read { $0.purchases.filter { $0.account == account }.reversed() }
    }

    package func purchases(
        of account: UUID?, _ state: PurchaseState?, at now: WallTime, after: UUID?, limit: Int
    ) async throws(StoreFault) -> [Purchase] {
        try read { content in
            let found = content.purchases.filter { purchase in
                (account == nil || purchase.account == account)
                    && (state == nil || PurchaseRule.state(purchase.state, until: purchase.until, at: now) == state)
                    && (after.map { $0 < purchase.id } ?? true)
            }
            return Array(found.sorted { $0.id < $1.id }.prefix(limit))
        }
    }

    package func purchasesInDoubt(
        of sources: [PurchaseSource], after doubt: WallTime, from: WallTime, to: WallTime, limit: Int
    ) async throws(StoreFault) -> [Purchase] {
        try read { content in
            let found = content.purchases.filter { purchase in
                guard purchase.state != .grace, purchase.state != .retry else { return true }
                guard purchase.status.renews, let until = purchase.status.until else { return false }
                return from <= until && until <= to
            }
            return Array(found.prefix(limit))
        }
    }

    package func storeEvents(
        _ source: PurchaseSource?, _ verdict: StoreEvent.Verdict?, before: UUID?, limit: Int
    ) async throws(StoreFault) -> [KeptStoreEvent] {
        try read { content in
            let found = content.events.filter { event in
                (source == nil || event.source == source) && (verdict == nil || event.verdict == verdict)
                    && (before.map { event.id < $0 } ?? true)
            }
            return Array(found.sorted { $1.id < $0.id }.prefix(limit))
        }
    }

    package func storeEvents(about purchase: UUID, limit: Int) async throws(StoreFault) -> [KeptStoreEvent] {
        try read { Array($0.events.filter { $0.purchases.contains(purchase) }.sorted { $1.id < $0.id }.prefix(limit)) }
    }

    package func storeEvent(_ id: UUID) async throws(StoreFault) -> KeptStoreEvent? { try read { $0.events.first { $0.id == id } } }
    package func newestStoreEvents() async throws(StoreFault) -> [PurchaseSource: WallTime] {
        try read { Dictionary($0.events.map { ($0.source, $0.receivedAt) }, uniquingKeysWith: max) }
    }
    package func hold(_ lease: String, by holder: UUID, seconds: Int64) async throws(StoreFault) -> Bool {
        try read { !$0.isHeldElsewhere }
    }
}

/// A store of apps that answers as a test says.
package final class ScriptedStorefront: Storefront {
    package typealias Answer = Result<[PurchaseEffect]?, StorefrontFault>

    package let source: PurchaseSource
    package let isAsked = true
    private let state: Mutex<(asked: [UUID], committed: [UUID])> = Mutex(([], []))
    private let answer: @Sendable (Purchase) -> Answer
    private let event: Result<StoreEvent, StorefrontFault>

    package init(
        _ source: PurchaseSource, event: Result<StoreEvent, StorefrontFault> = .failure(.malformed(reason: "json")),
        _ answer: @escaping @Sendable (Purchase) -> Answer = { _ in .success([]) }
    ) {
        self.source = source
        self.event = event
        self.answer = answer
    }

    /// The purchases that it was asked for, in this order.
    package var asked: [UUID] { state.withLock { $0.asked } }
    /// The purchases of which it was told.
    package var committed: [UUID] { state.withLock { $0.committed } }

    package func prove(_ evidence: PurchaseEvidence, now: WallTime) async throws(StorefrontFault) -> ProvenPurchase {
        throw .malformed(reason: "not scripted")
    }
    package func notification(
        _ body: [UInt8], now: WallTime, field: @Sendable (StaticString) -> String?
    ) async throws(StorefrontFault) -> StoreEvent { try event.get() }
    package func replay(_ body: [UInt8], now: WallTime) async throws(StorefrontFault) -> StoreEvent { try event.get() }
    package func newest(_ purchase: Purchase, now: WallTime) async throws(StorefrontFault) -> [PurchaseEffect]? {
        state.withLock { $0.asked.append(purchase.id) }
        return try answer(purchase).get()
    }
    package func committed(_ purchases: [Purchase]) async { state.withLock { $0.committed += purchases.map(\.id) } }
}

extension Purchase {
    /// A purchase of a test, by a small number.
    package static func sample(
        _ number: UInt64, _ source: PurchaseSource = .apple, _ state: PurchaseState = .active, of account: UUID? = nil, until: WallTime?,
        renews: Bool = true, at now: WallTime
    ) -> Purchase {
        let status = PurchaseStatus(
            state, product: "com.example.premium", until: until, renews: renews, transactions: ["t\(number)"], periodStart: now, at: now)
        return Purchase(
            id: UUID(at: now, random: (0, number << 2)), key: PurchaseKey(source, .production, "original-\(number)"), account: account,
            status: status, state: state, until: until, product: "premium", tier: "premium", createdAt: now, updatedAt: now)
    }
}
