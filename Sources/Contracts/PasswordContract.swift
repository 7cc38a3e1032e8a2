import Accounts
import Gate
import HTTP
import Wire

/// The `password` contract: registration and login by email and password, with a refresh token that is kept.
struct PasswordContract: ClientContract {
    enum Endpoint: String, AccountEndpoint {
        case register, login, refresh, me

        var method: HTTP.Method {
            switch self {
            case .register, .login, .refresh: .post
            case .me: .get
            }
        }

        var path: String { "/auth/\(rawValue)" }

        var auth: AuthMode {
            switch self {
            case .register, .login, .refresh: .none
            case .me: .required
            }
        }
    }

    static let id = ContractID.password
    static let dialect = Dialect.passwordContract

    private let services: ContractServices

    init(_ services: ContractServices) { self.services = services }

    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws -> LocalResponse {
        switch endpoint {
        case .register: try await register(request)
        case .login: try await login(request)
        case .refresh: try await refresh(request)
        case .me: try await me(request)
        }
    }

    // MARK: endpoints

    private func register(_ request: ContractRequest) async throws -> LocalResponse {
        let (email, password) = try credentials(request)
        var registration = Registration(email: email, password: password)
        registration.username = try request.body.text("username").flatMap { try Username($0) }
        let signedIn = try await services.passwords.signUp(
            registration, rules: .strict, contract: Self.id, caller: request.caller)
        return try session(201, signedIn)
    }

    private func login(_ request: ContractRequest) async throws -> LocalResponse {
        let (email, password) = try credentials(request)
        let signedIn = try await services.passwords.signIn(
            .email(email), password, contract: Self.id, caller: request.caller)
        return try session(200, signedIn)
    }

    private func refresh(_ request: ContractRequest) async throws -> LocalResponse {
        guard let token = try request.body.text("refresh"), !token.isEmpty else {
            throw Self.malformed("Refresh token is required")
        }
        let granted = try await services.sessions.refresh(token, contract: Self.id, caller: request.caller)
        return .json { json in
            json.beginObject()
            json.field("access", granted.grant.tokens.access)
            json.endObject()
        }
    }

    private func me(_ request: ContractRequest) async throws -> LocalResponse {
        let session = try request.requiredSession(in: Self.dialect)
        guard let account = try await services.accounts.account(session.user) else { throw AccountError.sessionEnded }
        let now = services.clock.now().wall
        return .json { json in
            json.beginObject()
            write(account, &json)
            json.field("has_active_subscription", account.entitlement.hasActiveSubscription(at: now))
            json.endObject()
        }
    }

    private func credentials(_ request: ContractRequest) throws -> (EmailAddress, Password) {
        guard let email = try request.body.text("email"), let password = try request.body.text("password"),
            !email.isEmpty, !password.isEmpty
        else { throw Self.malformed("Email and password are required") }
        return (try EmailAddress(email), try Password(password))
    }

    // MARK: answers

    private func session(_ status: Int, _ signedIn: SignedIn) throws -> LocalResponse {
        guard let tokens = signedIn.grant?.tokens, let refresh = tokens.refresh else { throw AccountError.broken }
        return .json(status) { json in
            json.beginObject()
            json.key("user")
            json.beginObject()
            write(signedIn.account, &json)
            json.endObject()
            json.key("tokens")
            json.beginObject()
            json.field("access", tokens.access)
            json.field("refresh", refresh)
            json.endObject()
            json.endObject()
        }
    }

    /// The members of a user. The document's clients cannot read one without an email or a name, so accounts of other
    /// contracts that have none get an empty text.
    private func write(_ account: Account, _ json: inout JSONWriter) {
        json.field("id", account.id.text)
        json.field("email", account.email?.text ?? "")
        json.field("username", account.username?.text ?? account.email?.localPart ?? "")
        json.field("is_premium", services.tiers.isPremium(services.tier(of: account)))
    }

    // MARK: refusals

    func failure(_ error: AccountError, at endpoint: Endpoint) -> Failure {
        switch error {
        case .malformedEmail: Self.malformed("Enter a valid email address.")
        case .malformedUsername: Self.malformed("Enter a valid username.")
        case .unfitPassword(let fault): Self.malformed(fault.djangoSentence)
        case .emailTaken: Self.malformed("User with this email already exists")
        case .invalidCredentials: Failure(401, "UNAUTHORIZED", "Invalid email or password")
        case .invalidRefreshToken, .refreshTokenExpired: Self.malformed("Invalid refresh token")
        case .sessionEnded, .noSuchAccount: Failure(.unauthorized(.revoked), in: Self.dialect)
        case .tooManyAttempts(let seconds): .rateLimited(seconds, in: Self.dialect)
        case .overloaded(let seconds), .unavailable(let seconds): .away(seconds, in: Self.dialect)
        case .broken: Failure(.internalError, in: Self.dialect)
        // What the accounts say of calls that this contract does not make.
        case .malformedPhone, .malformedName, .malformedMetadata, .metadataTooLarge, .malformedActor, .phoneTaken,
            .invalidCode, .invalidResetToken, .providerOff, .identityRefused, .actorNotGranted, .providerUnavailable:
            Failure(.internalError, in: Self.dialect)
        }
    }

    private static func malformed(_ message: String) -> Failure { .malformed(message, in: dialect) }
}
