internal import Accounts
internal import Cluster
internal import Contracts
internal import Credentials
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

    /// Those that the configuration sets up; Google's stays while its plan does, with the acknowledgements that failed and the keys. Throws for a file that `check` finds fault with: it may have changed since.
    /// `report` gets what went wrong beside an answer, for the log.
    func stores(_ settings: Configuration, report: @escaping @Sendable (_ problem: String) -> Void) throws -> Stores {
        var findings = Findings()
        let storefronts = Self.storefronts(
            settings, { [transfers] in await transfers.send($0) }, report, inForce[.google] as? GoogleStorefront, &findings)
        if let fault = findings.faults.first { throw UnusableStore(description: fault.text) }
        return Stores(storefronts, Products(settings.products.map(ProductLine.init)))
    }

    private struct UnusableStore: Error, CustomStringConvertible {
        let description: String
    }

    /// Reports the files that are of no use to a store.
    static func check(_ settings: Configuration, _ findings: inout Findings) {
        _ = storefronts(settings, { _ in EndedTransfer(failure: "no store is asked") }, { _ in }, nil, &findings)
    }

    private static func storefronts(
        _ settings: Configuration, _ transport: @escaping StoreTransport, _ report: @escaping @Sendable (_ problem: String) -> Void,
        _ google: GoogleStorefront?, _ findings: inout Findings
    ) -> [any Storefront] {
        let requests = StoreRequests(transport)
        return [
            storefront(settings.appleStore, &findings) { AppleStorefront(try ApplePlan($0), requests) },
            storefront(settings.googleStore, &findings) {
                guard let plan = try GooglePlan($0, settings) else { return nil }
                if let google, google.plan == plan { return google }
                return GoogleStorefront(plan, requests, report: report)
            },
            storefront(settings.stripeStore, &findings) { StripeStorefront(StripePlan($0), requests, report: report) },
            storefront(settings.revenueCatStore, &findings) { RevenueCatStorefront(RevenueCatPlan($0)) },
        ].compactMap(\.self)
    }

    /// nil without a line, and for one with a file that is of no use.
    private static func storefront<Line: OptionTarget>(
        _ line: Line?, _ findings: inout Findings, _ make: (Line) throws -> (any Storefront)?
    ) -> (any Storefront)? {
        guard let line else { return nil }
        do {
            return try make(line)
        } catch {
            findings.fault(line, (error as? ParseError)?.text ?? "\(error)")
            return nil
        }
    }
}

extension ApplePlan {
    fileprivate init(_ line: AppleStoreDeclaration) throws(ParseError) {
        self.init(
            bundleIDs: line.bundleIDs, environments: Set(line.environments.map(StoreEnvironment.init)),
            appAppleID: line.appAppleID.map { Int64($0) })
        do throws(KeyFault) {
            if let roots = line.roots?.bytes { signatures = try StoreSignatures(roots: roots.rawBytes) }
        } catch {
            throw ParseError("has roots=\(line.roots?.path ?? ""), which is of no use: \(error.message)")
        }
        guard let key = line.apiKey?.bytes, let keyID = line.keyID, let issuerID = line.issuerID else { return }
        do throws(KeyFault) {
            api = try AppleServerPlan(pem: key.rawBytes, keyID: keyID, issuerID: issuerID, url: line.apiURL)
        } catch {
            throw ParseError("has api-key-file=\(line.apiKey?.path ?? ""), which is of no use: \(error.message)")
        }
    }
}

extension GooglePlan {
    /// The audience of a subscription's pushes is the URL of their endpoint, unless another one is set. nil where the line has a fault already.
    fileprivate init?(_ line: GoogleStoreDeclaration, _ settings: Configuration) throws(ParseError) {
        guard let file = line.serviceAccount else { return nil }
        let account: GoogleServiceAccount
        do throws(ParseError) {
            account = try GoogleServiceAccount(file: file.bytes.rawBytes)
        } catch {
            throw ParseError("has service-account=\(file.path), which \(error.text)")
        }
        let base = settings.publicURL.hasSuffix("/") ? String(settings.publicURL.dropLast()) : settings.publicURL
        self.init(
            packages: line.packages, environments: Set(line.environments.map(StoreEnvironment.init)), account: account,
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

/// The stores of a configuration for a command, made when the first is asked.
final class CommandStores: Sendable {
    private let configuration: GatewayConfiguration
    private let made = Mutex<(PurchaseStores, Stores)?>(nil)

    init(_ configuration: GatewayConfiguration) { self.configuration = configuration }

    /// Throws for a file that was changed since the configuration was read.
    func stores() throws -> Stores {
        try made.withLock { made in
            if let made { return made.1 }
            let parts = PurchaseStores()
            let stores = try parts.stores(configuration.settings, report: { _ in })
            made = (parts, stores)
            return stores
        }
    }

    /// Blocks until no question is under way.
    func stop() { made.withLock { $0 }?.0.stop() }
}

extension AccountsAssembly {
    /// nil where the configuration has no endpoints of purchases.
    func purchases(
        _ configuration: GatewayConfiguration, _ context: AccountContext, _ mint: TokenMint, _ stores: Stores
    ) -> Accounts.Purchases? {
        guard configuration.settings.purchaseBase != nil else { return nil }
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
