internal import Accounts
internal import Wire

/// The types of Stripe's events that say something of a purchase. All others are kept and have no effect.
package enum StripeEventType: String, CaseIterable, Sendable {
    case checkoutCompleted = "checkout.session.completed"
    /// A payment that takes days, such as a bank transfer, has come in.
    case checkoutPaid = "checkout.session.async_payment_succeeded"
    case subscriptionCreated = "customer.subscription.created"
    case subscriptionUpdated = "customer.subscription.updated"
    case subscriptionDeleted = "customer.subscription.deleted"
    case subscriptionPaused = "customer.subscription.paused"
    case subscriptionResumed = "customer.subscription.resumed"
    case invoicePaid = "invoice.paid"
    case invoiceFailed = "invoice.payment_failed"
    case chargeRefunded = "charge.refunded"
    case refundFailed = "refund.failed"
    case disputeCreated = "charge.dispute.created"
    case disputeWithdrawn = "charge.dispute.funds_withdrawn"
    case disputeReinstated = "charge.dispute.funds_reinstated"
    case disputeClosed = "charge.dispute.closed"
}

/// What must be asked to know the effects of an event.
enum StripeQuestion: Equatable, Sendable {
    /// The price of a payment, which the event's session does not hold.
    case session(String)
    /// The invoice of a payment intent, which charges do not name from API version 2025-03-31 on.
    case invoice(paymentIntent: String)
}

/// A notification of Stripe as it is read from its body.
struct StripeEvent: Sendable {
    let id: String
    let type: String
    let environment: StoreEnvironment
    let at: WallTime
    private let known: StripeEventType?
    private let object: JSONTree

    init(_ body: [UInt8]) throws(StorefrontFault) {
        guard let payload = JSONTree(body.rawBytes), let id = payload["id"].id, let type = payload["type"].id,
            let at = payload["created"].seconds ?? payload["created"].time, let isLive = payload["livemode"].bool
        else { throw .malformed(reason: "event") }
        self.id = id
        self.type = type
        environment = isLive ? .production : .sandbox
        self.at = at
        known = StripeEventType(rawValue: type)
        object = payload["data"]["object"]
        guard known == nil || object["id"].id != nil else { throw .malformed(reason: "object") }
    }

    private var isOfSession: Bool { known == .checkoutCompleted || known == .checkoutPaid }

    var question: StripeQuestion? {
        if isOfSession, StripeSession(object).isPaidOnce { return object["id"].id.map { .session($0) } }
        guard end != nil, object["invoice"].reference == nil else { return nil }
        return object["payment_intent"].reference.map { .invoice(paymentIntent: $0) }
    }

    /// `answer` is the one to `question`; nil without a question or without a key for the API.
    func effects(_ answer: JSONTree?) throws(StorefrontFault) -> [PurchaseEffect] {
        switch known {
        case .checkoutCompleted, .checkoutPaid: try StripeSession(answer ?? object).effects(environment, at: at)
        case .subscriptionCreated, .subscriptionUpdated, .subscriptionDeleted, .subscriptionPaused, .subscriptionResumed:
            try StripeSubscription(object).effects(environment, at: at)
        case .invoicePaid: StripeSubscription.paid(object, environment)
        case .chargeRefunded, .refundFailed, .disputeCreated, .disputeWithdrawn, .disputeReinstated, .disputeClosed: ended(answer)
        // The subscription's own event says that it is past due.
        case .invoiceFailed, nil: []
        }
    }

    /// The state of the payment, and `active` for one whose money came again. nil if no money moved: with a refund of a part, or a bank's mere
    /// inquiry.
    private var end: PurchaseState? {
        let status = object["status"].text ?? ""
        return switch known {
        case .chargeRefunded: object["refunded"].bool == true ? .refunded : nil
        case .disputeCreated: status.hasPrefix("warning_") ? nil : .revoked
        case .disputeWithdrawn: .revoked
        case .disputeReinstated, .refundFailed: .active
        case .disputeClosed: ["lost": .revoked, "won": .active, "warning_closed": .active][status]
        case .checkoutCompleted, .checkoutPaid, .subscriptionCreated, .subscriptionUpdated, .subscriptionDeleted, .subscriptionPaused,
            .subscriptionResumed, .invoicePaid, .invoiceFailed, nil:
            nil
        }
    }

    /// The end of a payment under each of its names, of which a purchase knows one.
    private func ended(_ answer: JSONTree?) -> [PurchaseEffect] {
        guard let end else { return [] }
        // The charge is the object itself in its own event.
        let charge = known == .chargeRefunded ? object["id"].id : object["charge"].reference
        let invoice = object["invoice"].reference ?? answer?["data"].elements.first?["invoice"].reference
        return [charge, object["payment_intent"].reference, invoice].compactMap { $0 }.map {
            .ended(EndedTransaction(.stripe, environment, $0, end == .active ? nil : end, at: at))
        }
    }
}

extension JSONTree {
    /// The id of another object, which stands there whole if it was asked for.
    var reference: String? { self["id"].id ?? id }

    /// The account that a session or a subscription names.
    fileprivate var namedAccount: UUID? { self["client_reference_id"].uuid ?? self["metadata"]["account_id"].uuid }
}

/// A checkout session: a subscription's, or one of a payment that is made once.
struct StripeSession {
    private let session: JSONTree

    init(_ session: JSONTree) { self.session = session }

    var isPaid: Bool {
        session["status"].text == "complete" && ["paid", "no_payment_required"].contains(session["payment_status"].text)
    }

    var isPaidOnce: Bool { session["mode"].text == "payment" && isPaid }

    /// A subscription's id, or that of the payment; of the session itself where nothing was to pay.
    private var original: String? {
        switch session["mode"].text {
        case "subscription": session["subscription"].reference
        case "payment": session["payment_intent"].reference ?? session["id"].id
        case _: nil
        }
    }

    func key(_ environment: StoreEnvironment) -> PurchaseKey? { original.map { PurchaseKey(.stripe, environment, $0) } }

    /// The owner by the session, and the state as far as it is known: by the line items of a payment, by a subscription that stands there
    /// whole. `at` is when Stripe said so.
    func effects(_ environment: StoreEnvironment, at: WallTime) throws(StorefrontFault) -> [PurchaseEffect] {
        guard let key = key(environment) else { return [] }
        var effects: [PurchaseEffect] = []
        if let account = session.namedAccount { effects.append(.owner(key, account, at: session["created"].seconds ?? at)) }
        if session["subscription"].isObject {
            effects += try StripeSubscription(session["subscription"]).effects(environment, at: at)
        } else if isPaidOnce, let product = session["line_items"]["data"].elements.first?["price"]["id"].id {
            let transactions = [session["payment_intent"].reference, session["invoice"].reference, session["id"].id].compactMap { $0 }
            let status = PurchaseStatus(
                .active, product: product, until: nil, renews: false, transactions: transactions, periodStart: .beginning, at: at)
            effects.append(.status(key, status))
            if session["payment_intent"]["latest_charge"]["refunded"].bool == true {
                effects.append(.ended(EndedTransaction(.stripe, environment, key.original, .refunded, at: at)))
            }
        }
        return effects
    }
}

extension WallTime {
    /// The begin of all periods of a source whose statuses are ordered by their time alone.
    static let beginning = WallTime(seconds: 0)

    /// This second with a rank in it: of two things that a store says in one second, the one with the higher rank counts as later.
    func ranked(_ rank: Int64) -> WallTime { WallTime(microseconds: microseconds - microseconds % 1_000_000 + rank) }
}
