internal import Accounts
internal import Cluster
internal import Contracts
internal import Fetch
internal import Purchases
internal import Settings
internal import Synchronization
internal import Wire

/// The stores of the configuration in force, and the thread that asks them.
final class PurchaseStores: Sendable {
    private let transfers = TransferThread(
        name: "stores", TransferThread.Limits(underWay: 64, queued: 1_024, queuedMilliseconds: 3_000))
    private let current = Mutex(Stores.none)

    var inForce: Stores { current.withLock { $0 } }

    func adopt(_ stores: Stores) { current.withLock { $0 = stores } }

    /// Aborts all questions and ends the thread. Blocks.
    func stop() { transfers.stop() }

    /// Those that the configuration sets up. Throws for a key or a certificate that cannot be read.
    func stores(_ settings: Configuration, report: @escaping @Sendable (_ problem: String) -> Void) throws -> Stores {
        let transport: StoreTransport = { [transfers] in await transfers.send($0) }
        return Stores(try Self.storefronts(settings, transport, report), Products(settings.products.map(ProductLine.init)))
    }

    private static func storefronts(
        _ settings: Configuration, _ transport: @escaping StoreTransport, _ report: @escaping @Sendable (_ problem: String) -> Void
    ) throws -> [any Storefront] {
        let requests = StoreRequests(transport)
        var storefronts: [any Storefront] = []
        if let google = settings.googleStore {
            storefronts.append(GoogleStorefront(try GooglePlan(google, settings), requests, report: report))
        }
        if let stripe = settings.stripeStore { storefronts.append(StripeStorefront(StripePlan(stripe), requests)) }
        if let revenueCat = settings.revenueCatStore { storefronts.append(RevenueCatStorefront(RevenueCatPlan(revenueCat))) }
        return storefronts
    }
}

extension MaterialCheck {
    /// The keys of the stores.
    static func checkStores(_ settings: Configuration, _ findings: inout Findings) {
        guard let google = settings.googleStore else { return }
        do throws(ParseError) {
            _ = try GooglePlan(google, settings)
        } catch {
            findings.fault(Finding(google.origin, Setting.googleStore.name, error.text))
        }
    }
}

extension GooglePlan {
    /// The audience of a subscription's pushes is the URL of their endpoint, unless another one is set.
    fileprivate init(_ line: GoogleStoreDeclaration, _ settings: Configuration) throws(ParseError) {
        let account: GoogleServiceAccount
        let bytes = line.serviceAccount?.bytes ?? []
        do throws(ParseError) {
            account = try GoogleServiceAccount(file: bytes.rawBytes)
        } catch {
            throw ParseError("service-account=\(line.serviceAccount?.path ?? "") \(error.text)")
        }
        let base = settings.publicURL.hasSuffix("/") ? String(settings.publicURL.dropLast()) : settings.publicURL
        self.init(
            packages: line.packages, account: account,
            audience: line.audience ?? base + (settings.purchaseBase ?? "") + "/notifications/google", pushEmail: line.pushEmail ?? "",
            keysURL: line.jwks ?? "https://www.googleapis.com/oauth2/v3/certs",
            tokenURL: line.tokenURL ?? "https://oauth2.googleapis.com/token",
            apiURL: line.apiURL ?? "https://androidpublisher.googleapis.com")
    }
}

extension RevenueCatPlan {
    fileprivate init(_ line: RevenueCatStoreDeclaration) {
        self.init(authorization: line.authorization?.bytes ?? [], environments: Set(line.environments.map(StoreEnvironment.init)))
    }
}

extension StripePlan {
    fileprivate init(_ line: StripeStoreDeclaration) {
        self.init(
            secrets: line.secrets.map(\.bytes), apiKey: line.apiKey.map { String(decoding: $0.bytes, as: UTF8.self) },
            apiURL: line.apiURL ?? "https://api.stripe.com", environments: Set(line.environments.map(StoreEnvironment.init)))
    }
}

extension AccountsAssembly {
    /// nil where the configuration has no endpoints of purchases.
    func purchases(
        _ configuration: GatewayConfiguration, _ context: AccountContext, _ mint: TokenMint, _ stores: Stores
    ) -> Accounts.Purchases? {
        guard configuration.contracts.purchases != nil else { return nil }
        return Accounts.Purchases(
            context: context, mint: mint, stores: stores, transfers: configuration.settings.transfersPurchases, limiter: limiter,
            fence: { [cluster] in await cluster.everywhere() }, report: { [health] in health.report($0) })
    }
}

extension ProductLine {
    fileprivate init(_ line: ProductDeclaration) {
        var products: [PurchaseSource: [String]] = [:]
        for (store, ids) in line.products { if let source = PurchaseSource(rawValue: store) { products[source] = ids } }
        self.init(name: line.name, tier: line.tier, products: products, graceSeconds: line.graceSeconds)
    }
}

extension StoreEnvironment {
    fileprivate init(_ environment: PurchaseEnvironment) {
        switch environment {
        case .production: self = .production
        case .sandbox: self = .sandbox
        }
    }
}
