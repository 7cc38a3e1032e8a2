package import Accounts
package import Gate
package import HTTP

/// Every contract, a row each: the one place where a new one is entered.
package enum Catalogue {
    private static let rows: [Row] = [
        Row(PasswordContract.self), Row(ProviderContract.self), Row(AppleContract.self), Row(DLAuthContract.self),
        Row(AnonymousContract.self),
    ]

    /// The endpoints of all contracts, each at its number.
    package static let endpoints: [CatalogueEndpoint] = rows.flatMap(\.endpoints).enumerated().map { index, endpoint in
        var endpoint = endpoint
        endpoint.number = firstNumber + UInt16(index)
        return endpoint
    }

    /// What routes number their own endpoints with below it is not the contracts'.
    package static let firstNumber: UInt16 = 64

    package static func endpoints(of contract: ContractID) -> [CatalogueEndpoint] {
        endpoints.filter { $0.contract == contract }
    }

    /// What answers each endpoint, in the order of their numbers.
    static func handlers(_ services: ContractServices, _ tell: @escaping Router.Tell) -> [Router.Handler] {
        rows.flatMap { $0.handlers(services, tell) }
    }

    private struct Row: Sendable {
        let endpoints: [CatalogueEndpoint]
        let handlers: @Sendable (ContractServices, @escaping Router.Tell) -> [Router.Handler]

        init<Contract: ClientContract>(_: Contract.Type) {
            endpoints = Contract.Endpoint.allCases.map { endpoint in
                CatalogueEndpoint(
                    contract: Contract.id, dialect: Contract.dialect, shortName: endpoint.rawValue,
                    method: endpoint.method, path: endpoint.path, auth: endpoint.auth)
            }
            handlers = { services, tell in
                let contract = Contract(services)
                return Contract.Endpoint.allCases.map { Router.handler(contract, $0, tell) }
            }
        }
    }
}

/// One endpoint of one contract.
package struct CatalogueEndpoint: Sendable {
    package let contract: ContractID
    package let dialect: Dialect
    /// As its contract calls it.
    package let shortName: String
    package let method: HTTP.Method
    /// Below the base.
    package let path: String
    package let auth: AuthMode
    /// As a route's target numbers it.
    package fileprivate(set) var number: UInt16 = 0

    /// As logs and metrics name it; no configured route has a hyphen in its name.
    package var name: String { "\(contract.name)-\(shortName)" }

    /// A GET endpoint answers HEAD as well.
    package var methods: [String] { method == .get ? ["GET", "HEAD"] : [method.text.description] }
}
