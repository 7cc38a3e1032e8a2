internal import Accounts
internal import Wire

/// What Google's API answers of a purchase token.
///
/// Each answer is the newest state, and each notification asks anew, so that the answer made last is the right one, whichever arrives last:
/// the API's `Date` orders them. It has whole seconds; of two in one second the one nearer to the end counts as later.
struct GooglePurchase {
    enum Kind: Sendable { case subscription, product }

    let kind: Kind
    let token: String
    let environment: StoreEnvironment
    /// Empty while the payment is pending.
    let effects: [PurchaseEffect]
    /// The store's ids of all products in it.
    let products: [String]
    /// Google refunds what is not acknowledged within three days.
    let needsAcknowledgement: Bool

    var key: PurchaseKey { PurchaseKey(.google, environment, token) }

    /// In the order of their nearness to the end. The others, which are pending, give no status; a word of the future does not give a tier.
    private static let states: [(word: String, state: PurchaseState)] = [
        ("ACTIVE", .active), ("CANCELED", .active), ("IN_GRACE_PERIOD", .grace), ("ON_HOLD", .retry), ("PAUSED", .paused),
        ("EXPIRED", .expired),
    ]
    private static let pending: Set = ["PENDING", "PENDING_PURCHASE_CANCELED", "UNSPECIFIED"]

    init(subscription payload: JSONTree, _ token: String, at: WallTime) throws(StorefrontFault) {
        (kind, self.token) = (.subscription, token)
        environment = payload["testPurchase"].isObject ? .sandbox : .production
        let items = payload["lineItems"].elements
        products = items.compactMap(\.["productId"].id)
        let word = payload["subscriptionState"].text?.replacing("SUBSCRIPTION_STATE_", with: "") ?? "UNSPECIFIED"
        guard !Self.pending.contains(word) else {
            (effects, needsAcknowledgement) = ([], false)
            return
        }
        let rank = Self.states.firstIndex { $0.word == word } ?? Self.states.count
        let state = rank < Self.states.count ? Self.states[rank].state : .expired
        // Add-ons end with the subscription that they belong to.
        let last = items.max { ($0["expiryTime"].time ?? .beginning) < ($1["expiryTime"].time ?? .beginning) }
        guard let last, let product = last["productId"].id, let until = last["expiryTime"].time else {
            throw .malformed(reason: "subscription")
        }
        let orders = items.compactMap(\.["latestSuccessfulOrderId"].id) + [payload["latestOrderId"].id].compactMap { $0 }
        let status = PurchaseStatus(
            state, product: product, until: until,
            renews: word != "CANCELED" && state != .expired && last["autoRenewingPlan"]["autoRenewEnabled"].bool == true,
            transactions: Set(orders).sorted(), periodStart: .beginning, at: at.ranked(Int64(rank)),
            // In the grace, Google only tells its end.
            paidUntil: state == .grace ? nil : until)
        let key = PurchaseKey(.google, environment, token)
        let begin = payload["startTime"].time ?? at
        var effects = [PurchaseEffect.status(key, status)]
        if let account = payload["externalAccountIdentifiers"]["obfuscatedExternalAccountId"].uuid {
            effects.append(.owner(key, account, at: begin))
        }
        if let old = payload["linkedPurchaseToken"].id {
            effects.append(.ended(EndedTransaction(.google, environment, old, .superseded, at: begin)))
        }
        self.effects = effects
        needsAcknowledgement =
            payload["acknowledgementState"].text == "ACKNOWLEDGEMENT_STATE_PENDING" && (state == .active || state == .grace)
    }

    init(product payload: JSONTree, _ asked: String, _ token: String, at: WallTime) throws(StorefrontFault) {
        (kind, self.token) = (.product, token)
        environment = payload["purchaseType"].integer == 0 ? .sandbox : .production
        let product = payload["productId"].id ?? asked
        products = [product]
        guard let state = payload["purchaseState"].integer else { throw .malformed(reason: "product") }
        // 0 is bought, 1 taken back, 2 pending.
        guard state == 0 || state == 1 else {
            (effects, needsAcknowledgement) = ([], false)
            return
        }
        let key = PurchaseKey(.google, environment, token)
        let status = PurchaseStatus(
            state == 0 ? .active : .refunded, product: product, until: nil, renews: false,
            transactions: [payload["orderId"].id].compactMap { $0 }, periodStart: .beginning, at: at.ranked(state))
        let bought = payload["purchaseTimeMillis"].milliseconds ?? at
        effects =
            [.status(key, status)]
            + (payload["obfuscatedExternalAccountId"].uuid.map { [.owner(key, $0, at: bought)] } ?? [])
        needsAcknowledgement = state == 0 && payload["acknowledgementState"].integer == 0
    }
}
