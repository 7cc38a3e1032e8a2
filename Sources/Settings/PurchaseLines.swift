internal import Gate
internal import Wire

/// A file that a line names, as it was read.
package struct NamedFile: Hashable, Sendable {
    package let path: String
    /// Without a newline at its end.
    package let bytes: [UInt8]
}

/// Whether a store's purchases count that cost no money.
package enum PurchaseEnvironment: String, CaseIterable, Sendable {
    case production, sandbox
}

/// The line of a store.
package protocol StoreDeclaration: OptionTarget, Hashable {
    /// Whose purchases count.
    var environments: Set<PurchaseEnvironment> { get set }
}

/// Products of stores that give a tier, as a `TOLLGATE_PRODUCT_…` line declares them.
package struct ProductDeclaration: Hashable, Sendable {
    package var name: String
    package var tier = ""
    package var apple: [String] = []
    package var google: [String] = []
    package var stripe: [String] = []
    package var revenuecat: [String] = []
    package var graceSeconds: Int64?
    package var origin: Origin

    /// The store's products, by the key that names them.
    package var products: [(store: String, products: [String])] {
        [("apple", apple), ("google", google), ("stripe", stripe), ("revenuecat", revenuecat)]
    }
}

extension ProductDeclaration: OptionTarget {
    package static let family = Setting.product
    package var lineName: String { name }
    package static let bare = Self(name: "", origin: .builtIn)

    package static let options = table {
        LineOption("tier", \.tier, .paidTier, values: "a tier", "the tier that the products give").column
        LineOption("apple", list: \.apple, "ID,ID", "product ids of App Store Connect", TypedText.item)
        LineOption("google", list: \.google, "ID,ID", "product ids of the Play Console", TypedText.item)
        LineOption("stripe", list: \.stripe, "price_…,price_…", "prices of Stripe", TypedText.item)
        LineOption("revenuecat", list: \.revenuecat, "ID,ID", "product ids of RevenueCat", TypedText.item)
        LineOption(
            "grace", ifSet: \.graceSeconds, .duration(0...5_184_000_000, unit: 1_000), "16d",
            "the time for which a late payment keeps the tier, in place of the store's; up to 60 days")
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(name: name, origin: line.entry.origin)
        line.refuseWords("tier=premium apple=ID google=ID stripe=price_… revenuecat=ID")
        line.read(into: &self)
        if !line.has("tier") { line.fault("has no tier, write tier= with one of \(line.context.tiers.paid)") }
        if !["apple", "google", "stripe", "revenuecat"].contains(where: line.has) {
            line.fault("has no product of a store, write apple=ID, google=ID, stripe=price_… or revenuecat=ID")
        }
    }
}

/// `TOLLGATE_PURCHASES_APPLE`.
package struct AppleStoreDeclaration: Sendable {
    package var bundleIDs: [String] = []
    package var environments: Set<PurchaseEnvironment> = [.production]
    package var appAppleID: Int?
    /// PEM of the root certificates in place of Apple's.
    package var roots: NamedFile?
    /// The key of the App Store Server API; nil: Apple is not asked.
    package var apiKey: NamedFile?
    package var keyID: String?
    package var issuerID: String?
    package var apiURL: String?
    package var origin: Origin
}

extension AppleStoreDeclaration: StoreDeclaration {
    package static let family = Setting.appleStore
    package var lineName: String { "apple" }
    package static let bare = Self(origin: .builtIn)

    package static let options = table {
        LineOption("bundle-ids", list: \.bundleIDs, "com.example.app,com.example.two", "the apps whose purchases count", TypedText.item)
        environmentsRow
        LineOption(
            "app-apple-id", ifSet: \.appAppleID, .count(1...999_999_999_999), "a number",
            "the app's Apple ID in App Store Connect, which notifications of production must have")
        LineOption("roots", ifSet: \.roots, .file, "a PEM file", "root certificates in place of Apple's, for tests")
        LineOption("api-key-file", ifSet: \.apiKey, .file, "a file", "the key (`.p8`) by which Apple is asked for purchases in doubt")
        LineOption("key-id", ifSet: \.keyID, .text, "an id", "the id of that key")
        LineOption("issuer-id", ifSet: \.issuerID, .text, "a UUID", "the issuer of that key")
        LineOption("api-url", ifSet: \.apiURL, .url, "Apple's own", "the App Store Server API, for tests")
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.refuseWords("bundle-ids=com.example.app app-apple-id=NUMBER")
        line.read(into: &self)
        line.require("bundle-ids", "bundle-ids=com.example.app, the apps whose purchases count")
        let key = ["api-key-file", "key-id", "issuer-id"], present = key.filter(line.has)
        if !present.isEmpty, let missing = key.first(where: { !line.has($0) }) {
            line.fault("has \(present[0])= and no \(missing)=, a key has all of api-key-file=, key-id= and issuer-id=")
        }
        if environments.contains(.production), !line.has("app-apple-id") {
            line.warn(
                "has no app-apple-id=, so notifications of production are not held against it: write the app's Apple ID of App Store Connect"
            )
        }
    }
}

