package import Wire

/// A store of apps or payments, or a service that speaks for several. Stored, and shown: the texts never change.
package enum PurchaseSource: String, CaseIterable, Sendable {
    case apple, google, stripe, revenuecat
}

/// Whether money was paid.
package enum StoreEnvironment: String, CaseIterable, Sendable {
    case production, sandbox
}

/// The state of a purchase. Stored, and shown: the texts never change.
package enum PurchaseState: String, CaseIterable, Sendable {
    case active
    /// A payment is late, and the store still gives access.
    case grace
    /// The store tries to collect a late payment, and gives no access beyond the end of the period that was paid.
    case retry
    case paused, expired, refunded, revoked
    /// Another purchase has taken its place.
    case superseded
}

/// The name of a purchase, under which all renewals of a subscription are one.
package struct PurchaseKey: Hashable, Sendable {
    package let source: PurchaseSource
    package let environment: StoreEnvironment
    /// Apple's original transaction id, Google's purchase token, Stripe's subscription or payment intent, RevenueCat's original
    /// transaction id.
    package let original: String

    package init(_ source: PurchaseSource, _ environment: StoreEnvironment, _ original: String) {
        self.source = source
        self.environment = environment
        self.original = original
    }
}

/// The word of a store about a purchase, at one time. Of two the later one counts (`PurchaseRule`), in whatever order they come.
package struct PurchaseStatus: Hashable, Sendable {
    package var state: PurchaseState
    /// The store's product: Apple's and Google's product id, Stripe's price, RevenueCat's product id.
    package var product: String
    /// The end of access by the store, its grace included; nil for a purchase without end.
    package var until: WallTime?
    /// Whether it renews at its end.
    package var renews: Bool
    /// The store's ids of the payment for this period: a refund names one of them.
    package var transactions: [String]
    /// The begin of the period, which orders statuses before `at` does: an older period never replaces a newer one. The same for all
    /// statuses of a source that always tells the newest state.
    package var periodStart: WallTime
    /// When the store said so, by its clock.
    package var at: WallTime
    /// The end of the last period that was paid, where a late payment is to last to it.
    package var paidUntil: WallTime?
    /// The begin of the period of `transactions`, where a period may have more payments than those that one status names.
    package var paidFrom: WallTime?

    package init(
        _ state: PurchaseState, product: String, until: WallTime?, renews: Bool, transactions: [String], periodStart: WallTime,
        at: WallTime, paidUntil: WallTime? = nil, paidFrom: WallTime? = nil
    ) {
        self.state = state
        self.product = product
        self.until = until
        self.renews = renews
        self.transactions = transactions
        self.periodStart = periodStart
        self.at = at
        self.paidUntil = paidUntil
        self.paidFrom = paidFrom
    }
}

/// A payment that was taken back, or whose purchase another one has replaced. It may be known before its purchase is.
package struct EndedTransaction: Hashable, Sendable {
    package let source: PurchaseSource
    package let environment: StoreEnvironment
    /// One of `PurchaseStatus.transactions`, or the original of a key.
    package let transaction: String
    /// `refunded`, `revoked` or `superseded`; nil for a refund that was reversed.
    package let state: PurchaseState?
    /// When the store said so, by its clock. Of two the later one counts.
    package let at: WallTime

    package init(_ source: PurchaseSource, _ environment: StoreEnvironment, _ transaction: String, _ state: PurchaseState?, at: WallTime) {
        self.source = source
        self.environment = environment
        self.transaction = transaction
        self.state = state
        self.at = at
    }
}

/// One thing that an event, a claim or an answer of a store changes.
package enum PurchaseEffect: Hashable, Sendable {
    case status(PurchaseKey, PurchaseStatus)
    /// The account that the purchase itself names (`appAccountToken`, `obfuscatedAccountId`, `client_reference_id`, `app_user_id`),
    /// and since when. Of two since one time the one that was told later counts.
    case owner(PurchaseKey, UUID, at: WallTime, told: WallTime = WallTime(seconds: 0))
    case ended(EndedTransaction)
    /// All purchases of a source and environment pass from these accounts to another one; later ones of theirs, too, if the store says
    /// an earlier time for them.
    case transfer(PurchaseSource, StoreEnvironment, from: [UUID], to: UUID, at: WallTime)
}

/// A purchase as it is stored.
package struct Purchase: Hashable, Sendable {
    package let id: UUID
    package let key: PurchaseKey
    /// nil until an account is known, by the purchase itself or by a claim.
    package var account: UUID?
    /// The newest status, and the state that follows from it and from what has ended.
    package var status: PurchaseStatus
    package var state: PurchaseState
    /// The end of its grant: that of the status, of the last paid period, or of a grace that the product's line has; nil without end.
    package var until: WallTime?
    /// The product line's name and tier; nil while no line has the store's product.
    package var product: String?
    package var tier: String?
    package let createdAt: WallTime
    package var updatedAt: WallTime

    package init(
        id: UUID, key: PurchaseKey, account: UUID?, status: PurchaseStatus, state: PurchaseState, until: WallTime?, product: String?,
        tier: String?, createdAt: WallTime, updatedAt: WallTime
    ) {
        self.id = id
        self.key = key
        self.account = account
        self.status = status
        self.state = state
        self.until = until
        self.product = product
        self.tier = tier
        self.createdAt = createdAt
        self.updatedAt = updatedAt
    }
}

/// A line `TOLLGATE_PRODUCT_<NAME>`: the products of stores that give a tier.
package struct ProductLine: Hashable, Sendable {
    /// The line's name in lower case.
    package let name: String
    package let tier: String
    package let products: [PurchaseSource: [String]]
    /// In place of the store's grace, in seconds; nil for the store's.
    package let graceSeconds: Int64?

    package init(name: String, tier: String, products: [PurchaseSource: [String]], graceSeconds: Int64?) {
        self.name = name
        self.tier = tier
        self.products = products
        self.graceSeconds = graceSeconds
    }
}

/// All product lines.
package struct Products: Hashable, Sendable {
    package let lines: [ProductLine]

    package init(_ lines: [ProductLine]) { self.lines = lines }

    package static let none = Products([])

    /// The line that has a store's product.
    package func line(_ source: PurchaseSource, _ product: String) -> ProductLine? {
        lines.first { $0.products[source]?.contains(product) == true }
    }
}
