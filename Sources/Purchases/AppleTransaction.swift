import Accounts
import Wire

/// A transaction that Apple signed, as far as purchases depend on it (JWSTransactionDecodedPayload).
struct AppleTransaction {
    let key: PurchaseKey
    let id: String
    let product: String
    let purchasedAt: WallTime
    /// nil for what is bought once.
    let expiresAt: WallTime?
    let signedAt: WallTime
    let account: UUID?
    let isSubscription: Bool
    /// Whether another subscription of its group has taken its place before its end.
    let isUpgraded: Bool
    /// `refunded` or `revoked`; nil while it stands.
    let revocation: PurchaseState?

    init(_ payload: JSONTree, _ environment: StoreEnvironment, now: WallTime) throws(StorefrontFault) {
        guard let original = payload["originalTransactionId"].id, let id = payload["transactionId"].id,
            let product = payload["productId"].id, let purchasedAt = payload["purchaseDate"].milliseconds
        else { throw .malformed(reason: "transaction") }
        key = PurchaseKey(.apple, environment, original)
        self.id = id
        self.product = product
        self.purchasedAt = purchasedAt
        expiresAt = payload["expiresDate"].milliseconds
        signedAt = payload["signedDate"].milliseconds ?? now
        account = payload["appAccountToken"].uuid
        isSubscription = payload["type"].text == "Auto-Renewable Subscription"
        isUpgraded = payload["isUpgraded"].bool ?? false
        // An end that cannot be read must not become a purchase without end.
        guard expiresAt != nil || (payload["expiresDate"] == .null && !isSubscription) else { throw .malformed(reason: "transaction") }
        let isOfFamily = payload["inAppOwnershipType"].text == "FAMILY_SHARED" || payload["revocationType"].text == "FAMILY_REVOKE"
        revocation = payload["revocationDate"] == .null ? nil : isOfFamily ? .revoked : .refunded
    }

    /// What it says by itself, as an app sends it. Its status counts from the purchase on and not from its signature: apps keep
    /// transactions and sign them anew, and what the store said since of the same period (a grace, a renewal that was cancelled) is newer.
    func effects(at time: WallTime, ended: PurchaseState? = nil) -> [PurchaseEffect] {
        let isOver = expiresAt.map { $0 <= time } ?? false
        return effects(
            PurchaseStatus(
                isOver ? .expired : .active, product: product, until: expiresAt, renews: isSubscription && !isOver, transactions: [id],
                periodStart: purchasedAt, at: purchasedAt, paidUntil: expiresAt), ended: ended ?? revocation)
    }

    /// What it says together with the store's word on the subscription.
    func effects(_ state: PurchaseState, _ renewal: AppleRenewal?) -> [PurchaseEffect] {
        effects(
            PurchaseStatus(
                state, product: product, until: state == .grace ? renewal?.graceUntil ?? expiresAt : expiresAt,
                renews: renewal?.renews ?? (isSubscription && state != .expired), transactions: [id], periodStart: purchasedAt,
                at: toldAt(renewal), paidUntil: expiresAt), renewal, ended: revocation)
    }

    private func effects(_ status: PurchaseStatus, _ renewal: AppleRenewal? = nil, ended: PurchaseState?) -> [PurchaseEffect] {
        var effects = [PurchaseEffect.status(key, status)]
        // The accounts of all transactions since the first: that of the newest one counts, whenever an older one is signed anew.
        if let account = account ?? renewal?.account { effects.append(.owner(key, account, at: purchasedAt, told: signedAt)) }
        if let state = ended ?? (isUpgraded ? .superseded : nil) { effects.append(self.ended(state)) }
        return effects
    }

    /// The end of this transaction, or with nil that it stands again.
    func ended(_ state: PurchaseState?) -> PurchaseEffect {
        .ended(EndedTransaction(.apple, key.environment, id, state, at: signedAt))
    }

    /// The state by `status` of the App Store Server API and of notifications; without it, by the dates.
    func state(_ status: Int64?, _ renewal: AppleRenewal?) -> PurchaseState {
        switch status {
        case 1: return .active
        case 2: return .expired
        case 3: return .retry
        case 4: return .grace
        // 5 is a revocation, which the transaction tells.
        default:
            let time = toldAt(renewal)
            guard let expiresAt, expiresAt <= time else { return .active }
            if let until = renewal?.graceUntil, until > time { return .grace }
            return renewal?.isRetrying == true ? .retry : .expired
        }
    }

    private func toldAt(_ renewal: AppleRenewal?) -> WallTime { max(signedAt, renewal?.signedAt ?? signedAt) }
}

/// What Apple signed of the next renewal of a subscription (JWSRenewalInfoDecodedPayload).
struct AppleRenewal {
    let original: String
    let signedAt: WallTime
    let renews: Bool
    let isRetrying: Bool
    let graceUntil: WallTime?
    let account: UUID?

    init(_ payload: JSONTree, now: WallTime) throws(StorefrontFault) {
        guard let original = payload["originalTransactionId"].id else { throw .malformed(reason: "renewal") }
        self.original = original
        signedAt = payload["signedDate"].milliseconds ?? now
        renews = payload["autoRenewStatus"].integer == 1
        isRetrying = payload["isInBillingRetryPeriod"].bool ?? false
        graceUntil = payload["gracePeriodExpiresDate"].milliseconds
        account = payload["appAccountToken"].uuid
    }
}

extension StoreEnvironment {
    /// By Apple's name. Those of Xcode and of local tests are none, since Apple signs nothing there.
    init?(apple name: String?) {
        switch name {
        case "Production": self = .production
        case "Sandbox": self = .sandbox
        case _: return nil
        }
    }

    /// Apple's name.
    var appleName: String { self == .production ? "Production" : "Sandbox" }
}
