package import Accounts
import Synchronization
package import Wire

/// A store that believes what it is sent: `ORIGINAL PRODUCT STATE [SECONDS]`, which is until when from now on, or the word of a fault.
package final class TrustingStorefront: Storefront {
    package let source: PurchaseSource
    private let told = Mutex<[Purchase]>([])

    package init(_ source: PurchaseSource) { self.source = source }

    /// The purchases that it was told of.
    package var committed: [Purchase] { told.withLock { $0 } }

    package func prove(_ evidence: PurchaseEvidence, now: WallTime) async throws(StorefrontFault) -> ProvenPurchase {
        let text =
            switch evidence {
            case .apple(let transaction): transaction
            case .google(let package, let product, let token): "\(token) \(product) \(package ?? "active 3600")"
            case .stripe(let session): session
            }
        return try read(text, now)
    }

    package func notification(
        _ body: [UInt8], now: WallTime, field: @Sendable (StaticString) -> String?
    ) async throws(StorefrontFault) -> StoreEvent {
        if field("x-signature") == "forged" { throw .notAuthentic(reason: "signature") }
        return try await replay(body, now: now)
    }

    package func replay(_ body: [UInt8], now: WallTime) async throws(StorefrontFault) -> StoreEvent {
        let text = String(decoding: body, as: UTF8.self)
        if text == "TEST" { return StoreEvent(source, id: text, type: text, environment: .production, at: now, effects: []) }
        let effects = try read(text, now).effects
        return StoreEvent(source, id: text, type: "CHANGE", environment: .production, at: now, effects: effects)
    }

    package func newest(_ purchase: Purchase, now: WallTime) async throws(StorefrontFault) -> [PurchaseEffect]? {
        if source == .apple { return nil }
        return try read("\(purchase.key.original) \(purchase.status.product) expired", now).effects
    }

    package func committed(_ purchases: [Purchase]) async { told.withLock { $0 += purchases } }

    private func read(_ text: String, _ now: WallTime) throws(StorefrontFault) -> ProvenPurchase {
        let words = text.split(separator: " ").map(String.init)
        switch words.first {
        case "forged": throw .notAuthentic(reason: "signature")
        case "foreign": throw .foreign(reason: "bundle")
        case "sandbox": throw .environmentRefused
        case "away": throw .unavailable(reason: "timeout", retryAfterSeconds: 7)
        default: break
        }
        guard words.count > 2, let state = PurchaseState(rawValue: words[2]) else { throw .malformed(reason: "words") }
        let key = PurchaseKey(source, .production, words[0])
        let until = words.count > 3 ? Int64(words[3]).map { now.advanced(seconds: $0) } : nil
        let status = PurchaseStatus(
            state, product: words[1], until: until, renews: state == .active, transactions: [], periodStart: now, at: now)
        return ProvenPurchase(key, [.status(key, status)])
    }
}

