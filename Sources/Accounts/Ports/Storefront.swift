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
    /// The store cannot be asked: 503 `STORE_UNAVAILABLE`. The reason is for the operator, as is whether the store refuses our key.
    case unavailable(reason: String, retryAfterSeconds: Int, isKeyRefused: Bool = false)
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
    /// Asks for what no store has: one whose credentials are right says so. Whether there is a key.
    func probe(now: WallTime) async throws(StorefrontFault) -> Bool
    /// Acknowledges committed purchases at the store. Google refunds a purchase that is not acknowledged within three days; other stores
    /// need nothing.
    func committed(_ purchases: [Purchase]) async
}

extension Storefront {
    package func probe(now: WallTime) async throws(StorefrontFault) -> Bool {
        // A key may be for one environment alone.
        for environment in StoreEnvironment.allCases {
            if try await newest(.unknown(to: source, environment, now), now: now) != nil { return true }
        }
        return false
    }
}

extension Purchase {
    /// One that its store does not have, in a form that it reads.
    fileprivate static func unknown(to source: PurchaseSource, _ environment: StoreEnvironment, _ now: WallTime) -> Purchase {
        let status = PurchaseStatus(
            .active, product: "tollgate-asks", until: now, renews: true, transactions: [], periodStart: now, at: now)
        return Purchase(
            id: UUID(high: 0, low: 0), key: PurchaseKey(source, environment, source == .apple ? "1000000000000000" : "tollgate-asks"),
            account: nil, status: status, state: .active, until: now, product: nil, tier: nil, createdAt: now, updatedAt: now)
    }
}
