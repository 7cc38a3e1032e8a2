package import Accounts
package import Gate
package import HTTP

/// All endpoints of contracts and account page, with their handlers. A new contract is one more row.
package enum Catalogue {
    package static let endpoints: [CatalogueEndpoint] = {
        var endpoints =
            rows(PasswordContract.self) + rows(ProviderContract.self) + rows(AppleContract.self) + rows(DLAuthContract.self)
            + rows(AnonymousContract.self) + rows(WebAccount.self) + [WebPage.endpoint]
        for index in endpoints.indices { endpoints[index].number = firstNumber + UInt16(index) }
        return endpoints
    }()

    /// Lower numbers are those of other local endpoints, such as health and metrics.
    package static let firstNumber: UInt16 = 64

    static let numbered = Dictionary(uniqueKeysWithValues: endpoints.map { ($0.number, $0) })

    package static func endpoints(of contract: ContractID) -> [CatalogueEndpoint] {
        endpoints.filter { $0.contract == contract }
    }

    /// The account page and its API.
    package static let pageEndpoints = endpoints.filter { $0.contract == nil }

    private static func rows<Interface: AccountInterface>(_: Interface.Type) -> [CatalogueEndpoint] {
        Interface.Endpoint.allCases.map { endpoint in
            CatalogueEndpoint(
                contract: Interface.contract, name: "\(Interface.name)-\(endpoint.rawValue)", shortName: endpoint.rawValue,
                dialect: Interface.dialect, method: endpoint.method, path: endpoint.path, isPrefix: endpoint.isPrefix,
                hasSettablePath: endpoint.hasSettablePath, auth: endpoint.auth, isRefresh: endpoint.isRefresh
            ) { router, request in await Interface(router.services).respond(endpoint, request) }
        }
    }
}

/// An endpoint of a contract or of the account page.
package struct CatalogueEndpoint: Sendable {
    /// Answers a request that the gate let through.
    typealias Handler = @Sendable (Router, LocalRequest) async -> LocalResponse

    /// nil for the account page.
    package let contract: ContractID?
    /// Its name in logs and metrics. It has a hyphen, as no configured route has.
    package let name: String
    /// Its name within the contract.
    package let shortName: String
    package let dialect: Dialect
    package let method: HTTP.Method
    /// Relative to the mount's base; from the root for the account page.
    package let path: String
    /// Whether it also answers paths below its own.
    package let isPrefix: Bool
    /// Whether the operator may set another path.
    package let hasSettablePath: Bool
    package let auth: AuthMode
    /// Whether it renews an app's tokens.
    package let isRefresh: Bool
    let handler: Handler
    /// The target of its route in the policy. The same in every configuration, so requests in flight survive a reload.
    package fileprivate(set) var number: UInt16 = 0

    init(
        contract: ContractID?, name: String, shortName: String, dialect: Dialect, method: HTTP.Method, path: String,
        isPrefix: Bool, hasSettablePath: Bool = false, auth: AuthMode, isRefresh: Bool = false, handler: @escaping Handler
    ) {
        self.contract = contract
        self.name = name
        self.shortName = shortName
        self.dialect = dialect
        self.method = method
        self.path = path
        self.isPrefix = isPrefix
        self.hasSettablePath = hasSettablePath
        self.auth = auth
        self.isRefresh = isRefresh
        self.handler = handler
    }

    /// A GET endpoint answers HEAD as well.
    package var methods: [String] { method == .get ? ["GET", "HEAD"] : [method.text.description] }
}