/// Purchases over a store in memory, where the last status of a purchase counts, and an account has the tier of its last change.
package final class GrantingPurchases: PurchaseRecords {
    private let store: any AccountStore
    private let purchases = Mutex<[PurchaseKey: Purchase]>([:])
    private let events = Mutex<[KeptStoreEvent]>([])
    private let fault = Mutex<StoreFault?>(nil)

    package init(_ store: any AccountStore) { self.store = store }

    /// While it is set, every call fails so.
    package func fail(_ fault: StoreFault?) { self.fault.withLock { $0 = fault } }

    private func check() throws(StoreFault) { if let fault = fault.withLock({ $0 }) { throw fault } }

    package func record(
        _ event: StoreEvent, body: [UInt8], digest: [UInt8], _ products: Products, _ audit: AuditContext
    ) async throws(StoreFault) -> RecordedEvent {
        try check()
        let known = events.withLock { $0.first { $0.event == event.id } }
        if let known { return RecordedEvent(id: known.id, verdict: known.verdict, isRepeated: true, purchases: []) }
        let changed = try await apply(event.effects, products, audit)
        let kept = KeptStoreEvent(
            id: UUID(high: 7, low: UInt64(events.withLock(\.count))), event: event.id, source: event.source, type: event.type,
            environment: event.environment, at: event.at, receivedAt: audit.now, verdict: event.effects.isEmpty ? .kept : .applied,
            digest: digest, body: body, purchases: changed.map(\.id))
        events.withLock { $0.append(kept) }
        return RecordedEvent(id: kept.id, verdict: kept.verdict, isRepeated: false, purchases: changed)
    }

    package func claim(
        _ key: PurchaseKey, _ effects: [PurchaseEffect], by account: UUID, transfers: Bool, _ products: Products, _ audit: AuditContext
    ) async throws(StoreFault) -> ClaimOutcome {
        try check()
        let former = purchases.withLock { $0[key]?.account }
        if let former, former != account, !transfers { return .ofOtherAccount }
        if let former, former != account { _ = try await store.setTier(nil, until: nil, of: former, audit) }
        change(effects, account: account, products, audit.now)
        guard let purchase = purchases.withLock({ $0[key] }) else { throw .failed("no status") }
        try await grant(purchase, audit)
        return try await store.account(account).map { .bound(purchase, $0) } ?? .noAccount
    }

    package func apply(_ effects: [PurchaseEffect], _ products: Products, _ audit: AuditContext) async throws(StoreFault) -> [Purchase] {
        try check()
        let changed = change(effects, account: nil, products, audit.now)
        for purchase in changed { try await grant(purchase, audit) }
        return changed
    }

    package func adopt(_ products: Products, limit: Int, _ audit: AuditContext) async throws(StoreFault) -> Int {
        try check()
        let late = purchases.withLock { $0.values.filter { $0.product == nil && products.line($0.key.source, $0.status.product) != nil } }
        return try await apply(late.prefix(limit).map { .status($0.key, $0.status) }, products, audit).count
    }

    @discardableResult
    private func change(_ effects: [PurchaseEffect], account: UUID?, _ products: Products, _ now: WallTime) -> [Purchase] {
        purchases.withLock { purchases in
            effects.compactMap { effect in
                guard case .status(let key, let status) = effect else { return nil }
                let line = products.line(key.source, status.product), former = purchases[key]
                let purchase = Purchase(
                    id: former?.id ?? UUID(high: 1, low: UInt64(purchases.count)), key: key, account: account ?? former?.account,
                    status: status, state: status.state, until: status.until, product: line?.name, tier: line?.tier,
                    createdAt: former?.createdAt ?? now, updatedAt: now)
                purchases[key] = purchase
                return purchase
            }
        }
    }

    private func grant(_ purchase: Purchase, _ audit: AuditContext) async throws(StoreFault) {
        guard let account = purchase.account, purchase.product != nil else { return }
        let tier = purchase.state == .active || purchase.state == .grace ? purchase.tier : nil
        _ = try await store.setTier(tier, until: tier == nil ? nil : purchase.until, of: account, audit)
    }

    package func purchase(_ id: UUID) async throws(StoreFault) -> Purchase? { purchases.withLock { $0.values.first { $0.id == id } } }
    package func purchase(_ key: PurchaseKey) async throws(StoreFault) -> Purchase? { purchases.withLock { $0[key] } }

    package func purchases(of account: UUID) async throws(StoreFault) -> [Purchase] {
        try check()
        return purchases.withLock { $0.values.filter { $0.account == account }.sorted { $0.key.original > $1.key.original } }
    }

    package func purchases(
        of account: UUID?, _ state: PurchaseState?, after: UUID?, limit: Int
    ) async throws(StoreFault) -> [Purchase] { throw .failed("not scripted") }

    package func purchasesInDoubt(from: WallTime, to: WallTime, limit: Int) async throws(StoreFault) -> [Purchase] {
        throw .failed("not scripted")
    }

    package func storeEvents(
        _ source: PurchaseSource?, _ verdict: StoreEvent.Verdict?, before: UUID?, limit: Int
    ) async throws(StoreFault) -> [KeptStoreEvent] { events.withLock { $0.reversed() } }

    package func storeEvent(_ id: UUID) async throws(StoreFault) -> KeptStoreEvent? { events.withLock { $0.first { $0.id == id } } }
    package func newestStoreEvents() async throws(StoreFault) -> [PurchaseSource: WallTime] { throw .failed("not scripted") }
    package func hold(_ lease: String, by holder: UUID, seconds: Int64) async throws(StoreFault) -> Bool { throw .failed("not scripted") }
}
