import Accounts
import Credentials
import Gate
import HTTP
import Wire

/// The API of the page at `/web/` beside the `password` contract: the caller's account and its sessions, in that contract's
/// dialect and for accounts of every contract. Only the account of the bearer is shown or changed.
struct WebAccount: AccountCalls {
    static let rows = [
        row("account", .get, "/web/api/account", account), row("sessions", .get, sessionsPath, sessions),
        row("end-session", .delete, sessionsPath, isPrefix: true, endSession), row("sign-out", .post, "/web/api/signout", signOut),
        row("sign-out-everywhere", .post, "/web/api/signout/everywhere", signOutEverywhere),
    ]

    private static let sessionsPath = "/web/api/sessions"

    private static func row(
        _ name: String, _ method: HTTP.Method, _ path: String, isPrefix: Bool = false,
        _ answer: @escaping @Sendable (Self) -> () async throws(Failure) -> LocalResponse
    ) -> CatalogueEndpoint {
        CatalogueEndpoint(
            owner: .page, name: name, dialect: .password, method: method, path: path, isPrefix: isPrefix, auth: .required
        ) { services, request throws(Failure) in
            try await answer(Self(services: services, request: request, session: try request.requiredSession()))()
        }
    }

    fileprivate let services: ContractServices
    fileprivate let request: ContractRequest
    fileprivate let session: CallerSession

    var dialect: Dialect { .password }

    private func endSession() async throws(Failure) -> LocalResponse {
        guard let id = request.id(below: Self.sessionsPath),
            try await call(await services.sessions.end(id, session, caller: request.caller), refused: refusal)
        else { throw Failure(404, "NOT_FOUND", "There is no such session.") }
        return .done
    }

    private func signOut() async throws(Failure) -> LocalResponse {
        try await call(await services.sessions.signOut(session, caller: request.caller))
        return .done
    }

    private func signOutEverywhere() async throws(Failure) -> LocalResponse {
        try await call(await services.sessions.signOutEverywhere(session, caller: request.caller), refused: refusal)
        return .done
    }

    private func account() async throws(Failure) -> LocalResponse {
        guard let account = try await call(await services.accounts.account(session.user)) else {
            throw refusal(.sessionEnded)
        }
        let tier = services.tier(of: account)
        return .json { json in
            json.beginObject()
            json.field("id", account.id.text)
            if let email = account.email { json.field("email", email.text) }
            if let username = account.username { json.field("username", username.text) }
            json.field("tier", services.tiers.name(of: tier))
            json.field("is_premium", services.tiers.isPremium(tier))
            if tier > .lowest, let until = services.grant(of: account)?.until { json.field("tier_until", ISO8601.text(until)) }
            if !account.entitlement.purchased.isEmpty {
                json.array("grants", account.entitlement.grants) { json, grant in
                    json.beginObject()
                    json.field("source", grant.source)
                    json.field("tier", grant.tier)
                    json.optional("until", grant.until.map { ISO8601.text($0) })
                    json.endObject()
                }
            }
            json.endObject()
        }
    }

    private func sessions() async throws(Failure) -> LocalResponse {
        let own = session.session
        let sessions = try await call(await services.sessions.all(session), refused: refusal)
        return .json { json in
            json.beginObject()
            json.array("sessions", sessions) { json, session in
                session.write(isCurrent: session.id == own, &json)
            }
            json.endObject()
        }
    }

    private func refusal(_ refusal: SessionRefusal) -> Failure {
        switch refusal {
        case .sessionEnded: Failure(.unauthorized(.revoked), in: dialect)
        }
    }
}
