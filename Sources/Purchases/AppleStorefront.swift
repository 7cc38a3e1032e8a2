package import Accounts
package import Credentials
package import Wire

/// The settings of Apple's store (`TOLLGATE_PURCHASES_APPLE`).
package struct ApplePlan: Sendable {
    package var bundleIDs: [String]
    package var environments: Set<StoreEnvironment>
    /// Required of production notifications; nil to accept any.
    package var appAppleID: Int64?
    package var signatures: StoreSignatures
    /// nil where the store is not asked.
    package var api: AppleServerPlan?

    package init(
        bundleIDs: [String], environments: Set<StoreEnvironment>, appAppleID: Int64? = nil, signatures: StoreSignatures = StoreSignatures(),
        api: AppleServerPlan? = nil
    ) {
        self.bundleIDs = bundleIDs
        self.environments = environments
        self.appAppleID = appAppleID
        self.signatures = signatures
        self.api = api
    }
}

/// Apple's App Store: transactions of StoreKit 2 and notifications are verified offline.
package struct AppleStorefront: Storefront {
    private let plan: ApplePlan
    private let server: AppleServer?

    package init(_ plan: ApplePlan, _ requests: StoreRequests) {
        self.plan = plan
        server = plan.api.map { AppleServer(plan: $0, requests: requests) }
    }

    package var source: PurchaseSource { .apple }
    package var isAsked: Bool { server != nil }

    package func prove(_ evidence: PurchaseEvidence, now: WallTime) async throws(StorefrontFault) -> ProvenPurchase {
        guard case .apple(let jws) = evidence else { throw .malformed(reason: "evidence") }
        let transaction = try transaction(jws, Reading(now: now, isVerified: false))
        return ProvenPurchase(transaction.key, transaction.effects(at: now))
    }

    package func notification(
        _ body: [UInt8], now: WallTime, field: @Sendable (StaticString) -> String?
    ) async throws(StorefrontFault) -> StoreEvent { try event(body, Reading(now: now, isVerified: false)) }

    package func replay(_ body: [UInt8], now: WallTime) async throws(StorefrontFault) -> StoreEvent {
        try event(body, Reading(now: now, isVerified: true))
    }

    package func newest(_ purchase: Purchase, now: WallTime) async throws(StorefrontFault) -> [PurchaseEffect]? {
        guard let server, plan.environments.contains(purchase.key.environment) else { return nil }
        // A purchase does not tell its app, and the store answers for the app that asks.
        for bundle in plan.bundleIDs {
            guard let answer = try await server.status(of: purchase, in: bundle, now: now) else { continue }
            return try effects(of: answer, on: purchase.key, Reading(now: now, isVerified: false))
        }
        return []
    }

    package func committed(_ purchases: [Purchase]) async {}

    /// When something is read, and whether it was verified when it came.
    private struct Reading {
        let now: WallTime
        let isVerified: Bool
    }

    private func payload(_ jws: String, _ reading: Reading) throws(StorefrontFault) -> JSONTree {
        let bytes = Array(jws.utf8)
        do throws(StoreSignatureFault) {
            let json =
                reading.isVerified
                ? try StoreSignatures.payload(ofVerified: bytes.rawBytes)
                : try plan.signatures.payload(of: bytes.rawBytes, now: reading.now)
            guard let payload = JSONTree(json.rawBytes) else { throw .malformed }
            return payload
        } catch {
            throw error == .malformed ? .malformed(reason: "jws") : .notAuthentic(reason: error.rawValue)
        }
    }

    private func transaction(_ jws: String, _ reading: Reading) throws(StorefrontFault) -> AppleTransaction {
        let payload = try payload(jws, reading)
        let environment = try admit(payload["bundleId"].text, payload["environment"].text)
        return try AppleTransaction(payload, environment, now: reading.now)
    }

    /// nil where the store signed none, as for what is bought once.
    private func renewal(_ jws: String?, of key: PurchaseKey, _ reading: Reading) throws(StorefrontFault) -> AppleRenewal? {
        guard let jws else { return nil }
        let payload = try payload(jws, reading)
        let renewal = try AppleRenewal(payload, now: reading.now)
        guard renewal.original == key.original, StoreEnvironment(apple: payload["environment"].text) == key.environment else {
            throw .malformed(reason: "renewal")
        }
        return renewal
    }

    private func admit(_ bundle: String?, _ environment: String?) throws(StorefrontFault) -> StoreEnvironment {
        guard let bundle, plan.bundleIDs.contains(bundle) else { throw .foreign(reason: "bundle") }
        guard let environment = StoreEnvironment(apple: environment), plan.environments.contains(environment) else {
            throw .environmentRefused
        }
        return environment
    }

    private func event(_ body: [UInt8], _ reading: Reading) throws(StorefrontFault) -> StoreEvent {
        guard let jws = JSONTree(body.rawBytes)?["signedPayload"].text else { throw .malformed(reason: "body") }
        let payload = try payload(jws, reading)
        let environment = try environment(of: payload)
        guard let id = payload["notificationUUID"].id, let type = payload["notificationType"].id else {
            throw .malformed(reason: "notification")
        }
        let subtype = payload["subtype"].id
        return StoreEvent(
            .apple, id: id, type: subtype.map { "\(type)/\($0)" } ?? type, environment: environment,
            at: payload["signedDate"].milliseconds ?? reading.now,
            effects: try effects(AppleNotification.effect(of: type, subtype), payload["data"], environment, reading))
    }

    /// The environment of a notification, once its app and environment are admitted. It is about a purchase, about a request for many,
    /// about an external purchase or about the app: the first that is there counts.
    private func environment(of payload: JSONTree) throws(StorefrontFault) -> StoreEnvironment {
        let about = ["data", "summary", "externalPurchaseToken", "appData"].first { payload[$0].isObject } ?? "data"
        let subject = payload[about]
        var name = subject["environment"].text
        if about == "externalPurchaseToken" {
            let isSandbox = subject["externalPurchaseId"].text?.hasPrefix("SANDBOX") == true
            name = (isSandbox ? StoreEnvironment.sandbox : .production).appleName
        }
        let environment = try admit(subject["bundleId"].text, name)
        if environment == .production, let id = plan.appAppleID, subject["appAppleId"].integer != id {
            throw .foreign(reason: "app-apple-id")
        }
        return environment
    }

    private func effects(
        _ effect: AppleNotification.Effect, _ data: JSONTree, _ environment: StoreEnvironment, _ reading: Reading
    ) throws(StorefrontFault) -> [PurchaseEffect] {
        guard effect != .none, let jws = data["signedTransactionInfo"].text else { return [] }
        let transaction = try transaction(jws, reading)
        guard transaction.key.environment == environment else { throw .malformed(reason: "transaction") }
        let renewal = try renewal(data["signedRenewalInfo"].text, of: transaction.key, reading)
        let stated = { transaction.effects(transaction.state(data["status"].integer, renewal), renewal) }
        switch effect {
        case .active: return transaction.effects(.active, renewal)
        case .grace: return transaction.effects(.grace, renewal)
        case .retry: return transaction.effects(.retry, renewal)
        case .expired: return transaction.effects(.expired, renewal)
        case .stated: return stated()
        case .refunded: return transaction.effects(at: transaction.signedAt, ended: .refunded)
        case .revoked: return transaction.effects(at: transaction.signedAt, ended: .revoked)
        case .reversed: return stated() + [transaction.ended(nil)]
        case .none: return []
        }
    }

    /// The effects of the server's answer on one purchase. What the store says now also takes back an earlier refund.
    private func effects(of answer: JSONTree, on key: PurchaseKey, _ reading: Reading) throws(StorefrontFault) -> [PurchaseEffect] {
        if let jws = answer["signedTransactionInfo"].text {
            let transaction = try transaction(jws, reading)
            guard transaction.key == key else { return [] }
            return transaction.effects(at: reading.now) + (transaction.revocation == nil ? [transaction.ended(nil)] : [])
        }
        var effects: [PurchaseEffect] = []
        for item in answer["data"].elements.flatMap({ $0["lastTransactions"].elements })
        where item["originalTransactionId"].text == key.original {
            guard let jws = item["signedTransactionInfo"].text else { throw .malformed(reason: "answer") }
            let transaction = try transaction(jws, reading)
            guard transaction.key == key else { continue }
            let renewal = try renewal(item["signedRenewalInfo"].text, of: key, reading)
            effects += transaction.effects(transaction.state(item["status"].integer, renewal), renewal)
            if transaction.revocation == nil && !transaction.isUpgraded { effects.append(transaction.ended(nil)) }
        }
        return effects
    }
}
