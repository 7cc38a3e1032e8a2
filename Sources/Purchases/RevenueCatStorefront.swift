package import Accounts
internal import Credentials
package import Wire

/// What the operator has set for RevenueCat.
package struct RevenueCatPlan: Sendable {
    /// The value of `Authorization` in its webhooks.
    package let authorization: [UInt8]
    package let environments: Set<StoreEnvironment>

    package init(authorization: [UInt8], environments: Set<StoreEnvironment>) {
        self.authorization = authorization
        self.environments = environments
    }
}

/// RevenueCat, which speaks for the stores of apps. It is never asked: its events hold all that counts.
package struct RevenueCatStorefront: Storefront {
    private let plan: RevenueCatPlan

    package init(_ plan: RevenueCatPlan) { self.plan = plan }

    package var source: PurchaseSource { .revenuecat }
    package var isAsked: Bool { false }

    package func notification(
        _ body: [UInt8], now: WallTime, field: @Sendable (StaticString) -> String?
    ) async throws(StorefrontFault) -> StoreEvent {
        // Digests, so that the time does not tell the length either.
        let sent = Digest.sha256(Array((field("authorization") ?? "").utf8).rawBytes)
        guard !plan.authorization.isEmpty,
            Digest.constantTimeEquals(sent.rawBytes, Digest.sha256(plan.authorization.rawBytes).rawBytes)
        else { throw .notAuthentic(reason: "authorization") }
        return try await replay(body, now: now)
    }

    package func replay(_ body: [UInt8], now: WallTime) async throws(StorefrontFault) -> StoreEvent {
        try RevenueCatEvent(body).event(plan.environments)
    }

    package func prove(_ evidence: PurchaseEvidence, now: WallTime) async throws(StorefrontFault) -> ProvenPurchase {
        throw .malformed(reason: "evidence")
    }

    package func newest(_ purchase: Purchase, now: WallTime) async throws(StorefrontFault) -> [PurchaseEffect]? { nil }

    package func committed(_ purchases: [Purchase]) async {}
}

/// The types of RevenueCat's events that say something of a purchase. All others are kept and have no effect.
enum RevenueCatEventType: String, CaseIterable, Sendable {
    case initialPurchase = "INITIAL_PURCHASE"
    case renewal = "RENEWAL"
    case uncancellation = "UNCANCELLATION"
    case extended = "SUBSCRIPTION_EXTENDED"
    /// RevenueCat could not reach the store, and vouches for a day.
    case temporaryGrant = "TEMPORARY_ENTITLEMENT_GRANT"
    case nonRenewingPurchase = "NON_RENEWING_PURCHASE"
    /// A pause is planned for the end of the period.
    case pausePlanned = "SUBSCRIPTION_PAUSED"
    case cancellation = "CANCELLATION"
    case billingIssue = "BILLING_ISSUE"
    case expiration = "EXPIRATION"
    case refundReversed = "REFUND_REVERSED"
    case transfer = "TRANSFER"

    /// The state that it says, and whether the purchase renews.
    fileprivate var status: (state: PurchaseState, renews: Bool) {
        switch self {
        case .initialPurchase, .renewal, .uncancellation, .extended, .refundReversed: (.active, true)
        case .temporaryGrant, .nonRenewingPurchase, .pausePlanned, .cancellation, .transfer: (.active, false)
        case .billingIssue: (.retry, true)
        case .expiration: (.expired, false)
        }
    }
}

/// A webhook of RevenueCat as it is read from its body.
private struct RevenueCatEvent {
    private let id: String
    private let type: String
    private let at: WallTime
    private let known: RevenueCatEventType?
    private let event: JSONTree

    init(_ body: [UInt8]) throws(StorefrontFault) {
        guard let payload = JSONTree(body.rawBytes), let id = payload["event"]["id"].id, let type = payload["event"]["type"].id,
            let at = payload["event"]["event_timestamp_ms"].milliseconds
        else { throw .malformed(reason: "event") }
        event = payload["event"]
        (self.id, self.type, self.at) = (id, type, at)
        known = RevenueCatEventType(rawValue: type)
    }

