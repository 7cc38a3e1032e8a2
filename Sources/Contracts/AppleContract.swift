import Accounts
import Gate
import HTTP
import Wire

/// The `apple` contract: Sign in with Apple by ID token. Both endpoints open the account if it is new.
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

    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws -> LocalResponse {
        var sent = ProviderSignIn.Request(provider: .apple, idToken: try token(request))
        sent.nonce = try request.body.text("nonce")
        if endpoint == .register {
            sent.name = try PersonName(given: request.body.text("firstName"), family: request.body.text("lastName"))
            sent.nameRule = .firstOrFresh
        }
        let signedIn = try await services.providers.signIn(sent, contract: Self.id, caller: request.caller)
        guard let grant = signedIn.grant else { throw AccountError.broken }
        return session(signedIn.account, grant)
    }

    private func token(_ request: ContractRequest) throws -> String {
        if let token = try request.body.text("idToken"), !token.isEmpty { return token }
        guard request.body.has("authorizationCode") else { throw Failure(400, "MISSING_ID_TOKEN", "idToken is required") }
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

    func failure(_ error: AccountError, at endpoint: Endpoint) -> Failure {
        switch error {
        case .malformedName: .malformed("firstName or lastName holds what no name does", in: Self.dialect)
        case .providerOff: Failure(400, "INVALID_PROVIDER", "Sign in with Apple is not set up here")
        case .identityRefused: Failure(401, "INVALID_ID_TOKEN", "Invalid ID token")
        case .providerUnavailable: Failure(500, "AUTH_SERVICE_ERROR", "Apple's keys cannot be had at the moment")
        case .tooManyAttempts(let seconds): .rateLimited(seconds, in: Self.dialect)
        case .overloaded(let seconds), .unavailable(let seconds): .away(seconds, in: Self.dialect)
        case .broken: Failure(.internalError, in: Self.dialect)
        // What the accounts say of calls that this contract does not make.
        case .malformedEmail, .malformedPhone, .malformedUsername, .malformedMetadata, .metadataTooLarge, .malformedActor,
            .unfitPassword, .emailTaken, .phoneTaken, .noSuchAccount, .invalidCredentials, .invalidCode,
            .invalidResetToken, .invalidRefreshToken, .refreshTokenExpired, .sessionEnded, .actorNotGranted:
            Failure(.internalError, in: Self.dialect)
        }
    }
}
