package import Accounts
package import Wire

/// What the operator has set for Stripe.
package struct StripePlan: Sendable {
    /// The signing secrets of the endpoint; several while one is replaced.
    package let secrets: [[UInt8]]
    /// The key for the API; nil to ask Stripe nothing.
    package let apiKey: String?
    /// `https://api.stripe.com`, without a slash at its end.
    package let apiURL: String
    package let environments: Set<StoreEnvironment>

    package init(secrets: [[UInt8]], apiKey: String?, apiURL: String, environments: Set<StoreEnvironment>) {
        self.secrets = secrets
        self.apiKey = apiKey
        self.apiURL = apiURL
        self.environments = environments
    }
}

/// Stripe: subscriptions and payments by checkout.
package struct StripeStorefront: Storefront {
    /// The version of the API that questions name, whatever the account's is.
    private static let apiVersion = "2025-03-31.basil"

    private let plan: StripePlan
    private let requests: StoreRequests

    package init(_ plan: StripePlan, _ requests: StoreRequests) {
        self.plan = plan
        self.requests = requests
    }

    package var source: PurchaseSource { .stripe }
    package var isAsked: Bool { plan.apiKey != nil }

    package func notification(
        _ body: [UInt8], now: WallTime, field: @Sendable (StaticString) -> String?
    ) async throws(StorefrontFault) -> StoreEvent {
        try StripeSignature.verify(field("stripe-signature"), body, secrets: plan.secrets, now: now)
        return try await replay(body, now: now)
    }

    package func replay(_ body: [UInt8], now: WallTime) async throws(StorefrontFault) -> StoreEvent {
        let event = try StripeEvent(body)
        guard plan.environments.contains(event.environment) else { throw .environmentRefused }
        var answer: StorePayload?
        if let question = event.question, plan.apiKey != nil {
            answer = try await ask(question.path)?.payload
        }
        return StoreEvent(
            .stripe, id: event.id, type: event.type, environment: event.environment, at: event.at, effects: try event.effects(answer))
    }

    package func prove(_ evidence: PurchaseEvidence, now: WallTime) async throws(StorefrontFault) -> ProvenPurchase {
        guard case .stripe(let id) = evidence, id.hasPrefix("cs_"), StorePayload.text(id).id != nil else {
            throw .malformed(reason: "session")
        }
        guard plan.apiKey != nil else { throw .unavailable(reason: "no API key is configured", retryAfterSeconds: 3_600) }
        let expanded = "&expand%5B%5D=subscription&expand%5B%5D=payment_intent.latest_charge"
        guard let answer = try await ask(StripeQuestion.session(id).path + expanded), let isLive = answer.payload["livemode"].bool else {
            throw .notAuthentic(reason: "session")
        }
        let environment: StoreEnvironment = isLive ? .production : .sandbox
        guard plan.environments.contains(environment) else { throw .environmentRefused }
        let session = StripeSession(answer.payload)
        guard session.isPaid, let key = session.key(environment) else { throw .notAuthentic(reason: "unpaid") }
        let effects = try session.effects(environment, at: answer.at ?? now)
        guard effects.contains(where: \.isStatus) else { throw .notAuthentic(reason: "unpaid") }
        return ProvenPurchase(key, effects)
    }

    package func newest(_ purchase: Purchase, now: WallTime) async throws(StorefrontFault) -> [PurchaseEffect]? {
        guard plan.apiKey != nil else { return nil }
        let (original, environment) = (purchase.key.original, purchase.key.environment)
        if original.hasPrefix("sub_") {
            guard let answer = try await ask("/v1/subscriptions/\(PercentEncoding.encode(original))") else { return [] }
            return try StripeSubscription(answer.payload).effects(environment, at: answer.at ?? now)
        }
        guard original.hasPrefix("pi_"),
            let answer = try await ask("/v1/payment_intents/\(PercentEncoding.encode(original))?expand%5B%5D=latest_charge"),
            answer.payload["latest_charge"]["refunded"].bool == true
        else { return [] }
        return [.ended(EndedTransaction(.stripe, environment, original, .refunded, at: answer.at ?? now))]
    }

    package func committed(_ purchases: [Purchase]) async {}

    /// nil if Stripe knows no such thing.
    private func ask(_ path: String) async throws(StorefrontFault) -> StoreRequests.Answer? {
        let fields = ["Authorization: Bearer \(plan.apiKey ?? "")", "Stripe-Version: \(Self.apiVersion)"]
        let answer = try await requests.send(plan.apiURL + path, fields, until: requests.deadline)
        switch answer.status {
        case 200: return answer
        case 400, 404: return nil
        case let status: throw .unavailable(reason: "the API answers with the status \(status)", retryAfterSeconds: 60)
        }
    }
}

extension StripeQuestion {
    var path: String {
        switch self {
        case .session(let id): "/v1/checkout/sessions/\(PercentEncoding.encode(id))?expand%5B%5D=line_items"
        case .invoice(let intent):
            "/v1/invoice_payments?payment%5Btype%5D=payment_intent&payment%5Bpayment_intent%5D=\(PercentEncoding.encode(intent))"
        }
    }
}

extension PurchaseEffect {
    fileprivate var isStatus: Bool { if case .status = self { true } else { false } }
}