    func event(_ environments: Set<StoreEnvironment>) throws(StorefrontFault) -> StoreEvent {
        let environment: StoreEnvironment = event["environment"].text == "SANDBOX" ? .sandbox : .production
        var effects: [PurchaseEffect] = []
        // A test from the console is of the sandbox, and passes.
        if let known {
            guard environment == .sandbox || event["environment"].text == "PRODUCTION" else { throw .malformed(reason: "environment") }
            guard environments.contains(environment) else { throw .environmentRefused }
            effects = known == .transfer ? transfer(environment) : try purchase(known, environment)
        }
        return StoreEvent(.revenuecat, id: id, type: type, environment: environment, at: at, effects: effects)
    }

    /// The accounts among ids of RevenueCat, of which others are no account's: anonymous ones, or those of another system.
    private static func accounts(_ ids: JSONTree) -> [UUID] { ids.elements.compactMap(\.uuid) }

    private func transfer(_ environment: StoreEnvironment) -> [PurchaseEffect] {
        guard let to = Self.accounts(event["transferred_to"]).first else { return [] }
        let from = Self.accounts(event["transferred_from"]).filter { $0 != to }
        return from.isEmpty ? [] : [.transfer(.revenuecat, environment, from: from, to: to, at: at)]
    }

    private func purchase(_ type: RevenueCatEventType, _ environment: StoreEnvironment) throws(StorefrontFault) -> [PurchaseEffect] {
        guard let transaction = event["transaction_id"].id ?? event["original_transaction_id"].id else {
            throw .malformed(reason: "transaction")
        }
        let key = PurchaseKey(.revenuecat, environment, event["original_transaction_id"].id ?? transaction)
        let owner = event["app_user_id"].uuid ?? event["original_app_user_id"].uuid ?? Self.accounts(event["aliases"]).first
        let owned = owner.map { [PurchaseEffect.owner(key, $0, at: at)] } ?? []
        func ended(_ state: PurchaseState?) -> PurchaseEffect {
            .ended(EndedTransaction(.revenuecat, environment, transaction, state, at: at))
        }
        switch (type, event["cancel_reason"].text) {
        case (.cancellation, "CUSTOMER_SUPPORT"): return owned + [ended(.refunded)]
        // The event of the billing issue itself knows the grace.
        case (.cancellation, "BILLING_ERROR"): return owned
        // A purchase without end has no period that goes on.
        case (.cancellation, _) where event["expiration_at_ms"].milliseconds == nil: return owned + [ended(.revoked)]
        case (let type, _):
            let status = PurchaseEffect.status(key, try status(type, transaction))
            return owned + (type == .refundReversed ? [ended(nil), status] : [status])
        }
    }

    private func status(_ type: RevenueCatEventType, _ transaction: String) throws(StorefrontFault) -> PurchaseStatus {
        let end = event["expiration_at_ms"].milliseconds
        guard let product = event["product_id"].id, let start = event["purchased_at_ms"].milliseconds,
            end != nil || type == .nonRenewingPurchase || type == .refundReversed
        else { throw .malformed(reason: "status") }
        let grace = type == .billingIssue ? event["grace_period_expiration_at_ms"].milliseconds : nil
        let isPaused = type == .expiration && event["expiration_reason"].text == "SUBSCRIPTION_PAUSED"
        return PurchaseStatus(
            grace != nil ? .grace : isPaused ? .paused : type.status.state, product: product, until: grace ?? end,
            renews: type.status.renews && end != nil, transactions: [transaction],
            // What the store says itself replaces a temporary grant, whenever it was bought.
            periodStart: type == .temporaryGrant ? .beginning : start, at: at, paidUntil: end)
    }
}
