internal import Accounts
internal import Credentials
internal import HTTP
internal import Wire

extension AdminOperation {
    /// Sign-in to the console.
    static let console = [
        AdminOperation(
            "POST", "session", "signIn", "Signs in to the console: sets its cookie, which counts like the admin token for twelve hours",
            access: .open, body: .object([.has("token", .text, "The admin token")]), success: .nothing
        ) { api, call in try await api.signIn(call.request) },
        AdminOperation(
            "GET", "session", "getSession", "Until when the console's cookie is good", access: .open,
            answers: Record([.has("expires_at") { $0 }]).shape
        ) { api, call in try api.showSession(call.request) },
        AdminOperation("DELETE", "session", "signOut", "Removes the console's cookie", access: .open, success: .nothing) { api, call in
            try api.signOut(call.request)
        },
    ]
}

extension AdminAPI {
    /// The end of the session whose cookie the request has; nil without a good one.
    private func session(_ request: LocalRequest) -> WallTime? {
        guard let token = token() else { return nil }
        let (session, now) = (ConsoleSession(token), now())
        return session.values(in: request.fields).lazy.compactMap { session.end(of: $0, now: now) }.first
    }

    /// The token of `Authorization: Bearer` (RFC 6750 §2.1), empty if the field is malformed; nil with another scheme: a proxy's own
    /// sign-in, such as Basic, is no proof here and does not outrank the cookie.
    private static func bearer(_ request: LocalRequest) -> Substring? {
        guard let words = request.value(of: "authorization")?.split(separator: " "), words.first?.lowercased() == "bearer" else {
            return nil
        }
        return words.count == 2 ? words[1] : ""
    }

    /// The caller's proof: a token as the bearer, else the console's cookie.
    func authenticate(_ request: LocalRequest) async throws -> AdminActor {
        if let bearer = Self.bearer(request) {
            guard !bearer.isEmpty else {
                throw AdminRefusal.unauthorized("The admin API needs the admin token: Authorization: Bearer TOKEN")
            }
            return try await check(bearer, request.client)
        }
        guard session(request) != nil else {
            throw AdminRefusal.unauthorized("The admin API needs the admin token: Authorization: Bearer TOKEN")
        }
        if request.method != "GET" && request.method != "HEAD" { _ = try ownOrigin(request) }
        return .console
    }

    /// Whether the request still proves that `actor` sent it: other tokens or scopes may be in force now, or the cookie's time over.
    func proves(_ request: LocalRequest, _ actor: AdminActor) -> Bool {
        guard let bearer = Self.bearer(request) else { return session(request) != nil }
        return self.actor(bearer) == actor
    }

    /// The holder of a presented token; nil if it is none of those in force.
    private func actor(_ presented: some StringProtocol) -> AdminActor? {
        if token()?.matches(presented) == true { return .token }
        return scopedTokens().first { $0.matches(presented) }.map(AdminActor.scoped)
    }

    /// Checks a presented token. Before the limit, so that guesses cannot lock the operator out.
    private func check(_ presented: some StringProtocol, _ client: IPAddress) async throws -> AdminActor {
        if let actor = actor(presented) { return actor }
        switch await limiter.charge([AttemptBucket(.adminFailures, client)]) {
        case .admitted: throw AdminRefusal.unauthorized("This is not the admin token")
        case .refused(let refusals):
            let seconds = refusals.map(\.retryAfterSeconds).max() ?? 1
            throw AdminRefusal(429, "RATE_LIMITED", "Too many wrong tokens came from this address", [("Retry-After", "\(seconds)")])
        }
    }

    /// Throws unless a page of the console itself sent the request; returns whether it was loaded over TLS.
    private func ownOrigin(_ request: LocalRequest) throws(AdminRefusal) -> Bool {
        switch RequestOrigin(of: request) {
        case .own(let isSecure): return isSecure
        case .foreign:
            throw AdminRefusal(
                403, "FORBIDDEN_ORIGIN", "A page of another origin sent this, open the console under the name that it is asked by")
        case .missing:
            throw AdminRefusal(403, "FORBIDDEN_ORIGIN", "Origin is missing: programs use Authorization: Bearer TOKEN instead of the cookie")
        }
    }

    fileprivate func signIn(_ request: LocalRequest) async throws -> LocalResponse {
        let isSecure = try ownOrigin(request)
        guard let presented = try RequestObject(request.body).text("token") else {
            throw AdminRefusal(400, "BAD_REQUEST", "token is required")
        }
        if case .scoped(let token) = try await check(presented, request.client) {
            throw AdminRefusal(403, "FORBIDDEN", "The console needs the admin token, the token \(token.name) is for programs alone")
        }
        guard let token = token() else { throw AdminRefusal.unauthorized("This is not the admin token") }
        let end = WallTime(seconds: now().seconds + ConsoleSession.seconds)
        let session = ConsoleSession(token)
        return Self.setting(session.cookie(session.value(until: end), isSecure: isSecure))
    }

    fileprivate func showSession(_ request: LocalRequest) throws(AdminRefusal) -> WallTime {
        guard let end = session(request) else {
            throw AdminRefusal.unauthorized("The console's cookie is missing, too old, or of another admin token")
        }
        return end
    }

    fileprivate func signOut(_ request: LocalRequest) throws(AdminRefusal) -> LocalResponse {
        let isSecure = try ownOrigin(request)
        guard let token = token() else { throw AdminRefusal.unauthorized("There is no admin token, so no session either") }
        return Self.setting(ConsoleSession(token).cookie("", isSecure: isSecure))
    }

    private static func setting(_ cookie: String) -> LocalResponse {
        LocalResponse(status: 204, contentType: "application/json; charset=utf-8", body: [], fields: [("Set-Cookie", cookie)])
    }
}
