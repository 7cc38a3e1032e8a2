import Accounts
import Gate
import HTTP
import Wire

/// The API of the page at `/web/` beside the `password` contract: the caller's account and its sessions, in that contract's
/// dialect and for accounts of every contract. Only the account of the bearer is shown or changed.
struct WebAccount: AccountInterface {
    enum Endpoint: String, AccountEndpoint {
        case account, sessions
        case endSession = "end-session"
        case signOut = "sign-out"
        case signOutEverywhere = "sign-out-everywhere"

        var method: HTTP.Method {
            switch self {
            case .account, .sessions: .get
            case .endSession: .delete
            case .signOut, .signOutEverywhere: .post
            }
        }

        var path: String {
            switch self {
            case .account: "/web/api/account"
            case .sessions, .endSession: "/web/api/sessions"
            case .signOut: "/web/api/signout"
            case .signOutEverywhere: "/web/api/signout/everywhere"
            }
        }

        var isPrefix: Bool { self == .endSession }
        var auth: AuthMode { .required }
    }

    static let name = "web"
    static let contract: ContractID? = nil
    static let dialect = Dialect.password

    private let services: ContractServices

    init(_ services: ContractServices) { self.services = services }

    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws(Failure) -> LocalResponse {
        let session = try request.requiredSession()
        switch endpoint {
        case .account: return try await account(session)
        case .sessions: return try await sessions(session)
        case .endSession:
            guard let id = request.id(below: endpoint.path),
                try await call(await services.sessions.end(id, session, caller: request.caller), refused: Self.refusal)
            else { throw Failure(404, "NOT_FOUND", "There is no such session.") }
        case .signOut: try await call(await services.sessions.signOut(session, caller: request.caller))
        case .signOutEverywhere:
            try await call(await services.sessions.signOutEverywhere(session, caller: request.caller), refused: Self.refusal)
        }
        return Self.done
    }

    private static let done = LocalResponse(status: 204, contentType: "application/json; charset=utf-8", body: [])

    private func account(_ session: CallerSession) async throws(Failure) -> LocalResponse {
        guard let account = try await call(await services.accounts.account(session.user)) else {
            throw Self.refusal(.sessionEnded)
        }
        let tier = services.tier(of: account)
        return .json { json in
            json.beginObject()
            json.field("id", account.id.text)
            if let email = account.email { json.field("email", email.text) }
            if let username = account.username { json.field("username", username.text) }
            json.field("tier", services.tiers.name(of: tier))
            json.field("is_premium", services.tiers.isPremium(tier))
            if tier > .lowest, let until = account.entitlement.until { json.field("tier_until", ISO8601.text(until)) }
            json.endObject()
        }
    }

    private func sessions(_ own: CallerSession) async throws(Failure) -> LocalResponse {
        let sessions = try await call(await services.sessions.all(own), refused: Self.refusal)
        return .json { json in
            json.beginObject()
            json.array("sessions", sessions) { json, session in
                json.beginObject()
                json.field("id", session.id.text)
                json.field("contract", session.contract.name)
                json.optional("device", session.device)
                json.field("created_at", ISO8601.text(session.createdAt))
                json.field("last_used_at", ISO8601.text(session.lastUsedAt))
                json.field("current", session.id == own.session)
                json.endObject()
            }
            json.endObject()
        }
    }

    private static func refusal(_ refusal: SessionRefusal) -> Failure {
        switch refusal {
        case .sessionEnded: Failure(.unauthorized(.revoked), in: dialect)
        }
    }
}
