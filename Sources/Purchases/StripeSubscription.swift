internal import Accounts
internal import Wire

/// A subscription of Stripe, of either generation of its API: until 2025-03 the period stands on the subscription, then on its items.
///
/// An event holds the subscription as it was when the event was made, so that the event's time alone orders statuses. It has whole seconds:
/// of two in one second the one nearer to the end counts. `canceled` and `incomplete_expired` are final, so nothing can follow them; a
/// period begins before its payment fails; and where a customer pays within the second in which a payment failed, the reconciliation
/// asks, since a late payment is in doubt.
struct StripeSubscription {
    private let subscription: JSONTree

    init(_ subscription: JSONTree) { self.subscription = subscription }

    func effects(_ environment: StoreEnvironment, at: WallTime) throws(StorefrontFault) -> [PurchaseEffect] {
        guard let id = subscription["id"].id else { throw .malformed(reason: "subscription") }
        let key = PurchaseKey(.stripe, environment, id)
        var effects: [PurchaseEffect] = []
        if let account = subscription["metadata"]["account_id"].uuid { effects.append(.owner(key, account, at: at)) }
        if let status = try status(at: at) { effects.append(.status(key, status)) }
        return effects
    }

    /// nil while the first payment has not been made.
    private func status(at: WallTime) throws(StorefrontFault) -> PurchaseStatus? {
        let item = subscription["items"]["data"].elements.first ?? .null
        guard let word = subscription["status"].text, let product = item["price"]["id"].id ?? item["plan"]["id"].id,
            let start = subscription["current_period_start"].seconds ?? item["current_period_start"].seconds,
            let end = subscription["current_period_end"].seconds ?? item["current_period_end"].seconds
        else { throw .malformed(reason: "subscription") }
        guard word != "incomplete" else { return nil }
        let cancelsAt = subscription["cancel_at"].seconds
        let isLasting = word == "active" || word == "trialing"
        let (state, rank, until): (PurchaseState, Int64, WallTime) =
            switch word {
            case "trialing": (.active, 1, min(end, cancelsAt ?? end))
            case "active": (.active, 2, min(end, cancelsAt ?? end))
            // The invoice of the period that has begun is not paid: the one before was the last.
            case "past_due": (.retry, 3, start)
            case "paused": (.paused, 4, start)
            case "canceled": (.expired, 6, subscription["ended_at"].seconds ?? at)
            // `unpaid`, `incomplete_expired`, and words of the future, which must not give a tier.
            case _: (.expired, 5, start)
            }
        return PurchaseStatus(
            state, product: product, until: until,
            renews: (isLasting || state == .retry) && subscription["cancel_at_period_end"].bool != true && cancelsAt == nil,
            transactions: subscription["latest_invoice"].reference.map { [$0] } ?? [], periodStart: .beginning, at: at.ranked(rank),
            paidUntil: isLasting ? end : start, paidFrom: start)
    }

    /// The status by a paid invoice of a period. It counts from the period's begin on, before all that the subscription's own events say
    /// in that period: an invoice that is paid after the end must not bring a subscription back.
    static func paid(_ invoice: JSONTree, _ environment: StoreEnvironment) -> [PurchaseEffect] {
        let lines = invoice["lines"]["data"].elements.filter(\.isOfPeriod)
        guard ["subscription_create", "subscription_cycle"].contains(invoice["billing_reason"].text),
            let id = invoice["subscription"].reference ?? invoice["parent"]["subscription_details"]["subscription"].reference,
            let line = lines.first, let product = line["price"]["id"].id ?? line["pricing"]["price_details"]["price"].reference,
            let start = line["period"]["start"].seconds, let end = line["period"]["end"].seconds
        else { return [] }
        let payments = invoice["payments"]["data"].elements.map { $0["payment"]["payment_intent"] }
        let transactions = ([invoice["id"], invoice["charge"], invoice["payment_intent"]] + payments).compactMap(\.reference)
        let status = PurchaseStatus(
            .active, product: product, until: end, renews: true, transactions: transactions, periodStart: .beginning, at: start.ranked(0),
            paidUntil: end, paidFrom: start)
        return [.status(PurchaseKey(.stripe, environment, id), status)]
    }
}

extension JSONTree {
    /// Whether a line of an invoice is for a subscription's period, and no part of one after a change.
    fileprivate var isOfPeriod: Bool {
        let item = self["parent"]["subscription_item_details"]
        return (self["type"].text == "subscription" || item.isObject) && self["proration"].bool != true && item["proration"].bool != true
    }
}
