import Accounts
import Gate
import HTTP
import Wire

/// The `anonymous` contract: an account without a person, to which an email may be joined by a code.
struct AnonymousContract: ClientContract {
    enum Endpoint: String, AccountEndpoint {
        case user
        case emailCode = "email-code"
        case emailVerify = "email-verify"
        case refresh
        case accessToken = "access-token"

        var method: HTTP.Method { .post }

        var path: String {
            switch self {
            case .user: "/auth/user"
            case .emailCode: "/auth/email/code"
            case .emailVerify: "/auth/email/verify"
            case .refresh: "/auth/refresh"
            case .accessToken: "/auth/access-token"
            }
        }

        var auth: AuthMode {
            switch self {
            case .user, .refresh: .none
            case .emailCode, .emailVerify: .optional
            case .accessToken: .required
            }
        }
    }

    static let id = ContractID.anonymous
    static let dialect = Dialect.anonymous

    private let services: ContractServices

    init(_ services: ContractServices) { self.services = services }

    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws -> LocalResponse {
        switch endpoint {
        case .user: tokens(try await services.anonymous.open(contract: Self.id, caller: request.caller))
        case .emailCode: try await sendCode(request)
        case .emailVerify: try await verifyCode(request)
        case .refresh: try await refresh(request)
        case .accessToken: try await actorToken(request)
        }
    }

    // MARK: endpoints

    /// For anybody: the code binds to the email, and who asked for it does not count.
    private func sendCode(_ request: ContractRequest) async throws -> LocalResponse {
        _ = try request.session(in: Self.dialect)
        let email = try EmailAddress(required("email", of: request))
        try await services.codes.send(.link, to: .email(email), .anyone, caller: request.caller)
        return .json { json in
            json.beginObject()
            json.field("success", true)
            json.field("message", "Code sent to email")
            json.field("expiresIn", Int(PendingCode.lifetimeSeconds))
            json.endObject()
        }
    }

    private func verifyCode(_ request: ContractRequest) async throws -> LocalResponse {
        let session = try request.session(in: Self.dialect)
        let email = try EmailAddress(required("email", of: request))
        let code = try required("code", of: request)
        let granted = try await services.codes.verify(
            code, .link, of: .email(email), for: session.map { .link(caller: $0.user) } ?? .signIn(caller: nil),
            contract: Self.id, session: session, caller: request.caller)
        return .json { json in
            json.beginObject()
            json.field("success", true)
            write(granted, &json)
            json.key("user")
            write(granted.account, &json)
            json.endObject()
        }
    }

    private func refresh(_ request: ContractRequest) async throws -> LocalResponse {
        let token = try required("refreshToken", of: request)
        return tokens(try await services.sessions.refresh(token, contract: Self.id, caller: request.caller))
    }

    private func actorToken(_ request: ContractRequest) async throws -> LocalResponse {
        let session = try request.requiredSession(in: Self.dialect)
        let actor = try ActorName(type: required("actorType", of: request), id: required("actorId", of: request))
        let token = try await services.sessions.actorToken(actor, caller: session)
        return .json { json in
            json.beginObject()
            json.field("accessToken", token)
            json.endObject()
        }
    }

    private func required(_ name: String, of request: ContractRequest) throws -> String {
        guard let text = try request.body.text(name), !text.isEmpty else {
            throw Failure.malformed("\(name) is required", in: Self.dialect)
        }
        return text
    }

    // MARK: answers

    private func tokens(_ granted: Sessions.Granted) -> LocalResponse {
        .json { json in
            json.beginObject()
            write(granted, &json)
            json.endObject()
        }
    }

    private func write(_ granted: Sessions.Granted, _ json: inout JSONWriter) {
        json.field("userId", granted.account.id.text)
        json.field("sessionToken", granted.grant.tokens.access)
        // A caller of another contract may have a session without one; the document's clients keep what they have then.
        if let refresh = granted.grant.tokens.refresh { json.field("refreshToken", refresh) }
    }

    private func write(_ account: Account, _ json: inout JSONWriter) {
        json.beginObject()
        json.field("id", account.id.text)
        json.key("email")
        if let email = account.email { json.string(email.text) } else { json.null() }
        json.field("createdAt", ISO8601.text(account.createdAt))
        json.endObject()
    }

    // MARK: refusals

    func failure(_ error: AccountError, at endpoint: Endpoint) -> Failure {
        switch error {
        case .malformedEmail: .malformed("email is no email address", in: Self.dialect)
        case .malformedActor: .malformed("actorType and actorId must be short plain texts", in: Self.dialect)
        case .invalidCode: Failure(401, "INVALID_CODE", "The code is wrong, spent or expired")
        case .noSuchAccount: Failure(401, "UNAUTHORIZED", "No account has this email")
        case .invalidRefreshToken, .refreshTokenExpired:
            Failure(401, "INVALID_REFRESH_TOKEN", "Refresh token is invalid or expired")
        case .sessionEnded: Failure(.unauthorized(.revoked), in: Self.dialect)
        case .actorNotGranted: Failure(.forbidden(.claims), in: Self.dialect)
        case .tooManyAttempts(let seconds): .rateLimited(seconds, in: Self.dialect)
        case .overloaded(let seconds), .unavailable(let seconds): .away(seconds, in: Self.dialect)
        case .broken: Failure(.internalError, in: Self.dialect)
        // What the accounts say of calls that this contract does not make.
        case .malformedPhone, .malformedUsername, .malformedName, .malformedMetadata, .metadataTooLarge, .unfitPassword,
            .emailTaken, .phoneTaken, .invalidCredentials, .invalidResetToken, .providerOff, .identityRefused,
            .providerUnavailable:
            Failure(.internalError, in: Self.dialect)
        }
    }
}