/// `TOLLGATE_PURCHASES_GOOGLE`.
package struct GoogleStoreDeclaration: Sendable {
    package var packages: [String] = []
    package var environments: Set<PurchaseEnvironment> = [.production]
    /// JSON of the service account that asks Google.
    package var serviceAccount: NamedFile?
    /// `aud` of the pushes; nil: the URL of the endpoint.
    package var audience: String?
    package var pushEmail: String?
    package var jwks: String?
    package var tokenURL: String?
    package var apiURL: String?
    package var origin: Origin
}

extension GoogleStoreDeclaration: StoreDeclaration {
    package static let family = Setting.googleStore
    package var lineName: String { "google" }
    package static let bare = Self(origin: .builtIn)

    package static let options = table {
        LineOption("packages", list: \.packages, "com.example.app,com.example.two", "the apps whose purchases count", TypedText.item)
        environmentsRow
        LineOption(
            "service-account", ifSet: \.serviceAccount, .file, "a JSON file", "the service account that asks Google for purchases")
        LineOption("audience", ifSet: \.audience, .text, "the endpoint's URL", "the audience of the subscription's pushes")
        LineOption(
            "push-email", ifSet: \.pushEmail, .text, "NAME@PROJECT.iam.gserviceaccount.com", "the service account that signs the pushes")
        LineOption("jwks", ifSet: \.jwks, .url, "Google's own", "the keys of the pushes, for tests")
        LineOption("token-url", ifSet: \.tokenURL, .url, "Google's own", "where access tokens are issued, for tests")
        LineOption("api-url", ifSet: \.apiURL, .url, "Google's own", "the Play Developer API, for tests")
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.refuseWords("packages=com.example.app service-account=FILE push-email=NAME@PROJECT.iam.gserviceaccount.com")
        line.read(into: &self)
        line.require("packages", "packages=com.example.app, the apps whose purchases count")
        line.require("service-account", "service-account=FILE, the account that asks Google")
        // Google signs tokens with any audience for everybody who has a project.
        line.require("push-email", "push-email=NAME@PROJECT.iam.gserviceaccount.com, the account that signs the pushes")
    }
}

/// `TOLLGATE_PURCHASES_STRIPE`.
package struct StripeStoreDeclaration: Sendable {
    /// Of the webhook's endpoint; several while it changes.
    package var secrets: [NamedFile] = []
    /// nil: Stripe is not asked.
    package var apiKey: NamedFile?
    package var apiURL: String?
    package var environments: Set<PurchaseEnvironment> = [.production]
    package var origin: Origin
}

extension StripeStoreDeclaration: StoreDeclaration {
    package static let family = Setting.stripeStore
    package var lineName: String { "stripe" }
    package static let bare = Self(origin: .builtIn)

    package static let options = table {
        LineOption("secret-file", "F, or F,F while it changes", "the signing secret of the webhook (`whsec_…`)", kind: .list) {
            line, stripe in
            let context = line.context
            stripe.secrets = (line.text("secret-file") ?? "").split(separator: ",", omittingEmptySubsequences: false).compactMap { part in
                line.parse("secret-file", String(part)) { text throws(ParseError) in try OptionForm<NamedFile>.file.parse(text, context) }
            }
            for file in stripe.secrets where !file.bytes.starts(with: "whsec_".utf8) {
                line.warn("secret-file=\(file.path) holds no signing secret of Stripe, which begins with whsec_")
            }
        } value: { stripe, _ in
            OptionValue(list: stripe.secrets.map(\.path))
        }
        LineOption("api-key-file", ifSet: \.apiKey, .file, "a file", "the key by which Stripe is asked; a restricted one may only read")
        LineOption("api-url", ifSet: \.apiURL, .url, "Stripe's own", "the API, for tests")
        environmentsRow
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.refuseWords("secret-file=FILE api-key-file=FILE")
        line.read(into: &self)
        line.require("secret-file", "secret-file=FILE, the signing secret of the webhook")
        if !line.has("api-key-file") {
            line.warn(
                "has no api-key-file=, so Stripe cannot be asked, and apps that send a checkout session get 503: name a file with a key")
        }
    }
}

/// `TOLLGATE_PURCHASES_REVENUECAT`.
package struct RevenueCatStoreDeclaration: Sendable {
    package var authorization: NamedFile?
    package var environments: Set<PurchaseEnvironment> = [.production]
    package var origin: Origin
}

