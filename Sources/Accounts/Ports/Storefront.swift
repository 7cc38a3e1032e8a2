package import Wire

/// The proof of a purchase that an app sends.
package enum PurchaseEvidence: Hashable, Sendable {
    /// A signed transaction of StoreKit 2 (JWS).
    case apple(transaction: String)
    /// `package` may be left out where one is configured.
    case google(package: String?, product: String, token: String)
    /// A checkout session's id.
    case stripe(session: String)
}

/// The answer of a store about a claimed purchase.
package struct ProvenPurchase: Hashable, Sendable {
    package let key: PurchaseKey
    package let effects: [PurchaseEffect]

    package init(_ key: PurchaseKey, _ effects: [PurchaseEffect]) {
        self.key = key
        self.effects = effects
    }
}

/// Why evidence or a notification is refused. The reasons are short words for log and metrics, such as `signature`, `chain`, `expired`,
/// `bundle`.
package enum StorefrontFault: Error, Hashable, Sendable {
    /// 401 for a notification, 400 `TRANSACTION_INVALID` for a claim.
    case notAuthentic(reason: String)
    case malformed(reason: String)
    /// Of an app that is not configured.
    case foreign(reason: String)
    /// 400 `ENVIRONMENT_REFUSED`.
    case environmentRefused
    /// The store cannot be asked: 503 `STORE_UNAVAILABLE`. The reason is for the operator.
    case unavailable(reason: String, retryAfterSeconds: Int)
}

/// A store: it verifies what apps and the store itself send, and asks the store. Any task.
package protocol Storefront: Sendable {
    var source: PurchaseSource { get }
    func prove(_ evidence: PurchaseEvidence, now: WallTime) async throws(StorefrontFault) -> ProvenPurchase
    /// `field` is the value of a request's header field, by its name in lower case.
    func notification(
        _ body: [UInt8], now: WallTime, field: @Sendable (StaticString) -> String?
    ) async throws(StorefrontFault) -> StoreEvent
    /// Reads a kept notification again, without its signature and its age, which were verified when it came.
    func replay(_ body: [UInt8], now: WallTime) async throws(StorefrontFault) -> StoreEvent
    /// Whether the store can be asked for a purchase.
    var isAsked: Bool { get }
    /// Asks the store for the newest state; nil where it cannot be asked, because no key is configured.
    func newest(_ purchase: Purchase, now: WallTime) async throws(StorefrontFault) -> [PurchaseEffect]?
    /// Called after effects of this source were committed, so that a store which wants it is told (Google refunds a purchase that is not
    /// acknowledged in three days).
    func committed(_ purchases: [Purchase]) async
}
