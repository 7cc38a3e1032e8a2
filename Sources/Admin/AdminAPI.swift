package import Accounts
package import Gate
package import HTTP
package import Telemetry
package import Wire

/// The settings in force that the admin API depends on.
package struct AdminPlan: Sendable {
    package var tiers: TierList
    /// Seconds that a tier stays in force beyond its end.
    package var tierGraceSeconds: Int64
    /// The names of the trust lines.
    package var issuers: [SubjectIssuer]

    package init(tiers: TierList, tierGraceSeconds: Int64, issuers: [SubjectIssuer] = []) {
        self.tiers = tiers
        self.tierGraceSeconds = tierGraceSeconds
        self.issuers = issuers
    }
}

/// The admin API: accounts, sessions and routes for the operator's programs, JSON below `/admin/api/`.
///
/// Every request needs the admin token as its bearer. Wrong tokens are limited by address. A change counts on this gateway at
/// once, and on others as soon as they read the change log.
package struct AdminAPI: Sendable {
    static let path = "/admin/api/"

    let token: @Sendable () -> AdminToken?
    let directory: AccountDirectory
    let administration: Administration
    let limiter: any AttemptLimiter
    /// The newest refusals: those of one request if its id is given, and at most the given number.
    let refusals: @Sendable (String?, Int) async -> [ExplainedRefusal]
    let upstreams: @Sendable () async -> [UpstreamStatus]
    let controls: AdminControls
    /// Writes the routes as members of an open object.
    let writeRoutes: @Sendable (inout JSONWriter) -> Void
    let plan: @Sendable () -> AdminPlan
    let now: @Sendable () -> WallTime

    package init(
        token: @escaping @Sendable () -> AdminToken?, directory: AccountDirectory, administration: Administration,
        limiter: any AttemptLimiter, refusals: @escaping @Sendable (String?, Int) async -> [ExplainedRefusal],
        upstreams: @escaping @Sendable () async -> [UpstreamStatus], controls: AdminControls,
        writeRoutes: @escaping @Sendable (inout JSONWriter) -> Void, plan: @escaping @Sendable () -> AdminPlan,
        now: @escaping @Sendable () -> WallTime
    ) {
        self.token = token
        self.directory = directory
        self.administration = administration
        self.limiter = limiter
        self.refusals = refusals
        self.upstreams = upstreams
        self.controls = controls
        self.writeRoutes = writeRoutes
        self.plan = plan
        self.now = now
    }

    package func answer(_ request: LocalRequest) async -> LocalResponse {
        do {
            try await authenticate(request)
            return try await answer(request, Array(request.path.dropFirst(Self.path.count).split(separator: "/").map(String.init)))
        } catch let refusal as AdminRefusal {
            return refusal.response(request.requestID)
        } catch let fault as RequestObject.Fault {
            return AdminRefusal(400, "BAD_REQUEST", fault.message).response(request.requestID)
        } catch let fault as SubjectName.Fault {
            return AdminRefusal(400, "BAD_REQUEST", fault.message).response(request.requestID)
        } catch let fault as TierChoice.Fault {
            return AdminRefusal(400, "BAD_REQUEST", fault.message(end: "until")).response(request.requestID)
        } catch let error as AccountError<AdministrationRefusal> {
            return AdminRefusal(error).response(request.requestID)
        } catch let failure as AccountFailure {
            return AdminRefusal(failure).response(request.requestID)
        } catch {
            return AdminRefusal(500, "INTERNAL_ERROR", "The gateway failed").response(request.requestID)
        }
    }

    private func authenticate(_ request: LocalRequest) async throws {
        // The token is checked before the limit, so that guesses cannot lock the operator out.
        let words = (request.value(of: "authorization") ?? "").split(separator: " ")
        guard words.count == 2, words[0].lowercased() == "bearer" else {
            throw AdminRefusal.unauthorized("The admin API needs the admin token: Authorization: Bearer TOKEN")
        }
        if token()?.matches(words[1]) == true { return }
        switch await limiter.charge([AttemptBucket(.adminFailures, request.client)]) {
        case .admitted: throw AdminRefusal.unauthorized("This is not the admin token")
        case .refused(let refusals):
            let seconds = refusals.map(\.retryAfterSeconds).max() ?? 1
            throw AdminRefusal(429, "RATE_LIMITED", "Too many wrong tokens came from this address", [("Retry-After", "\(seconds)")])
        }
    }

    private func answer(_ request: LocalRequest, _ segments: [String]) async throws -> LocalResponse {
        let method = request.method == "HEAD" ? "GET" : request.method
        switch (segments.first, segments.count) {
        case ("users", 1):
            try allow(["GET"], method)
            return try await users(request)
        case ("users", 2):
            try allow(["GET", "DELETE"], method)
            let account = try await account(segments[1])
            return method == "GET" ? try await show(account) : try await delete(account)
        case ("users", 3) where segments[2] == "tier":
            try allow(["PUT"], method)
            return try await setTier(segments[1], request.body)
        case ("users", 3) where segments[2] == "tier-cache":
            try allow(["DELETE"], method)
            return try await forgetTier(segments[1])
        case ("users", 3) where segments[2] == "revoke":
            try allow(["POST"], method)
            return try await revoke(try await account(segments[1]))
        case ("sessions", 2):
            try allow(["DELETE"], method)
            return try await revokeSession(segments[1])
        case ("routes", 1):
            try allow(["GET"], method)
            return .json(200) { json in
                json.beginObject()
                writeRoutes(&json)
                json.endObject()
            }
        case ("upstreams", 1):
            try allow(["GET"], method)
            return await showUpstreams()
        case ("audit", 1):
            try allow(["GET"], method)
            return try await audit(AdminQuery(request.query, knows: ["user", "before", "limit"]))
        case ("keys", 1):
            try allow(["GET"], method)
            return showKeys()
        case ("keys", 2) where segments[1] == "rotate":
            try allow(["POST"], method)
            return try await rotateKeys()
        case ("limits", 1):
            try allow(["GET"], method)
            return await showLimits()
        case ("configuration", 1):
            try allow(["GET"], method)
            return showConfiguration()
        case ("decisions", 1):
            try allow(["GET"], method)
            return try await decisions(AdminQuery(request.query, knows: ["request_id", "limit"]))
        default: throw AdminRefusal(404, "NOT_FOUND", "The admin API has no \(request.path)")
        }
    }

    private func allow(_ methods: [String], _ method: String) throws(AdminRefusal) {
        guard !methods.contains(method) else { return }
        throw AdminRefusal(405, "METHOD_NOT_ALLOWED", "The method is not allowed here", [("Allow", methods.joined(separator: ", "))])
    }

    // MARK: users

    private func users(_ request: LocalRequest) async throws -> LocalResponse {
        let query = try AdminQuery(request.query, knows: ["email", "search", "after", "limit"])
        if let text = query["search"] { return try await search(text) }
        let found: [Account]
        if let text = query["email"] {
            found = try await directory.account(email: try email(text)).map { [$0] } ?? []
        } else {
            found = try await directory.accounts(after: try after(query["after"]), limit: try query.limit())
        }
        return .json(200) { json in
            json.beginObject()
            json.array("users", found) { json, account in
                json.beginObject()
                answer(account).write(&json)
                json.endObject()
            }
            json.endObject()
        }
    }

    private func email(_ text: String) throws(AdminRefusal) -> EmailAddress {
        do throws(MalformedText) {
            return try EmailAddress(text)
        } catch {
            throw AdminRefusal(400, "BAD_REQUEST", "email is no email address")
        }
    }

    private func after(_ text: String?) throws(AdminRefusal) -> UUID? {
        guard let text else { return nil }
        guard let id = UUID(parsing: text) else { throw AdminRefusal(400, "BAD_REQUEST", "after must be the id of a user") }
        return id
    }

    /// A user of an outside issuer, as a segment of the path names it; nil for an id.
    private func subject(_ segment: String) throws -> SubjectName? {
        guard let bytes = PercentEncoding.decode(segment.utf8), let text = String(validating: bytes, as: UTF8.self) else {
            throw AdminRefusal(400, "BAD_REQUEST", "The user is not percent-encoded UTF-8")
        }
        return try SubjectName(text, issuers: plan().issuers)
    }

    func account(_ text: String) async throws -> Account {
        if let subject = try subject(text) {
            if let account = try await directory.account(of: subject.key, orID: subject.mayBeID) { return account }
            throw AdminRefusal(404, "NOT_FOUND", "There is no account of \(subject.text)")
        }
        if let id = UUID(parsing: text), let account = try await directory.account(id) { return account }
        throw AdminRefusal(404, "NOT_FOUND", "There is no user with this id")
    }

    func answer(_ account: Account) -> AccountView {
        let plan = plan()
        return AccountView(
            account, tiers: plan.tiers, graceSeconds: plan.tierGraceSeconds, now: now())
    }

    private func show(_ account: Account) async throws -> LocalResponse {
        let details = try await AccountDetails(of: account, directory)
        return .json(200) { json in
            json.beginObject()
            answer(account).write(&json)
            details.write(&json)
            json.endObject()
        }
    }

    private func delete(_ account: Account) async throws -> LocalResponse {
        let count = try await administration.delete(account.id)
        return Self.ended(account, count, isDeleted: true)
    }

    private func revoke(_ account: Account) async throws -> LocalResponse {
        Self.ended(account, try await administration.revoke(account.id), isDeleted: false)
    }

    private static func ended(_ account: Account, _ count: Int, isDeleted: Bool) -> LocalResponse {
        .json(200) { json in
            json.beginObject()
            json.field("id", account.id.text)
            json.field("deleted", isDeleted)
            json.field("sessions_ended", count)
            json.endObject()
        }
    }

    private func setTier(_ user: String, _ body: [UInt8]) async throws -> LocalResponse {
        let subject = try subject(user)
        // The user first: a wrong one is 404, whatever the body.
        let account = subject == nil ? try await account(user) : nil
        let body = try RequestObject(body)
        guard let name = try body.text("tier") else { throw AdminRefusal(400, "BAD_REQUEST", "tier is required") }
        let choice = try TierChoice(name, until: try body.text("until"))
        let kept = try choice.kept(plan().tiers, now: now())
        let changed: Account
        if let subject {
            changed = try await administration.setTier(kept, until: choice.until, of: subject.key, orID: subject.mayBeID)
        } else if var account {
            account.entitlement = try await administration.setTier(kept, until: choice.until, of: account.id)
            changed = account
        } else {
            throw AdminRefusal(404, "NOT_FOUND", "There is no user with this id")
        }
        return .json(200) { json in
            json.beginObject()
            answer(changed).write(&json)
            json.endObject()
        }
    }

    /// Has every gateway ask for the tier of an outside issuer's user again.
    private func forgetTier(_ user: String) async throws -> LocalResponse {
        guard let subject = try subject(user) else {
            throw AdminRefusal(404, "NOT_FOUND", "Only the tiers of outside issuers' users are cached: name one as NAME:SUBJECT")
        }
        try await administration.forgetTier(of: subject.key)
        return .json(200) { json in
            json.beginObject()
            json.field("user", subject.text)
            json.field("forgotten", true)
            json.endObject()
        }
    }

    // MARK: decisions

    private func decisions(_ query: AdminQuery) async throws -> LocalResponse {
        let stories = await refusals(query["request_id"], try query.limit())
        return .json(200) { json in
            json.beginObject()
            json.array("decisions", stories) { json, story in
                json.beginObject()
                story.write(&json)
                json.endObject()
            }
            json.endObject()
        }
    }

    // MARK: sessions

    private func revokeSession(_ text: String) async throws -> LocalResponse {
        guard let id = UUID(parsing: text), try await administration.revoke(session: id) else {
            throw AdminRefusal(404, "NOT_FOUND", "There is no session with this id")
        }
        return .json(200) { json in
            json.beginObject()
            json.field("id", id.text)
            json.field("ended", true)
            json.endObject()
        }
    }
}

