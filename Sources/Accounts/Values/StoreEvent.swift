package import Wire

/// A notification of a store, as it was understood. Stored, and shown: the texts of verdicts never change.
package struct StoreEvent: Hashable, Sendable {
    package enum Verdict: String, CaseIterable, Sendable {
        /// It was applied; `effects` may have changed nothing, because something newer was known.
        case applied
        /// It has no effect by its type (`TEST`, `CONSUMPTION_REQUEST` and types that this program does not know), or ends a payment of
        /// which no purchase is known; one that comes later is ended by it.
        case kept
        /// Its product has no line: kept, and gives nothing.
        case unknownProduct = "unknown-product"
        /// The account that it names is not there.
        case unknownAccount = "unknown-account"
    }

    package let source: PurchaseSource
    /// The store's id of the event, by which a repetition is known: `notificationUUID`, Pub/Sub's `messageId`, Stripe's and RevenueCat's
    /// `id`.
    package let id: String
    /// The store's type, with its subtype behind a slash, as in `DID_RENEW/BILLING_RECOVERY`.
    package let type: String
    package let environment: StoreEnvironment
    /// By the store's clock.
    package let at: WallTime
    /// Empty for a type that changes nothing.
    package let effects: [PurchaseEffect]

    package init(
        _ source: PurchaseSource, id: String, type: String, environment: StoreEnvironment, at: WallTime, effects: [PurchaseEffect]
    ) {
        self.source = source
        self.id = id
        self.type = type
        self.environment = environment
        self.at = at
        self.effects = effects
    }
}

/// A store event as it is kept.
package struct KeptStoreEvent: Hashable, Sendable {
    package let id: UUID
    package let event: String
    package let source: PurchaseSource
    package let type: String
    package let environment: StoreEnvironment
    package let at: WallTime
    package let receivedAt: WallTime
    package let verdict: StoreEvent.Verdict
    /// SHA-256 of the body as it came.
    package let digest: [UInt8]
    /// The body as it came, from which it can be replayed; empty once an account of its purchases was deleted.
    package let body: [UInt8]
    /// The purchases that it was about.
    package let purchases: [UUID]

    /// How long events are kept, in seconds.
    package static let keptSeconds: Int64 = 400 * 86_400

    package init(
        id: UUID, event: String, source: PurchaseSource, type: String, environment: StoreEnvironment, at: WallTime, receivedAt: WallTime,
        verdict: StoreEvent.Verdict, digest: [UInt8], body: [UInt8], purchases: [UUID]
    ) {
        self.id = id
        self.event = event
        self.source = source
        self.type = type
        self.environment = environment
        self.at = at
        self.receivedAt = receivedAt
        self.verdict = verdict
        self.digest = digest
        self.body = body
        self.purchases = purchases
    }
}
