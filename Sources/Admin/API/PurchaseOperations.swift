package import Accounts
internal import Credentials
internal import Wire

extension AdminOperation {
    /// Purchases, and the events of stores.
    static let purchases = [
        AdminOperation(
            "GET", "purchases", "listPurchases", "The purchases of an account or of all, page by page", access: .scope(.usersRead),
            query: [
                Parameter("account", "The id of an account, its email, or NAME:SUBJECT"),
                Parameter("state", "Only those in this state", .words(PurchaseState.allCases.map(\.rawValue))),
                Parameter("after", "The id of the last purchase of the page before", .id), page,
            ], answers: .list("purchases"), refusals: [404]
        ) { api, call -> [Purchase] in
            try await api.operator.purchases(
                of: call.query["account"], try call.query.word("state"), after: try call.query.id("after", of: "a purchase"),
                limit: try call.query.limit())
        },
        AdminOperation(
            "GET", "purchases/{id}", "getPurchase", "One purchase, and the newest 100 notifications about it",
            access: .scope(.usersRead), argument: .id, answers: PurchaseDetails.shape, refusals: [404]
        ) { api, call in try await api.operator.purchases.details(try call.id(orRefuse: .noSuchPurchase)) },
        AdminOperation(
            "POST", "purchases/{id}/sync", "syncPurchase", "Asks the store for the newest state of a purchase, and applies its answer",
            access: .scope(.tier), argument: .id, answers: Purchase.shape, refusals: [404, 409, 502]
        ) { api, call in try await api.operator.purchases.sync(try call.id(orRefuse: .noSuchPurchase)) },
        AdminOperation(
            "GET", "store-events", "listStoreEvents", "The kept notifications of stores, without their bodies, newest first",
            access: .scope(.usersRead),
            query: [
                Parameter("source", "Only those of this store", .words(PurchaseSource.allCases.map(\.rawValue))),
                Parameter("verdict", "Only those with this verdict", .words(StoreEvent.Verdict.allCases.map(\.rawValue))),
                Parameter("before", "The id of the last event of the page before", .id), page,
            ], answers: .list("events")
        ) { api, call -> [KeptStoreEvent] in
            try await api.operator.purchases.events(
                try call.query.word("source"), try call.query.word("verdict"), before: try call.query.id("before", of: "an event"),
                limit: try call.query.limit())
        },
        AdminOperation(
            "POST", "store-events/{id}/replay", "replayStoreEvent", "Applies a kept notification again; what was known later stays",
            access: .scope(.tier), argument: .id, answers: ReplayedEvent.shape, refusals: [404, 409, 502]
        ) { api, call in try await api.operator.purchases.replay(try call.id(orRefuse: .noSuchEvent)) },
    ]
}

extension AdminCall {
    /// The segment of the path that is an id.
    fileprivate func id(orRefuse refusal: InquiryRefusal) throws(AccountError<InquiryRefusal>) -> UUID {
        guard let id = UUID(parsing: arguments[0]) else { throw .refused(refusal) }
        return id
    }
}

extension AdminQuery {
    /// A parameter that is one of the cases' words; nil without it.
    fileprivate func word<Value: CaseIterable & RawRepresentable>(
        _ name: String
    ) throws(AdminRefusal) -> Value? where Value.RawValue == String {
        guard let text = self[name] else { return nil }
        guard let value = Value(rawValue: text) else {
            throw AdminRefusal(400, "BAD_REQUEST", "\(name) must be one of \(alternatives(Value.allCases.map(\.rawValue)))")
        }
        return value
    }
}

extension AdminRefusal {
    init(_ error: AccountError<InquiryRefusal>) {
        switch error {
        case .refused(.noSuchPurchase): self.init(404, "NOT_FOUND", "There is no purchase with this id")
        case .refused(.noSuchEvent): self.init(404, "NOT_FOUND", "There is no store event with this id")
        case .refused(.store(_, .unavailable(_, let seconds, _))):
            self.init(503, "STORE_UNAVAILABLE", error.sentence ?? "", [("Retry-After", "\(seconds)")])
        case .refused(.store): self.init(502, "STORE_ANSWER_INVALID", error.sentence ?? "")
        case .refused(.noLine), .refused(.noKey), .refused(.noBody): self.init(409, "CONFLICT", error.sentence ?? "")
        case .failed(let failure): self.init(failure)
        }
    }
}

extension AccountError<InquiryRefusal> {
    /// For the operator, about the configuration and the store; nil for an unknown id and a failure of the accounts.
    package var sentence: String? {
        switch self {
        case .refused(.noLine(let source)): "\(source.setting) is not set, so nothing of this store can be read"
        case .refused(.noKey(let source)): "\(source.setting) has no key to ask this store with"
        case .refused(.noBody): "the body of this event was deleted with the account that it was about"
        case .refused(.store(let source, .unavailable(let reason, _, _))): "\(source.rawValue) does not answer: \(reason)"
        case .refused(.store(let source, let fault)): "\(source.rawValue) said what cannot be used: \(fault.reason)"
        case .refused(.noSuchPurchase), .refused(.noSuchEvent), .failed: nil
        }
    }
}

extension PurchaseSource {
    /// The setting whose line is for this store.
    package var setting: String { "TOLLGATE_PURCHASES_\(rawValue.uppercased())" }
}

// MARK: - Records

extension Purchase: Recorded {
    package static let record = Record<Self>(
        "Purchase",
        [
            .has("id", \.id), .may("account", about: "Missing until an account is known", \.account), .has("source", .cases, \.key.source),
            .has("environment", .cases, \.key.environment),
            .has("original_id", about: "The store's name for all renewals of it", \.key.original),
            .may("product", about: "The name of the line TOLLGATE_PRODUCT_…; missing while no line has it", \.product),
            .has("store_product", \.status.product), .may("tier", \.tier), .has("state", .cases, \.state),
            .may("until", about: "Missing for a purchase without end", \.until), .has("renews", \.status.renews),
            .has("transactions", about: "The store's ids of the payment for this period", \.status.transactions),
            .has("store_time", about: "When the store said so, by its clock", \.status.at), .has("created_at", \.createdAt),
            .has("updated_at", \.updatedAt),
        ])
}

extension KeptStoreEvent: Recorded {
    package static let record = Record<Self>(
        "StoreEvent",
        [
            .has("id", \.id), .has("source", .cases, \.source), .has("event", about: "The store's id of it", \.event), .has("type", \.type),
            .has("environment", .cases, \.environment), .has("at", about: "By the store's clock", \.at),
            .has("received_at", \.receivedAt), .has("verdict", .cases, \.verdict),
            .has("digest", about: "SHA-256 of the body, in base64url") { Base64URL.encode($0.digest.rawBytes) },
            .has("purchases", about: "The ids of the purchases that it is about", \.purchases),
        ])
}

extension PurchaseDetails: Recorded {
    package static let record = Record<Self>(
        "PurchaseDetails", Purchase.record.fields(of: \.purchase) + [.has("events", about: "The newest first", \.events)])
}

extension ReplayedEvent: Recorded {
    package static let record = Record<Self>([.has("event", \.event), .has("purchases", \.purchases)])
}
