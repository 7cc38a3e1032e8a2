package import Accounts
package import Credentials
package import Wire

/// A purchase that never was, signed by a test root as Apple signs real ones. The ids follow from account, product and environment, so that
/// a refund or notification that is made later is about the same purchase.
package struct AppleTestPurchase: Sendable {
    package let account: UUID
    /// Apple's product id.
    package let product: String
    package let bundle: String
    package let appAppleID: Int64?
    package let environment: StoreEnvironment
    /// nil for what is bought once.
    package let expiresAt: WallTime?
    package let isRefunded: Bool
    package let now: WallTime

    package init(
        account: UUID, product: String, bundle: String, appAppleID: Int64?, environment: StoreEnvironment, expiresAt: WallTime?,
        isRefunded: Bool, now: WallTime
    ) {
        self.account = account
        self.product = product
        self.bundle = bundle
        self.appAppleID = appAppleID
        self.environment = environment
        self.expiresAt = expiresAt
        self.isRefunded = isRefunded
        self.now = now
    }

    /// The signed transaction, as an app of StoreKit 2 sends it.
    package func transaction(_ signer: StoreTestSigner) throws(KeyFault) -> String { try transaction(.active, isNew: false, signer) }

    /// The body of a notification; `type` is `TYPE` or `TYPE/SUBTYPE`.
    package func notification(_ type: String, id: UUID, _ signer: StoreTestSigner) throws(KeyFault) -> String {
        let parts = type.split(separator: "/", maxSplits: 1).map(String.init)
        let subtype = parts.count > 1 ? parts[1] : nil
        let effect = AppleNotification.effect(of: parts.first ?? "", subtype)
        let isNew = parts.first == "DID_RENEW" || subtype == "RESUBSCRIBE"
        let transaction = try transaction(effect, isNew: isNew, signer)
        let renewal = try renewal(effect, turnsOff: subtype == "AUTO_RENEW_DISABLED", signer)
        let payload = object { json in
            json.field("notificationType", parts.first ?? "")
            json.optional("subtype", subtype)
            json.field("notificationUUID", id.text)
            json.field("version", "2.0" as StaticString)
            json.field("signedDate", Self.milliseconds(now))
            json.key("data")
            json.beginObject()
            writeApp(&json)
            if parts.first != "TEST" {
                json.field("signedTransactionInfo", transaction)
                if expiresAt != nil { json.field("signedRenewalInfo", renewal) }
                if let status = Self.status(effect), expiresAt != nil { json.field("status", status) }
            }
            json.endObject()
        }
        let signed = try signer.sign(payload.readable)
        return object { $0.field("signedPayload", signed) }.readable.text
    }

    private func transaction(_ effect: AppleNotification.Effect, isNew: Bool, _ signer: StoreTestSigner) throws(KeyFault) -> String {
        let original = number("")
        let isOver = effect == .expired || effect == .retry || effect == .grace
        let payload = object { json in
            json.field("transactionId", isNew ? number("\(now.microseconds)") : original)
            json.field("originalTransactionId", original)
            json.field("productId", product)
            json.field("type", expiresAt == nil ? "Non-Consumable" : "Auto-Renewable Subscription")
            json.field("purchaseDate", Self.milliseconds(now))
            json.field("originalPurchaseDate", Self.milliseconds(now))
            if let expiresAt { json.field("expiresDate", Self.milliseconds(isOver ? min(now, expiresAt) : expiresAt)) }
            if isRefunded || effect == .refunded || effect == .revoked {
                json.field("revocationDate", Self.milliseconds(now))
                json.field("revocationReason", 0)
            }
            json.field("inAppOwnershipType", "PURCHASED" as StaticString)
            json.field("quantity", 1)
            json.field("appAccountToken", account.text)
            writeApp(&json)
            json.field("signedDate", Self.milliseconds(now))
        }
        return try signer.sign(payload.readable)
    }

    private func renewal(_ effect: AppleNotification.Effect, turnsOff: Bool, _ signer: StoreTestSigner) throws(KeyFault) -> String {
        let payload = object { json in
            json.field("originalTransactionId", number(""))
            json.field("productId", product)
            json.field("autoRenewProductId", product)
            json.field("autoRenewStatus", turnsOff || effect == .expired ? 0 : 1)
            json.field("isInBillingRetryPeriod", effect == .retry || effect == .grace)
            if let expiresAt, effect == .grace { json.field("gracePeriodExpiresDate", Self.milliseconds(expiresAt)) }
            json.field("environment", environment.appleName)
            json.field("signedDate", Self.milliseconds(now))
        }
        return try signer.sign(payload.readable)
    }

    private func writeApp(_ json: inout JSONWriter) {
        json.field("bundleId", bundle)
        if let appAppleID { json.field("appAppleId", Int(appAppleID)) }
        json.field("environment", environment.appleName)
    }

    private static func status(_ effect: AppleNotification.Effect) -> Int? {
        switch effect {
        case .active, .stated, .reversed: 1
        case .expired: 2
        case .retry: 3
        case .grace: 4
        case .refunded, .revoked: 5
        case .none: nil
        }
    }

    /// An id in Apple's form.
    private func number(_ occasion: String) -> String {
        let name = Array("\(account.text) \(product) \(environment.rawValue) \(occasion)".utf8)
        return "\(2_000_000_000_000_000 + Digest.sha256(name.rawBytes).rawBytes.load64(0) % 1_000_000_000_000_000)"
    }

    private static func milliseconds(_ time: WallTime) -> Int { Int(time.microseconds / 1_000) }

    private func object(_ write: (inout JSONWriter) -> Void) -> ByteBuffer {
        var json = JSONWriter()
        json.beginObject()
        write(&json)
        json.endObject()
        return json.finish()
    }
}
