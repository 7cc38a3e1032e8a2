internal import Accounts
internal import Wire

/// A real-time developer notification of Google Play as Pub/Sub pushes it.
struct GoogleNotification {
    /// What it is about.
    enum Subject: Equatable {
        case subscription(token: String, isRevoked: Bool)
        case product(token: String, id: String)
        /// A payment that was taken back, by its order.
        case voided(order: String)
        /// A test, a refund of a part, or a kind that this program does not know.
        case nothing
    }

    /// The types of subscriptions, by number. Each asks for the newest state.
    static let subscriptionTypes: [Int64: String] = [
        1: "RECOVERED", 2: "RENEWED", 3: "CANCELED", 4: "PURCHASED", 5: "ON_HOLD", 6: "IN_GRACE_PERIOD", 7: "RESTARTED",
        8: "PRICE_CHANGE_CONFIRMED", 9: "DEFERRED", 10: "PAUSED", 11: "PAUSE_SCHEDULE_CHANGED", 12: "REVOKED", 13: "EXPIRED",
        17: "ITEMS_CHANGED", 18: "CANCELLATION_SCHEDULED", 19: "PRICE_CHANGE_UPDATED", 20: "PENDING_PURCHASE_CANCELED",
        22: "PRICE_STEP_UP_CONSENT_UPDATED",
    ]
    static let productTypes: [Int64: String] = [1: "PURCHASED", 2: "CANCELED"]

    let id: String
    let type: String
    let at: WallTime
    let package: String
    let subject: Subject

    init(_ body: [UInt8]) throws(StorefrontFault) {
        guard let push = JSONTree(body.rawBytes), let id = push["message"]["messageId"].id ?? push["message"]["message_id"].id,
            let data = push["message"]["data"].text?.withRawBytes({ Base64.decode($0, isPadded: true) }),
            let notification = JSONTree(data.rawBytes), let package = notification["packageName"].id,
            let at = notification["eventTimeMillis"].milliseconds
        else { throw .malformed(reason: "notification") }
        (self.id, self.package, self.at) = (id, package, at)
        (type, subject) = try Self.subject(notification)
    }

    private static func subject(_ notification: JSONTree) throws(StorefrontFault) -> (type: String, Subject) {
        let (subscription, product) = (notification["subscriptionNotification"], notification["oneTimeProductNotification"])
        let voided = notification["voidedPurchaseNotification"]
        if subscription.isObject {
            guard let token = subscription["purchaseToken"].id else { throw .malformed(reason: "token") }
            let number = subscription["notificationType"].integer ?? 0
            return (
                "SUBSCRIPTION_" + (subscriptionTypes[number] ?? "\(number)"), .subscription(token: token, isRevoked: number == 12)
            )
        }
        if product.isObject {
            guard let token = product["purchaseToken"].id, let id = product["sku"].id else { throw .malformed(reason: "token") }
            let number = product["notificationType"].integer ?? 0
            return ("ONE_TIME_PRODUCT_" + (productTypes[number] ?? "\(number)"), .product(token: token, id: id))
        }
        if voided.isObject {
            guard let order = voided["orderId"].id ?? voided["purchaseToken"].id else { throw .malformed(reason: "order") }
            // 2 is a part of a purchase of several.
            return voided["refundType"].integer == 2 ? ("VOIDED_PURCHASE/PARTIAL", .nothing) : ("VOIDED_PURCHASE", .voided(order: order))
        }
        let kind = notification.names.first { $0.hasSuffix("Notification") && notification[$0].isObject }
        return (kind == "testNotification" ? "TEST" : kind ?? "UNKNOWN", .nothing)
    }
}
