package import Accounts
package import Credentials
package import Gate
package import HTTP
package import Wire

/// The settings in force that the admin API depends on.
package struct AdminPlan: Sendable {
    package var tiers: TierList
    /// Seconds that a tier stays in force beyond its end.
    package var tierGraceSeconds: Int64
    /// The names of the trust lines.
    package var issuers: [SubjectIssuer]
    /// The tokens beside the admin token.
    package var scopedTokens: [ScopedToken]

    package init(tiers: TierList, tierGraceSeconds: Int64, issuers: [SubjectIssuer] = [], scopedTokens: [ScopedToken] = []) {
        self.tiers = tiers
        self.tierGraceSeconds = tierGraceSeconds
        self.issuers = issuers
        self.scopedTokens = scopedTokens
    }
}

/// The admin API: accounts, sessions and routes for the operator's programs, JSON below `/admin/api/`.
///
/// Every request needs the admin token as its bearer, one with the operation's scope, or the console's cookie. Wrong tokens are
/// limited by address. A change counts on this gateway at once, and on others as soon as they read the change log.
package struct AdminAPI: Sendable {
    static let path = "/admin/api/"

    let token: @Sendable () -> AdminToken?
    let directory: AccountDirectory
    private(set) var administration: Administration
    let limiter: any AttemptLimiter
    let gateway: AdminGateway
    let live: LiveFeed
    let plan: @Sendable () -> AdminPlan
    let now: @Sendable () -> WallTime

    package init(
        token: @escaping @Sendable () -> AdminToken?, directory: AccountDirectory, administration: Administration,
        limiter: any AttemptLimiter, gateway: AdminGateway, plan: @escaping @Sendable () -> AdminPlan,
        now: @escaping @Sendable () -> WallTime
    ) {
        self.token = token
        self.directory = directory
        self.administration = administration
        self.limiter = limiter
        self.gateway = gateway
        self.plan = plan
        self.now = now
        live = LiveFeed(gateway)
    }

    package func answer(_ request: LocalRequest) async -> LocalResponse {
        do {
            return try await perform(request)
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

    /// Proof first, so that a stranger cannot tell which paths there are.
    private func perform(_ request: LocalRequest) async throws -> LocalResponse {
        let found = Result { () throws(AdminRefusal) in try AdminOperation.find(request) }
        var actor = AdminActor.none
        switch found {
        case .success(let match) where match.operation.access == .open: break
        case .success, .failure: actor = try await authenticate(request)
        }
        let (operation, arguments) = try found.get()
        try actor.mayUse(operation)
        let query = try AdminQuery(request.query, knows: operation.query.map(\.name))
        var api = self
        if let author = actor.author { api.administration.actor = author }
        return try await operation.run(api, AdminCall(request: request, arguments: arguments, query: query, actor: actor))
    }

    // MARK: users

    func users(_ query: AdminQuery) async throws -> LocalResponse {
        if let text = query["search"] {
            for name in ["email", "after", "limit"] where query[name] != nil {
                throw AdminRefusal(400, "BAD_REQUEST", "\(name) does not go with search, which answers at most 50 accounts at once")
            }
            return try await search(text)
        }
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

    func show(_ account: Account) async throws -> LocalResponse {
        let details = try await AccountDetails(of: account, directory)
        return .json(200) { json in
            json.beginObject()
            answer(account).write(&json)
            details.write(&json)
            json.endObject()
        }
    }

    func delete(_ account: Account) async throws -> LocalResponse {
        let count = try await administration.delete(account.id)
        return Self.ended(account, count, isDeleted: true)
    }

    func revoke(_ account: Account) async throws -> LocalResponse {
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

    func setTier(_ user: String, _ body: [UInt8]) async throws -> LocalResponse {
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
    func forgetTier(_ user: String) async throws -> LocalResponse {
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

    // MARK: sessions

    func revokeSession(_ text: String) async throws -> LocalResponse {
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
