import Accounts
import Gate
import HTTP
import Wire

/// The `provider` contract: sign-in with an ID token of Apple or Google.
struct ProviderContract: ClientContract {
    enum Endpoint: String, AccountEndpoint {
        case signin, refresh, signout

        var method: HTTP.Method { .post }
        var path: String { "/auth/\(rawValue)" }

        var auth: AuthMode {
            switch self {
            case .signin, .refresh: .none
            case .signout: .required
            }
        }
    }

    static let id = ContractID.provider
    static let dialect = Dialect.provider

    private let services: ContractServices

    init(_ services: ContractServices) { self.services = services }

    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws -> LocalResponse {
        switch endpoint {
        case .signin: try await signIn(request)
        case .refresh: try await refresh(request)
        case .signout: try await signOut(request)
        }
    }

    // MARK: endpoints

    /// The provider is looked at before the token, and before the rest of the body.
    private func signIn(_ request: ContractRequest) async throws -> LocalResponse {
        guard let provider = Provider(rawValue: text("provider", of: request)), services.providers.offers(provider) else {
            throw Self.noProvider
        }
        let token = text("idToken", of: request)
        if token.isEmpty { throw Failure(400, "MISSING_TOKEN", "idToken field is required") }
        var sent = ProviderSignIn.Request(provider: provider, idToken: token)
        sent.nonce = try request.body.text("nonce")
        if let name = try request.body.object("fullName") {
            sent.name = try PersonName(given: name.text("givenName"), family: name.text("familyName"))
        }
        let signedIn = try await services.providers.signIn(sent, contract: Self.id, caller: request.caller)
        guard let grant = signedIn.grant else { throw AccountError.broken }
        return try session(signedIn.account, grant)
    }

    private func refresh(_ request: ContractRequest) async throws -> LocalResponse {
        let token = text("refreshToken", of: request)
        if token.isEmpty { throw Failure(400, "MISSING_REFRESH_TOKEN", "refreshToken field is required") }
        let granted = try await services.sessions.refresh(token, contract: Self.id, caller: request.caller)
        return try session(granted.account, granted.grant)
    }

    private func signOut(_ request: ContractRequest) async throws -> LocalResponse {
        let session = try request.requiredSession(in: Self.dialect)
        try await services.sessions.signOut(session, caller: request.caller)
        return .json { json in
            json.beginObject()
            json.field("success", true)
            json.endObject()
        }
    }

    /// A required text: what is missing, no text, or unfit is told alike, by the code that the document has for it.
    private func text(_ name: String, of request: ContractRequest) -> String {
        do throws(RequestObject.Fault) {
            return try request.body.text(name) ?? ""
        } catch {
            return ""
        }
    }

    // MARK: answers

    private func session(_ account: Account, _ grant: SessionGrant) throws -> LocalResponse {
        guard let refresh = grant.tokens.refresh else { throw AccountError.broken }
        return .json { json in
            json.beginObject()
            json.field("accessToken", grant.tokens.access)
            json.field("refreshToken", refresh)
            json.field("expiresIn", Int(grant.tokens.accessSeconds))
            json.field("expiresAt", Int(grant.tokens.accessExpiresAt))
            json.key("user")
            json.beginObject()
            json.field("id", account.id.text)
            json.key("email")
            if let email = account.email { json.string(email.text) } else { json.null() }
            json.field("createdAt", ISO8601.text(account.createdAt))
            json.endObject()
            json.endObject()
        }
    }

    // MARK: refusals

    private static let noProvider = Failure(400, "INVALID_PROVIDER", "Provider must be \"apple\" or \"google\"")

    func failure(_ error: AccountError, at endpoint: Endpoint) -> Failure {
        switch error {
        case .malformedName: .malformed("fullName holds what no name does", in: Self.dialect)
        case .providerOff: Self.noProvider
        case .identityRefused: Failure(401, "AUTH_FAILED", "Invalid or expired identity token")
        case .invalidRefreshToken, .refreshTokenExpired:
            Failure(401, "INVALID_REFRESH_TOKEN", "Refresh token is invalid or expired")
        case .sessionEnded, .noSuchAccount: Failure(.unauthorized(.revoked), in: Self.dialect)
        case .tooManyAttempts(let seconds): .rateLimited(seconds, in: Self.dialect)
        case .unavailable(let seconds), .overloaded(let seconds): away(endpoint, seconds)
        case .providerUnavailable, .broken: broken(endpoint)
        // What the accounts say of calls that this contract does not make.
        case .malformedEmail, .malformedPhone, .malformedUsername, .malformedMetadata, .metadataTooLarge, .malformedActor,
            .unfitPassword, .emailTaken, .phoneTaken, .invalidCredentials, .invalidCode, .invalidResetToken,
            .actorNotGranted:
            broken(endpoint)
        }
    }

    /// The document has one code for whatever goes wrong on our side, and 500 with it.
    private func broken(_ endpoint: Endpoint) -> Failure {
        switch endpoint {
        case .signin: Failure(500, "AUTH_SERVICE_ERROR", "Server error during authentication")
        case .refresh: Failure(500, "REFRESH_SERVICE_ERROR", "Server error during token refresh")
        case .signout: Failure(.internalError, in: Self.dialect)
        }
    }

    private func away(_ endpoint: Endpoint, _ seconds: Int) -> Failure {
        switch endpoint {
        case .signin, .refresh:
            var failure = broken(endpoint)
            failure.retryAfterSeconds = seconds
            return failure
        case .signout: return .away(seconds, in: Self.dialect)
        }
    }
}