extension RevenueCatStoreDeclaration: StoreDeclaration {
    package static let family = Setting.revenueCatStore
    package var lineName: String { "revenuecat" }
    package static let bare = Self(origin: .builtIn)

    package static let options = table {
        LineOption(
            "authorization-file", ifSet: \.authorization, .file, "a file", "the `Authorization` that RevenueCat sends with its webhooks")
        environmentsRow
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.refuseWords("authorization-file=FILE")
        line.read(into: &self)
        line.require("authorization-file", "authorization-file=FILE, the Authorization of the webhook")
        if let authorization, authorization.bytes.count < 16 {
            line.warn("authorization-file= holds what is easy to guess, use 16 characters or more")
        }
    }
}

extension StoreDeclaration {
    fileprivate static var environmentsRow: LineOption<Self> {
        LineOption(
            "environments", list: \.environments, "production or production,sandbox", "whose purchases count",
            part: { text throws(ParseError) in try TypedText.choice(text, PurchaseEnvironment.allCases.map(\.rawValue)) },
            join: { Set($0.compactMap(PurchaseEnvironment.init(rawValue:))) },
            show: { environments in PurchaseEnvironment.allCases.filter(environments.contains).map(\.rawValue) })
    }
}

extension OptionLine {
    mutating func require(_ key: String, _ right: String) {
        if !has(key) { fault("has no \(key)=, write \(right)") }
    }
}

extension OptionForm where Value == NamedFile {
    static var file: Self {
        Self({ text, context throws(ParseError) in
            let path = context.origin.path(text)
            return NamedFile(path: path, bytes: try SecretFile.read(path, context.sources))
        }) { file, _ in OptionValue(file.path) }
    }
}

extension OptionForm where Value == String {
    /// The name of a tier above the lowest.
    fileprivate static var paidTier: Self {
        Self({ text, context throws(ParseError) in
            guard let tier = context.tiers.rank(of: text), tier > .lowest else {
                throw ParseError("names no tier that can be bought, write one of \(context.tiers.paid)")
            }
            return text
        }) { tier, _ in tier.isEmpty ? nil : OptionValue(tier) }
    }
}

extension TierList {
    /// The names of all but the lowest.
    fileprivate var paid: String { names.dropFirst().joined(separator: ", ") }
}

extension TypedText {
    /// A part of a list, as it stands.
    static func item(_ text: String) throws(ParseError) -> String {
        guard !text.isEmpty else { throw ParseError("has an empty part, remove the comma") }
        return text
    }
}

extension ConfigurationReader {
    /// Refuses a product of a store on two lines; warns of products that no store can sell, and of stores without products.
    mutating func checkPurchases() {
        let sold = Set(configuration.purchaseStores)
        var owners: [String: ProductDeclaration] = [:]
        for line in configuration.products {
            for (store, products) in line.products where !products.isEmpty {
                if !sold.contains(store) {
                    findings.warn(line, "has \(store)= and TOLLGATE_PURCHASES_\(store.uppercased()) is not set, nothing is bought there")
                }
                for product in products {
                    if let owner = owners.updateValue(line, forKey: "\(store)=\(product)"), owner.name != line.name {
                        findings.fault(
                            line, "has \(store)=\(product), which \(owner.variable) has (\(owner.origin.text)), keep one of them")
                    }
                }
            }
        }
        if let store = configuration.stores.first, configuration.products.isEmpty {
            findings.warn(
                store, "is set and no product gives a tier, write lines like TOLLGATE_PRODUCT_MONTHLY=\"tier=premium apple=ID\"")
        }
        if let apple = configuration.appleStore, apple.roots != nil, configuration.publicURL.hasPrefix("https://") {
            findings.warn(
                apple,
                "has roots= and TOLLGATE_PUBLIC_URL is https: the keys of these roots can sign purchases, leave roots= out in production"
            )
        }
    }
}

extension Configuration {
    /// The lines of stores.
    package var stores: [any StoreDeclaration] {
        let lines: [(any StoreDeclaration)?] = [appleStore, googleStore, stripeStore, revenueCatStore]
        return lines.compactMap(\.self)
    }

    /// The stores that are set up, by their names in lines of products.
    package var purchaseStores: [String] { stores.map { $0.lineName } }

    /// The path of the endpoints of purchases, without a slash at its end; nil without them.
    package var purchaseBase: String? {
        let path = self.purchasesPath
        if path.isEmpty { return stores.isEmpty && products.isEmpty ? nil : "/purchases" }
        return path.hasSuffix("/") && path != "/" ? String(path.dropLast()) : path
    }
}