/// An error response of the admin API.
struct AdminRefusal: Error {
    let status: UInt16
    let code: String
    let message: String
    var fields: [(name: String, value: String)] = []

    init(_ status: UInt16, _ code: String, _ message: String, _ fields: [(String, String)] = []) {
        self.status = status
        self.code = code
        self.message = message
        self.fields = fields.map { (name: $0.0, value: $0.1) }
    }

    static func unauthorized(_ message: String) -> AdminRefusal {
        AdminRefusal(401, "UNAUTHORIZED", message, [("WWW-Authenticate", "Bearer realm=\"tollgate-admin\"")])
    }

    init(_ error: AccountError<AdministrationRefusal>) {
        switch error {
        case .refused(.noSuchAccount): self.init(404, "NOT_FOUND", "There is no user with this id")
        case .failed(let failure): self.init(failure)
        }
    }

    init(_ failure: AccountFailure) {
        switch failure {
        case .overloaded(let seconds), .unavailable(let seconds):
            self.init(503, "UNAVAILABLE", "The accounts do not answer now", [("Retry-After", "\(seconds)")])
        case .broken, .tooManyAttempts: self.init(500, "INTERNAL_ERROR", "The accounts failed")
        }
    }

    func response(_ requestID: String) -> LocalResponse {
        var body = ByteBuffer()
        let (code, message, id) = (Array(code.utf8), Array(message.utf8), Array(requestID.utf8))
        Dialect.password.writeBody(
            status: status, code: code.rawBytes, message: message.rawBytes, requestID: id.rawBytes, upgradeURL: nil, into: &body)
        return LocalResponse(
            status: Int(status), contentType: Dialect.password.contentType.description, body: body.readable.array, fields: fields)
    }
}

