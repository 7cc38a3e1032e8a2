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
        var isRefresh: Bool { self == .refresh }

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

    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws(Failure) -> LocalResponse {
        switch endpoint {
        case .signin: try await signIn(request)
        case .refresh: try await refresh(request)
        case .signout: try await signOut(request)
        }
    }

    // MARK: endpoints

    /// Checks the provider before the token, and both before the rest of the body.
    private func signIn(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        guard let provider = Provider(rawValue: text("provider", of: request)) else { throw Self.noProvider }
        guard services.providers.offers(provider) else { throw .isOff(provider) }
        let token = text("idToken", of: request)
        if token.isEmpty { throw Failure(400, "MISSING_TOKEN", "idToken field is required") }
        var sent = ProviderSignIn.Request(provider: provider, idToken: token)
        sent.nonce = try request.text("nonce")
        let (given, family) = (
            try request.text("givenName", in: "fullName"), try request.text("familyName", in: "fullName")
        )
        sent.name = try parse(try PersonName(given: given, family: family), orSay: "fullName holds what no name does")
        let signedIn = try await call(
            await services.providers.signIn(sent, contract: Self.id, caller: request.caller),
            failed: { Self.failure($0, or: Self.signInError) }
        ) { (refusal: ProviderRefusal) in
            switch refusal {
            case .providerOff: .isOff(provider)
            case .identityRefused: Failure(401, "AUTH_FAILED", "Invalid or expired identity token")
            case .keysUnavailable: Self.signInError
            }
        }
        return try session(signedIn.account, signedIn.grant, or: Self.signInError)
    }

    private func refresh(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let token = text("refreshToken", of: request)
        if token.isEmpty { throw Failure(400, "MISSING_REFRESH_TOKEN", "refreshToken field is required") }
        let granted = try await call(
            await services.sessions.refresh(token, contract: Self.id, caller: request.caller),
            failed: { Self.failure($0, or: Self.refreshError) }
        ) { (refusal: RefreshTokenRefusal) in
            switch refusal {
            case .invalid, .expired: Failure(401, "INVALID_REFRESH_TOKEN", "Refresh token is invalid or expired")
            }
        }
        return try session(granted.account, granted.grant, or: Self.refreshError)
    }

    private func signOut(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        try await signOut(request, refreshToken: "refreshToken", services)
        return .json { json in
            json.beginObject()
            json.field("success", true)
            json.endObject()
        }
    }

    /// A required text; empty if it is missing or of the wrong type, for which the document has the same code.
    private func text(_ name: String, of request: ContractRequest) -> String {
        do throws(Failure) {
            return try request.text(name) ?? ""
        } catch {
            return ""
        }
    }

    // MARK: responses

    private func session(_ account: Account, _ grant: SessionGrant?, or failure: Failure) throws(Failure) -> LocalResponse {
        guard let grant, let refresh = grant.tokens.refresh else { throw failure }
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

    // MARK: failures

    private static let noProvider = Failure(400, "INVALID_PROVIDER", "Provider must be \"apple\" or \"google\"")
    private static let signInError = Failure(500, "AUTH_SERVICE_ERROR", "Server error during authentication")
    private static let refreshError = Failure(500, "REFRESH_SERVICE_ERROR", "Server error during token refresh")

    /// The document has one error for each endpoint whose account call failed: a 500, here with `Retry-After` if a retry may
    /// help.
    private static func failure(_ failure: AccountFailure, or error: Failure) -> Failure {
        var error = error
        switch failure {
        case .tooManyAttempts: return Failure(failure, in: dialect)
        case .overloaded(let seconds), .unavailable(let seconds): error.retryAfterSeconds = seconds
        case .broken: break
        }
        return error
    }
}
