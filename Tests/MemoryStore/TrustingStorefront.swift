package import Accounts
import Synchronization
package import Wire

/// A store that believes what it is sent: `ORIGINAL PRODUCT STATE [SECONDS]`, which is until when from now on, or the word of a fault.
package final class TrustingStorefront: Storefront {
    package let source: PurchaseSource
    package let isAsked = true
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
