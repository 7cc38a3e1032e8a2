import Accounts
import Gate
import HTTP
import Wire

/// The `apple` contract: Sign in with Apple by ID token. Both endpoints create the account if there is none.
struct AppleContract: ClientContract {
    enum Endpoint: String, AccountEndpoint {
        case register, login

        var method: HTTP.Method { .post }

        var path: String {
            switch self {
            case .register: "/registerUser"
            case .login: "/login"
            }
        }

        var auth: AuthMode { .none }
    }

    static let id = ContractID.apple
    static let dialect = Dialect.apple

    private let services: ContractServices

    init(_ services: ContractServices) { self.services = services }

    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws(Failure) -> LocalResponse {
        var sent = ProviderSignIn.Request(provider: .apple, idToken: try token(request))
        sent.nonce = try request.text("nonce")
        if endpoint == .register {
            let (given, family) = (try request.text("firstName"), try request.text("lastName"))
            sent.name = try parse(
                try PersonName(given: given, family: family), orSay: "firstName or lastName holds what no name does")
            sent.nameRule = .firstOrFresh
        }
        let signedIn = try await call(
            await services.providers.signIn(sent, contract: Self.id, caller: request.caller)
        ) { (refusal: ProviderRefusal) in
            switch refusal {
            case .providerOff: .isOff(.apple)
            case .identityRefused: Failure(401, "INVALID_ID_TOKEN", "Invalid ID token")
            case .keysUnavailable: Failure(500, "AUTH_SERVICE_ERROR", "Apple's keys cannot be had at the moment")
            }
        }
        guard let grant = signedIn.grant else { throw Failure(.internalError, in: Self.dialect) }
        return session(signedIn.account, grant)
    }

    private func token(_ request: ContractRequest) throws(Failure) -> String {
        if let token = try request.text("idToken"), !token.isEmpty { return token }
        guard request.has("authorizationCode") else { throw Failure(400, "MISSING_ID_TOKEN", "idToken is required") }
        throw Failure(
            400, "AUTHORIZATION_CODE_RETIRED", "authorizationCode is no longer accepted, send the idToken of Sign in with Apple")
    }

    private func session(_ account: Account, _ grant: SessionGrant) -> LocalResponse {
        .json { json in
            json.beginObject()
            json.key("body")
            json.beginObject()
            json.field("token", grant.tokens.access)
            json.field("expiresAt", Int(grant.tokens.accessExpiresAt) * 1_000)
            json.field("sessionId", grant.session.id.text)
            json.field("userId", account.id.text)
            json.endObject()
            json.endObject()
        }
    }
}
