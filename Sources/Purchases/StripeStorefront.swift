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
    private let report: @Sendable (_ problem: String) -> Void

    /// `report` gets what went wrong beside an answer, for the log.
    package init(_ plan: StripePlan, _ requests: StoreRequests, report: @escaping @Sendable (_ problem: String) -> Void = { _ in }) {
        self.plan = plan
        self.requests = requests
        self.report = report
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
        var answer: JSONTree?
        if let question = event.question, plan.apiKey != nil {
            answer = try await self.answer(to: question)
        }
        return StoreEvent(
            .stripe, id: event.id, type: event.type, environment: event.environment, at: event.at, effects: try event.effects(answer))
    }

    package func prove(_ evidence: PurchaseEvidence, now: WallTime) async throws(StorefrontFault) -> ProvenPurchase {
        guard case .stripe(let id) = evidence, id.hasPrefix("cs_"), JSONTree.text(id).id != nil else {
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
            guard let answer = try await ask(Self.path(subscription: original)) else { return [] }
            return try StripeSubscription(answer.payload).effects(environment, at: answer.at ?? now)
        }
        guard original.hasPrefix("pi_"),
            let answer = try await ask(Self.path(intent: original)),
            answer.payload["latest_charge"]["refunded"].bool == true
        else { return [] }
        return [.ended(EndedTransaction(.stripe, environment, original, .refunded, at: answer.at ?? now))]
    }

    package func committed(_ purchases: [Purchase]) async {}

    /// nil if Stripe knows no such thing.
    package func probe(now: WallTime) async throws(StorefrontFault) -> Bool {
        guard plan.apiKey != nil else { return false }
        let (session, invoice) = (StripeQuestion.session("cs_tollgateasks"), StripeQuestion.invoice(paymentIntent: "pi_tollgateasks"))
        for path in [session.path, Self.path(subscription: "sub_tollgateasks"), Self.path(intent: "pi_tollgateasks"), invoice.path] {
            _ = try await ask(path)
        }
        return true
    }

    /// A refund also names its charge and its payment, by which it counts where the key may not read invoices.
    private func answer(to question: StripeQuestion) async throws(StorefrontFault) -> JSONTree? {
        let answer = try await send(question.path)
        if answer.status == 403, case .invoice = question {
            report("Stripe's API key may not read invoices, so a refund ends no subscription: give it that right, and replay the event")
            return nil
        }
        return try Self.found(answer, question.path)?.payload
    }

    private static func path(subscription id: String) -> String { "/v1/subscriptions/\(PercentEncoding.encode(id))" }

    private static func path(intent id: String) -> String {
        "/v1/payment_intents/\(PercentEncoding.encode(id))?expand%5B%5D=latest_charge"
    }

    private func ask(_ path: String) async throws(StorefrontFault) -> StoreRequests.Answer? {
        try Self.found(try await send(path), path)
    }

    private func send(_ path: String) async throws(StorefrontFault) -> StoreRequests.Answer {
        let fields = ["Authorization: Bearer \(plan.apiKey ?? "")", "Stripe-Version: \(Self.apiVersion)"]
        return try await requests.send(plan.apiURL + path, fields, until: requests.deadline)
    }

    private static func found(_ answer: StoreRequests.Answer, _ path: String) throws(StorefrontFault) -> StoreRequests.Answer? {
        switch answer.status {
        case 200: return answer
        case 400, 404: return nil
        case 403:
            let object = path.dropFirst("/v1/".count).prefix { $0 != "/" && $0 != "?" }
            throw .unavailable(reason: "the API key has no right to read \(object)", retryAfterSeconds: 60, isKeyRefused: true)
        case let status: throw StorefrontFault(status: status)
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
