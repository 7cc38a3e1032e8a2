import Accounts
import Credentials
import Gate
import HTTP
import Wire

/// The endpoints of purchases, below their base: claims of apps, what an account holds, and notifications of the stores. Failures are in
/// the dialect of the bearer's contract.
struct PurchaseEndpoints: AccountCalls {
    static let rows =
        [
            row("list", nil, .get, "", held), row("apple", .apple, .post, "/apple", apple),
            row("google", .google, .post, "/google", google), row("stripe", .stripe, .post, "/stripe", stripe),
        ] + PurchaseSource.allCases.map(notifications)

    private typealias Answer = @Sendable (Self) -> () async throws(Failure) -> LocalResponse

    private static func row(
        _ name: String, _ store: PurchaseSource?, _ method: HTTP.Method, _ path: String, _ answer: @escaping Answer
    ) -> CatalogueEndpoint {
        CatalogueEndpoint(owner: .purchases(store), name: name, dialect: .problem, method: method, path: path, auth: .required) {
            services, request throws(Failure) in
            try await answer(try Self(services, request))()
        }
    }

    private static func notifications(of store: PurchaseSource) -> CatalogueEndpoint {
        CatalogueEndpoint(
            owner: .purchases(store), name: "notify-\(store.rawValue)", dialect: .problem, path: "/notifications/\(store.rawValue)",
            isForServers: true
        ) { services, request throws(Failure) in
            try await Self(services, request).notify(store)
        }
    }

    private let services: ContractServices
    private let purchases: Purchases
    private let request: ContractRequest
    let dialect: Dialect

    private init(_ services: ContractServices, _ request: ContractRequest) throws(Failure) {
        // A reload has just removed them: the next request finds no endpoint.
        guard let purchases = services.purchases else { throw Failure(AccountFailure.unavailable(retryAfterSeconds: 1), in: .problem) }
        self.services = services
        self.purchases = purchases
        self.request = request
        dialect = request.dialect
    }

    // MARK: claims

    private func apple() async throws(Failure) -> LocalResponse {
        try await claim(.apple(transaction: try request.required("transaction")))
    }

    private func google() async throws(Failure) -> LocalResponse {
        try await claim(
            .google(
                package: try request.text("package"), product: try request.required("product_id"),
                token: try request.required("purchase_token")))
    }

    private func stripe() async throws(Failure) -> LocalResponse { try await claim(.stripe(session: try request.required("session_id"))) }

    private func claim(_ evidence: PurchaseEvidence) async throws(Failure) -> LocalResponse {
        let user = try request.person().user
        let claimed = try await call(await purchases.claim(evidence, by: user, caller: request.caller), refused: refusal)
        return .json { json in
            json.beginObject()
            writeTier(of: claimed.account, &json)
            json.field("everywhere", claimed.isEverywhere)
            json.key("purchase")
            claimed.purchase.write(to: &json)
            json.endObject()
        }
    }

    private func refusal(_ refusal: PurchaseRefusal) -> Failure {
        switch refusal {
        case .store(.environmentRefused): Self.environmentRefused
        case .store(.unavailable(_, let seconds, _)): Self.unavailable(seconds)
        case .store(.notAuthentic), .store(.malformed), .store(.foreign):
            Failure(400, "TRANSACTION_INVALID", "The store does not know this purchase, or it is not one of this app.")
        case .productUnknown: Failure(400, "PRODUCT_UNKNOWN", "The purchase is kept, but its product gives nothing here.")
        case .ofOtherAccount: Failure(409, "TRANSACTION_OF_OTHER_ACCOUNT", "The purchase belongs to another account.")
        case .noAccount: Failure(.unauthorized(.revoked), in: dialect)
        }
    }

    // MARK: notifications

    private func notify(_ store: PurchaseSource) async throws(Failure) -> LocalResponse {
        let sent = request.sent
        let recorded = try await call(
            await purchases.notify(store, sent.body, caller: request.caller) { sent.value(of: $0) }
        ) { (fault: StorefrontFault) in
            switch fault {
            case .notAuthentic: Failure(401, RefusalCode.unauthorized.text.description, "The notification is not authentic.")
            case .malformed: .malformed("The notification cannot be read.", in: dialect)
            case .foreign: .malformed("The notification is of an app that is not set up here.", in: dialect)
            case .environmentRefused: Self.environmentRefused
            case .unavailable(_, let seconds, _): Self.unavailable(seconds)
            }
        }
        return .json { json in
            json.beginObject()
            json.field("id", recorded.id.text)
            json.field("verdict", recorded.verdict.rawValue)
            json.endObject()
        }
    }

    private static let environmentRefused = Failure(400, "ENVIRONMENT_REFUSED", "Purchases of this environment do not count here.")

    private static func unavailable(_ seconds: Int) -> Failure {
        Failure(503, "STORE_UNAVAILABLE", "The store cannot be asked now.", retryAfterSeconds: seconds)
    }

    // MARK: what an account holds

    private func held() async throws(Failure) -> LocalResponse {
        let user = try request.person().user
        guard let held = try await call(await purchases.held(by: user)) else { throw Failure(.unauthorized(.revoked), in: dialect) }
        if request.sent.accepts("application/jwt") { return try await entitlement(held) }
        return .json { json in
            json.beginObject()
            writeTier(of: held.account, &json)
            json.array("purchases", held.purchases) { json, purchase in purchase.write(to: &json) }
            json.endObject()
        }
    }

    /// A token that an app can verify while it is offline.
    private func entitlement(_ held: HeldPurchases) async throws(Failure) -> LocalResponse {
        let now = services.clock.now().wall
        let until = services.grant(of: held.account)?.until
        let token = try await call(
            await purchases.entitlement(of: held.account.id, until: until?.advanced(seconds: services.tierGraceSeconds)) { json in
                writeTier(of: held.account, &json)
                json.array("purchases", held.purchases.filter { $0.givesTier(at: now) }) { json, purchase in purchase.write(to: &json) }
            })
        guard let token else { throw Failure(406, "NOT_ACCEPTABLE", "Tokens are signed with a secret here, which no app can have.") }
        return LocalResponse(status: 200, contentType: "application/jwt", body: Array(token.utf8))
    }

    private func writeTier(of account: Account, _ json: inout JSONWriter) {
        json.field("tier", services.tiers.name(of: services.tier(of: account)))
        json.write("until", services.grant(of: account)?.until)
    }
}

extension Purchase {
    func write(to json: inout JSONWriter) {
        json.beginObject()
        json.field("id", id.text)
        json.field("source", key.source.rawValue)
        json.write("product", product)
        json.field("store_product", status.product)
        json.field("state", state.rawValue)
        json.write("until", until)
        json.field("renews", status.renews)
        json.field("environment", key.environment.rawValue)
        json.endObject()
    }

    fileprivate func givesTier(at now: WallTime) -> Bool {
        switch state {
        case .active, .grace, .retry: tier != nil && until.map { $0 > now } != false
        case .paused, .expired, .refunded, .revoked, .superseded: false
        }
    }
}

extension LocalRequest {
    /// Whether it asks for this type of content by name.
    fileprivate func accepts(_ type: String) -> Bool {
        fields.contains { name, value in
            name.lowercased() == "accept"
                && value.lowercased().split(separator: ",").contains { range in
                    let parts = range.split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" } }
                    return parts.first == type
                        && !parts.dropFirst().contains { $0 == "q=0" || $0.hasPrefix("q=0.0") && Double($0.dropFirst(2)) == 0 }
                }
        }
    }
}
