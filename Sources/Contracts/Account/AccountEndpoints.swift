import Accounts
import Credentials
import Gate
import HTTP
import Wire

/// The endpoints by which users of all contracts see and change their accounts. Failures are in the dialect of the bearer's contract.
struct AccountEndpoints: AccountCalls {
    static let rows = [
        row("show", .get, "", show)
    ]

    typealias Answer = @Sendable (Self) -> () async throws(Failure) -> LocalResponse

    static func row(
        _ name: String, _ method: HTTP.Method, _ path: String, isPrefix: Bool = false, _ answer: @escaping Answer
    ) -> CatalogueEndpoint {
        CatalogueEndpoint(
            owner: .account, name: name, dialect: .problem, method: method, path: path, isPrefix: isPrefix, auth: .required
        ) { services, request throws(Failure) in
            try await answer(try Self(services, request))()
        }
    }

    let services: ContractServices
    let life: AccountLife
    let request: ContractRequest
    let dialect: Dialect

    private init(_ services: ContractServices, _ request: ContractRequest) throws(Failure) {
        // A reload has just removed them: the next request finds no endpoint.
        guard let life = services.life else { throw Failure(AccountFailure.unavailable(retryAfterSeconds: 1), in: .problem) }
        self.services = services
        self.life = life
        self.request = request
        dialect = request.dialect
    }

    /// The account as it is.
    private func show() async throws(Failure) -> LocalResponse {
        let user = try request.person().user
        guard let account = try await call(await services.accounts.account(user)) else {
            throw Failure(.unauthorized(.revoked), in: dialect)
        }
        return .json { json in
            json.beginObject()
            json.field("id", account.id.text)
            json.endObject()
        }
    }
}