/// The parameters of a query, percent-decoded. A `+` is a plus sign, because email addresses have them.
///
/// Unknown, repeated or undecodable parameters are refused: ignoring a filter would return more than was asked for.
struct AdminQuery {
    private var values: [String: String] = [:]

    /// `query` is empty or begins with its question mark.
    init(_ query: String, knows names: [String]) throws(AdminRefusal) {
        for pair in query.dropFirst().split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decoded(parts[0]) else { throw Self.bad("The query is not percent-encoded UTF-8") }
            guard names.contains(name) else {
                throw Self.bad("There is no parameter \(name) here, use \(alternatives(names))")
            }
            guard let value = Self.decoded(parts.count > 1 ? parts[1] : "") else {
                throw Self.bad("\(name) is not percent-encoded UTF-8")
            }
            guard values.updateValue(value, forKey: name) == nil else { throw Self.bad("\(name) is given twice") }
        }
    }

    private static func bad(_ message: String) -> AdminRefusal { AdminRefusal(400, "BAD_REQUEST", message) }

    subscript(_ name: String) -> String? { values[name] }

    private static let largestPage = 1_000

    /// The parameter `limit`: the largest number of elements in a list, from 1 to 1,000; 100 by default.
    func limit() throws(AdminRefusal) -> Int {
        guard let text = self["limit"] else { return 100 }
        guard let limit = Int(text), (1...Self.largestPage).contains(limit) else {
            throw AdminRefusal(400, "BAD_REQUEST", "limit must be a number from 1 to \(Self.largestPage)")
        }
        return limit
    }

    private static func decoded(_ text: Substring) -> String? {
        PercentEncoding.decode(text.utf8).flatMap { String(validating: $0, as: UTF8.self) }
    }
}
