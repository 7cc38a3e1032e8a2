/// The types of Apple's notifications (App Store Server Notifications, version 2) and their effects.
package enum AppleNotification {
    package enum Effect: String, Sendable {
        case active = "active until `expiresDate`"
        case grace = "grace until `gracePeriodExpiresDate`"
        case retry = "retry, until `expiresDate`"
        case expired = "expired at `expiresDate`"
        case stated = "the state by `data.status`, and whether it renews"
        case refunded = "the transaction is refunded"
        case revoked = "the transaction is revoked"
        case reversed = "the transaction is not refunded any more; the state by `data.status`"
        case none = "none; it is kept"
    }

    package struct Row: Sendable {
        package let type: String
        /// The empty one stands for notifications without a subtype and for subtypes that have no row.
        package let subtypes: [String]
        package let effect: Effect

        fileprivate init(_ type: String, _ effect: Effect, _ subtypes: [String] = [""]) {
            self.type = type
            self.subtypes = subtypes
            self.effect = effect
        }
    }

    package static let table = [
        Row("SUBSCRIBED", .active, ["", "INITIAL_BUY", "RESUBSCRIBE"]),
        Row("DID_RENEW", .active, ["", "BILLING_RECOVERY"]),
        Row("ONE_TIME_CHARGE", .active),
        Row("OFFER_REDEEMED", .stated, ["", "INITIAL_BUY", "RESUBSCRIBE", "UPGRADE", "DOWNGRADE"]),
        Row("DID_CHANGE_RENEWAL_PREF", .stated, ["", "UPGRADE", "DOWNGRADE"]),
        Row("DID_CHANGE_RENEWAL_STATUS", .stated, ["", "AUTO_RENEW_ENABLED", "AUTO_RENEW_DISABLED"]),
        Row("PRICE_INCREASE", .stated, ["", "PENDING", "ACCEPTED"]),
        Row("RENEWAL_EXTENDED", .stated),
        Row("DID_FAIL_TO_RENEW", .retry),
        Row("DID_FAIL_TO_RENEW", .grace, ["GRACE_PERIOD"]),
        Row("GRACE_PERIOD_EXPIRED", .retry),
        Row("EXPIRED", .expired, ["", "VOLUNTARY", "BILLING_RETRY", "PRICE_INCREASE", "PRODUCT_NOT_FOR_SALE"]),
        Row("REFUND", .refunded),
        Row("REFUND_REVERSED", .reversed),
        Row("REVOKE", .revoked),
        Row("REFUND_DECLINED", .none),
        Row("CONSUMPTION_REQUEST", .none),
        Row("RENEWAL_EXTENSION", .none, ["", "SUMMARY", "FAILURE"]),
        Row("EXTERNAL_PURCHASE_TOKEN", .none, ["", "UNREPORTED", "CREATED", "ACTIVE_TOKEN_REMINDER"]),
        Row("RESCIND_CONSENT", .none),
        Row("METADATA_UPDATE", .none),
        Row("MIGRATION", .none),
        Row("PRICE_CHANGE", .none),
        Row("TEST", .none),
    ]

    /// The effect of a type; `none` for one that is not in the table.
    package static func effect(of type: String, _ subtype: String?) -> Effect {
        let rows = table.filter { $0.type == type }
        let row = rows.first { $0.subtypes.contains(subtype ?? "") } ?? rows.first { $0.subtypes.contains("") }
        return row?.effect ?? .none
    }
}
