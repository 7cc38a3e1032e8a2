import Accounts
import Gate
import HTTP
import Wire

/// The `anonymous` contract: accounts without a known user, to which a code can add an email.
struct AnonymousContract: ClientContract {
    enum Endpoint: String, AccountEndpoint {
        case user
        case emailCode = "email-code"
        case emailVerify = "email-verify"
        case refresh
        case accessToken = "access-token"

        var method: HTTP.Method { .post }
        var isRefresh: Bool { self == .refresh || self == .accessToken }

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

    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws(Failure) -> LocalResponse {
        switch endpoint {
        case .user: tokens(try await call(await services.anonymous.open(contract: Self.id, caller: request.caller)))
        case .emailCode: try await sendCode(request)
        case .emailVerify: try await verifyCode(request)
        case .refresh: try await refresh(request)
        case .accessToken: try await actorToken(request)
        }
    }

    // MARK: endpoints

    /// Open to any caller: the code belongs to the email, not to its requester.
    private func sendCode(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        _ = try request.session()
        let email = try email(of: request)
        try await call(await services.codes.send(.link, to: .email(email), .anyone, caller: request.caller))
        return .json { json in
            json.beginObject()
            json.field("success", true)
            json.field("message", "Code sent to email")
            json.field("expiresIn", Int(PendingCode.lifetimeSeconds))
            json.endObject()
        }
    }

    private func verifyCode(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let session = try request.session()
        let email = try email(of: request)
        let code = try required("code", of: request)
        let granted = try await call(
            await services.codes.verify(
                code, .link, of: .email(email), for: session.map { .link(caller: $0.user) } ?? .signIn(caller: nil),
                contract: Self.id, session: session, caller: request.caller)
        ) { (refusal: CodeRefusal) in
            switch refusal {
            case .invalidCode: Failure(401, "INVALID_CODE", "The code is wrong, spent or expired")
            case .contact(.noAccount): Failure(401, "UNAUTHORIZED", "No account has this email")
            case .contact(.taken): Failure(401, "UNAUTHORIZED", "Another account has this email")
            case .contact(.callerGone): Failure(.unauthorized(.revoked), in: Self.dialect)
            }
        }
        return .json { json in
            json.beginObject()
            json.field("success", true)
            write(granted, &json)
            json.key("user")
            write(granted.account, &json)
            json.endObject()
        }
    }

    private func refresh(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let token = try required("refreshToken", of: request)
        return tokens(
            try await call(await services.sessions.refresh(token, contract: Self.id, caller: request.caller)) {
                (refusal: RefreshTokenRefusal) in
                switch refusal {
                case .invalid, .expired: Failure(401, "INVALID_REFRESH_TOKEN", "Refresh token is invalid or expired")
                }
            })
    }

    private func actorToken(_ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let session = try request.requiredSession()
        let (type, id) = (try required("actorType", of: request), try required("actorId", of: request))
        let actor = try parse(try ActorName(type: type, id: id), orSay: "actorType and actorId must be short plain texts")
        let token = try await call(await services.sessions.actorToken(actor, caller: session)) { (refusal: ActorTokenRefusal) in
            switch refusal {
            case .sessionEnded: Failure(.unauthorized(.revoked), in: Self.dialect)
            case .notGranted: Failure(.forbidden(.claims), in: Self.dialect)
            }
        }
        return .json { json in
            json.beginObject()
            json.field("accessToken", token)
            json.endObject()
        }
    }

    private func email(of request: ContractRequest) throws(Failure) -> EmailAddress {
        let text = try required("email", of: request)
        return try parse(try EmailAddress(text), orSay: "email is no email address")
    }

    private func required(_ name: String, of request: ContractRequest) throws(Failure) -> String {
        guard let text = try request.text(name), !text.isEmpty else {
            throw .malformed("\(name) is required", in: Self.dialect)
        }
        return text
    }

    // MARK: responses

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
        // A session of another contract may have none; clients then keep the token they hold.
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
}
