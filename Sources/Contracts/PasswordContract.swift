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
        var isRefresh: Bool { self == .refresh }

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

    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws(Failure) -> LocalResponse {
        switch endpoint {
        case .register: try await register(request)
        case .login: try await login(request)
        case .refresh: try await refresh(request)
        case .me: try await me(request)
        }
    }

    // MARK: endpoints

    private func register(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let (email, password) = try credentials(request)
        var registration = Registration(email: email, password: password)
        if let name = try request.text("username") {
            registration.username = try parse(try Username(name), orSay: "Enter a valid username.")
        }
        let signedIn = try await call(
            await services.passwords.signUp(registration, rules: .strict, contract: Self.id, caller: request.caller)
        ) { (refusal: SignUpRefusal) in
            switch refusal {
            case .unfitPassword(let faults): Self.malformed(faults.djangoSentence)
            case .emailTaken: Self.malformed("User with this email already exists")
            }
        }
        return try session(201, signedIn)
    }

    private func login(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let (email, password) = try credentials(request)
        let signedIn = try await call(
            await services.passwords.signIn(.email(email), password, contract: Self.id, caller: request.caller)
        ) { (refusal: SignInRefusal) in
            switch refusal {
            case .invalidCredentials: Failure(401, "UNAUTHORIZED", "Invalid email or password")
            }
        }
        return try session(200, signedIn)
    }

    private func refresh(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        guard let token = try request.text("refresh"), !token.isEmpty else {
            throw Self.malformed("Refresh token is required")
        }
        let granted = try await call(
            await services.sessions.refresh(token, contract: Self.id, caller: request.caller)
        ) { (refusal: RefreshTokenRefusal) in
            switch refusal {
            case .invalid, .expired: Self.malformed("Invalid refresh token")
            }
        }
        return .json { json in
            json.beginObject()
            json.field("access", granted.grant.tokens.access)
            json.endObject()
        }
    }

    private func me(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let user = try request.person().user
        guard let account = try await call(await services.accounts.account(user)) else {
            throw Failure(.unauthorized(.revoked), in: Self.dialect)
        }
        let now = services.clock.now().wall
        return .json { json in
            json.beginObject()
            write(account, &json)
            json.field("has_active_subscription", account.entitlement.hasActiveSubscription(at: now))
            json.endObject()
        }
    }

    private func credentials(_ request: ContractRequest) throws(Failure) -> (EmailAddress, Password) {
        guard let email = try request.text("email"), let password = try request.text("password"),
            !email.isEmpty, !password.isEmpty
        else { throw Self.malformed("Email and password are required") }
        let address = try parse(try EmailAddress(email), orSay: "Enter a valid email address.")
        do throws(PasswordFault) { return (address, try Password(password)) } catch { throw Self.malformed(error.djangoSentence) }
    }

    // MARK: responses

    private func session(_ status: Int, _ signedIn: SignedIn) throws(Failure) -> LocalResponse {
        guard let tokens = signedIn.grant?.tokens, let refresh = tokens.refresh else {
            throw Failure(.internalError, in: Self.dialect)
        }
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

    /// The members of a user. The document's clients cannot decode a user without an email or a username, so those are empty
    /// for accounts of other contracts that have none.
    private func write(_ account: Account, _ json: inout JSONWriter) {
        json.field("id", account.id.text)
        json.field("email", account.email?.text ?? "")
        json.field("username", account.username?.text ?? account.email?.localPart ?? "")
        json.field("is_premium", services.tiers.isPremium(services.tier(of: account)))
    }

    private static func malformed(_ message: String) -> Failure { .malformed(message, in: dialect) }
}
