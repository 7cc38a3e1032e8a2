package import Accounts
internal import Synchronization
package import Wire

/// Google Play: purchases are read by its API, which notifications only point to.
package struct GoogleStorefront: Storefront {
    package let plan: GooglePlan
    private let requests: StoreRequests
    private let access: GoogleAccess
    private let acknowledgements = Acknowledgements()
    private let report: @Sendable (_ problem: String) -> Void

    /// `report` gets what went wrong beside an answer, for the log.
    package init(_ plan: GooglePlan, _ requests: StoreRequests, report: @escaping @Sendable (_ problem: String) -> Void) {
        self.plan = plan
        self.requests = requests
        self.report = report
        access = GoogleAccess(plan, requests)
    }

    package var source: PurchaseSource { .google }
    package var isAsked: Bool { true }

    package func notification(
        _ body: [UInt8], now: WallTime, field: @Sendable (StaticString) -> String?
    ) async throws(StorefrontFault) -> StoreEvent {
        let deadline = requests.deadline
        try await access.verify(field("authorization"), now: now, until: deadline)
        return try await event(body, now: now, until: deadline)
    }

    package func replay(_ body: [UInt8], now: WallTime) async throws(StorefrontFault) -> StoreEvent {
        try await event(body, now: now, until: requests.deadline)
    }

    private func event(_ body: [UInt8], now: WallTime, until deadline: MonotonicTime) async throws(StorefrontFault) -> StoreEvent {
        let notification = try GoogleNotification(body)
        guard plan.packages.contains(notification.package) else { throw .foreign(reason: "package") }
        var environment = StoreEnvironment.production
        var effects: [PurchaseEffect] = []
        switch notification.subject {
        case .subscription(let token, let isRevoked):
            guard let found = try await subscription(notification.package, token, now, deadline) else { break }
            (environment, effects) = (found.environment, found.effects)
            if isRevoked { effects.append(.ended(EndedTransaction(.google, environment, token, .revoked, at: notification.at))) }
        case .product(let token, let id):
            guard let found = try await product(notification.package, id, token, now, deadline) else { break }
            (environment, effects) = (found.environment, found.effects)
        case .voided(let order):
            // It does not say of which environment, and no order is of both.
            effects = StoreEnvironment.allCases.map { .ended(EndedTransaction(.google, $0, order, .refunded, at: notification.at)) }
        case .nothing: break
        }
        return StoreEvent(
            .google, id: notification.id, type: notification.type, environment: environment, at: notification.at, effects: effects)
    }

    package func prove(_ evidence: PurchaseEvidence, now: WallTime) async throws(StorefrontFault) -> ProvenPurchase {
        guard case .google(let named, let product, let token) = evidence, JSONTree.text(product).id != nil,
            JSONTree.text(token).id != nil, let package = named ?? (plan.packages.count == 1 ? plan.packages[0] : nil)
        else { throw .malformed(reason: "evidence") }
        guard plan.packages.contains(package) else { throw .foreign(reason: "package") }
        let deadline = requests.deadline
        var found = try await subscription(package, token, now, deadline)
        if found == nil { found = try await self.product(package, product, token, now, deadline) }
        guard let found else { throw .notAuthentic(reason: "token") }
        guard found.products.contains(product) else { throw .notAuthentic(reason: "product") }
        guard !found.effects.isEmpty else { throw .notAuthentic(reason: "pending") }
        return ProvenPurchase(found.key, found.effects)
    }

    package func newest(_ purchase: Purchase, now: WallTime) async throws(StorefrontFault) -> [PurchaseEffect]? {
        let (token, deadline) = (purchase.key.original, requests.deadline)
        for package in plan.packages {
            // Only what was bought once has no end.
            let found =
                purchase.status.until == nil
                ? try await product(package, purchase.status.product, token, now, deadline)
                : try await subscription(package, token, now, deadline)
            if let found { return found.effects }
        }
        return []
    }

    /// Acknowledges what gives an account a tier. One that fails is tried again with the next, and when the store is asked anew.
    package func committed(_ purchases: [Purchase]) async {
        for purchase in purchases where purchase.key.source == .google && purchase.account != nil && purchase.tier != nil {
            acknowledgements.commit(purchase.key.original)
        }
        let deadline = requests.deadline
        for (token, path) in acknowledgements.due() {
            do throws(StorefrontFault) {
                if try await access.ask(path, body: Array("{}".utf8), until: deadline) == nil {
                    report("Google knows no purchase of this token")
                }
                acknowledgements.remove(token)
            } catch {
                report(error.reason)
            }
        }
    }

    private func subscription(
        _ package: String, _ token: String, _ now: WallTime, _ deadline: MonotonicTime
    ) async throws(StorefrontFault) -> GooglePurchase? {
        let path = Self.path(package) + "/subscriptionsv2/tokens/\(PercentEncoding.encode(token))"
        guard let answer = try await access.ask(path, until: deadline) else { return nil }
        return try admit(try GooglePurchase(subscription: answer.payload, token, at: answer.at ?? now), package)
    }

    private func product(
        _ package: String, _ id: String, _ token: String, _ now: WallTime, _ deadline: MonotonicTime
    ) async throws(StorefrontFault) -> GooglePurchase? {
        let path = Self.path(package) + "/products/\(PercentEncoding.encode(id))/tokens/\(PercentEncoding.encode(token))"
        guard let answer = try await access.ask(path, until: deadline) else { return nil }
        return try admit(try GooglePurchase(product: answer.payload, id, token, at: answer.at ?? now), package)
    }

    /// Refuses a purchase whose environment does not count, and remembers one that waits to be acknowledged.
    private func admit(_ purchase: GooglePurchase, _ package: String) throws(StorefrontFault) -> GooglePurchase {
        guard plan.environments.contains(purchase.environment) else { throw .environmentRefused }
        if purchase.needsAcknowledgement, let product = purchase.products.first {
            let kind = purchase.kind == .subscription ? "subscriptions" : "products"
            let place = "/\(kind)/\(PercentEncoding.encode(product))/tokens/\(PercentEncoding.encode(purchase.token)):acknowledge"
            acknowledgements.add(purchase.token, Self.path(package) + place)
        }
        return purchase
    }

    private static func path(_ package: String) -> String {
        "/androidpublisher/v3/applications/\(PercentEncoding.encode(package))/purchases"
    }
}

/// The purchases that Google waits to see acknowledged, with the path of that request: first seen, then committed.
private final class Acknowledgements: Sendable {
    private static let capacity = 10_000
    /// At most so many with one commit.
    private static let together = 8

    private struct Entry {
        let path: String
        var isCommitted = false
    }

    private let entries = Mutex<[String: Entry]>([:])

    func add(_ token: String, _ path: String) {
        entries.withLock { entries in
            if entries[token] == nil, entries.count < Self.capacity { entries[token] = Entry(path: path) }
        }
    }

    func commit(_ token: String) { entries.withLock { $0[token]?.isCommitted = true } }

    func remove(_ token: String) { entries.withLock { $0[token] = nil } }

    func due() -> [(token: String, path: String)] {
        entries.withLock { entries in entries.lazy.filter(\.value.isCommitted).prefix(Self.together).map { ($0.key, $0.value.path) } }
    }
}
