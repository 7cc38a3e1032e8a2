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
package struct AppleStoreDeclaration: Hashable, Sendable {
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

extension AppleStoreDeclaration: OptionTarget {
    package static let family = Setting.appleStore
    package var lineName: String { "apple" }
    package static let bare = Self(origin: .builtIn)

    package static let options = table {
        LineOption("bundle-ids", list: \.bundleIDs, "com.example.app,com.example.two", "the apps whose purchases count", TypedText.item)
        environments(\.environments)
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
package struct GoogleStoreDeclaration: Hashable, Sendable {
    package var packages: [String] = []
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

extension GoogleStoreDeclaration: OptionTarget {
    package static let family = Setting.googleStore
    package var lineName: String { "google" }
    package static let bare = Self(origin: .builtIn)

    package static let options = table {
        LineOption("packages", list: \.packages, "com.example.app,com.example.two", "the apps whose purchases count", TypedText.item)
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
package struct StripeStoreDeclaration: Hashable, Sendable {
    /// Of the webhook's endpoint; several while it changes.
    package var secrets: [NamedFile] = []
    /// nil: Stripe is not asked.
    package var apiKey: NamedFile?
    package var apiURL: String?
    package var environments: Set<PurchaseEnvironment> = [.production]
    package var origin: Origin
}

extension StripeStoreDeclaration: OptionTarget {
    package static let family = Setting.stripeStore
    package var lineName: String { "stripe" }
    package static let bare = Self(origin: .builtIn)

    package static let options = table {
        LineOption("secret-file", "F, or F,F while it changes", "the signing secret of the webhook (`whsec_…`)", kind: .list) {
            line, stripe in
            let context = line.context
            stripe.secrets =
                line.list("secret-file") { text throws(ParseError) in try OptionForm<NamedFile>.file.parse(text, context) } ?? []
        } value: { stripe, _ in
            OptionValue(list: stripe.secrets.map(\.path))
        }
        LineOption("api-key-file", ifSet: \.apiKey, .file, "a file", "the key by which Stripe is asked; a restricted one may only read")
        LineOption("api-url", ifSet: \.apiURL, .url, "Stripe's own", "the API, for tests")
        environments(\.environments)
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
package struct RevenueCatStoreDeclaration: Hashable, Sendable {
    package var authorization: NamedFile?
    package var environments: Set<PurchaseEnvironment> = [.production]
    package var origin: Origin
}

extension RevenueCatStoreDeclaration: OptionTarget {
    package static let family = Setting.revenueCatStore
    package var lineName: String { "revenuecat" }
    package static let bare = Self(origin: .builtIn)

    package static let options = table {
        LineOption(
            "authorization-file", ifSet: \.authorization, .file, "a file", "the `Authorization` that RevenueCat sends with its webhooks")
        environments(\.environments)
    }

    package init(_ line: inout OptionLine, name: String) {
        self.init(origin: line.entry.origin)
        line.refuseWords("authorization-file=FILE")
        line.read(into: &self)
        line.require("authorization-file", "authorization-file=FILE, the Authorization of the webhook")
        if let authorization, authorization.bytes.count < 16 {
            line.fault("authorization-file= holds what is easy to guess, use 16 characters or more")
        }
    }
}

extension OptionTarget {
    fileprivate static func environments(_ path: LineOption<Self>.Path<Set<PurchaseEnvironment>>) -> LineOption<Self> {
        LineOption(
            "environments", list: path, "production or production,sandbox", "whose purchases count",
            part: { text throws(ParseError) in try TypedText.choice(text, PurchaseEnvironment.allCases.map(\.rawValue)) },
            join: { Set($0.compactMap(PurchaseEnvironment.init(rawValue:))) },
            show: { environments in PurchaseEnvironment.allCases.filter(environments.contains).map(\.rawValue) })
    }
}

extension OptionLine {
    fileprivate mutating func require(_ key: String, _ right: String) {
        if !has(key) { fault("has no \(key)=, write \(right)") }
    }
}

extension OptionForm where Value == NamedFile {
    fileprivate static var file: Self {
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
    fileprivate static func item(_ text: String) throws(ParseError) -> String {
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
        if !sold.isEmpty, configuration.products.isEmpty, let setting = storeSettings.first(where: { !text($0).isEmpty }) {
            let message = "is set and no product gives a tier, write lines like TOLLGATE_PRODUCT_MONTHLY=\"tier=premium apple=ID\""
            findings.warn(Finding(configuration.origin(of: setting), setting.name, message))
        }
    }

    private var storeSettings: [Setting] { [.appleStore, .googleStore, .stripeStore, .revenueCatStore] }
}

extension Configuration {
    /// The stores that are set up, by their names in lines of products.
    package var purchaseStores: [String] {
        let set: [(String, Bool)] = [
            ("apple", appleStore != nil), ("google", googleStore != nil), ("stripe", stripeStore != nil),
            ("revenuecat", revenueCatStore != nil),
        ]
        return set.filter(\.1).map(\.0)
    }

    /// The path of the endpoints of purchases as it is written; nil without them.
    package var purchaseBase: String? {
        if !self.purchasesPath.isEmpty { return self.purchasesPath }
        return purchaseStores.isEmpty && products.isEmpty ? nil : "/purchases"
    }
}
