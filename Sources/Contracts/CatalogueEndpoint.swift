package import Credentials
package import Gate
package import HTTP

/// An endpoint of a contract or of the account page.
package struct CatalogueEndpoint: Sendable {
    /// The response to a request that succeeds.
    typealias Handler = @Sendable (ContractServices, ContractRequest) async throws(Failure) -> LocalResponse

    /// nil for the account page.
    package let contract: ContractID?
    /// Its name within the contract.
    package let shortName: String
    package let dialect: Dialect
    /// A GET endpoint answers HEAD as well.
    package let method: HTTP.Method
    /// Relative to the mount's base; from the root for the account page. Begins with a slash and does not end in one.
    package let path: String
    /// Whether it also answers paths below its own.
    package let isPrefix: Bool
    /// Whether the operator may set another path.
    package let hasSettablePath: Bool
    /// Use of a bearer: `required`, `optional`, or `none`, where one that is sent is ignored, because clients send expired
    /// tokens along. The gate refuses valid actor tokens at every endpoint.
    package let auth: AuthMode
    /// Whether it renews an app's tokens: such requests must not wait for sign-ins.
    package let isRefresh: Bool
    private let handler: Handler
    /// The target of its route in the policy. The same in every configuration, so requests in flight survive a reload.
    package var number: UInt16 = 0

    init(
        contract: ContractID?, name: String, dialect: Dialect, method: HTTP.Method = .post, path: String, isPrefix: Bool = false,
        hasSettablePath: Bool = false, auth: AuthMode = .none, isRefresh: Bool = false, handler: @escaping Handler
    ) {
        self.contract = contract
        shortName = name
        self.dialect = dialect
        self.method = method
        self.path = path
        self.isPrefix = isPrefix
        self.hasSettablePath = hasSettablePath
        self.auth = auth
        self.isRefresh = isRefresh
        self.handler = handler
    }

    /// Its name in logs and metrics. It has a hyphen, as no configured route has.
    package var name: String { "\(contract?.name ?? "web")-\(shortName)" }

    package var methods: [String] { method == .get ? ["GET", "HEAD"] : [method.text.description] }

    /// Answers a request that the gate let through. Any thread.
    package func answer(_ request: LocalRequest, _ services: ContractServices) async -> LocalResponse {
        do throws(Failure) {
            return try await handler(services, ContractRequest(request, in: dialect))
        } catch {
            return error.response(in: dialect, requestID: request.requestID)
        }
    }
}
