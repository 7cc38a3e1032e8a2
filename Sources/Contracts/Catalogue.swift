package import Accounts
package import Gate
package import HTTP

/// Every contract, a row each: the one place where a new one is entered. Then what the account page asks.
package enum Catalogue {
    private static let contracts: [Row] = [
        Row(PasswordContract.self), Row(ProviderContract.self), Row(AppleContract.self), Row(DLAuthContract.self),
        Row(AnonymousContract.self),
    ]
    private static let webAccount = Row(WebAccount.self)

    /// All endpoints, each at its number.
    package static let endpoints: [CatalogueEndpoint] =
        (contracts.flatMap(\.endpoints) + webAccount.endpoints + [WebPage.endpoint]).enumerated().map { index, endpoint in
            var endpoint = endpoint
            endpoint.number = firstNumber + UInt16(index)
            return endpoint
        }

    /// What routes number their own endpoints with below it is not the catalogue's.
    package static let firstNumber: UInt16 = 64

    package static func endpoints(of contract: ContractID) -> [CatalogueEndpoint] {
        endpoints.filter { $0.contract == contract }
    }

    /// The account page and what it asks.
    package static let pageEndpoints = endpoints.filter { $0.contract == nil }

    /// What answers each endpoint, in the order of their numbers.
    static func handlers(_ services: ContractServices, _ page: WebPage, _ tell: @escaping Router.Tell) -> [Router.Handler] {
        (contracts + [webAccount]).flatMap { $0.handlers(services, tell) } + [{ page.answer($0) }]
    }

    private struct Row: Sendable {
        let endpoints: [CatalogueEndpoint]
        let handlers: @Sendable (ContractServices, @escaping Router.Tell) -> [Router.Handler]

        init<Contract: ClientContract>(_ contract: Contract.Type) { self.init(contract, of: Contract.id) }

        init(_ page: WebAccount.Type) { self.init(page, of: nil) }

        private init<Interface: AccountInterface>(_: Interface.Type, of contract: ContractID?) {
            endpoints = Interface.Endpoint.allCases.map { endpoint in
                CatalogueEndpoint(
                    contract: contract, name: "\(Interface.name)-\(endpoint.rawValue)", shortName: endpoint.rawValue,
                    dialect: Interface.dialect, method: endpoint.method, path: endpoint.path, isPrefix: endpoint.isPrefix,
                    auth: endpoint.auth)
            }
            handlers = { services, tell in
                let interface = Interface(services)
                return Interface.Endpoint.allCases.map { Router.handler(interface, $0, tell) }
            }
        }
    }
}

/// One endpoint of one contract, or of the account page.
package struct CatalogueEndpoint: Sendable {
    /// nil for the account page.
    package let contract: ContractID?
    /// As logs and metrics name it; no configured route has a hyphen in its name.
    package let name: String
    /// As its contract calls it.
    package let shortName: String
    package let dialect: Dialect
    package let method: HTTP.Method
    /// Below the base; the page's from the root.
    package let path: String
    /// Whether it takes what lies below its path.
    package let isPrefix: Bool
    package let auth: AuthMode
    /// As a route's target numbers it.
    package fileprivate(set) var number: UInt16 = 0

    init(
        contract: ContractID?, name: String, shortName: String, dialect: Dialect, method: HTTP.Method, path: String,
        isPrefix: Bool, auth: AuthMode
    ) {
        self.contract = contract
        self.name = name
        self.shortName = shortName
        self.dialect = dialect
        self.method = method
        self.path = path
        self.isPrefix = isPrefix
        self.auth = auth
    }

    /// A GET endpoint answers HEAD as well.
    package var methods: [String] { method == .get ? ["GET", "HEAD"] : [method.text.description] }
}
