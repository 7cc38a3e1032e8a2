internal import Accounts
internal import Credentials
internal import HTTP
internal import Wire

extension AdminOperation {
    static let page = Parameter("limit", "At most so many", .range(1...1_000))

    private static func attributes(_ method: String, _ id: String, _ about: String, merges: Bool) -> AdminOperation {
        AdminOperation(
            method, "users/{id}/attributes", id, about, access: .scope(.usersWrite), body: .object([.has("attributes", .map(.anything))]),
            answers: SetAttributes.shape, refusals: [404]
        ) { api, call in
            // The user first: a wrong one is 404, whatever the body.
            let user = try await api.operator.account(try call.user).id.text
            guard let json = try RequestObject(call.request.body).json("attributes") else {
                throw AdminRefusal(400, "BAD_REQUEST", "attributes is required, as an object")
            }
            return try await api.operator.setAttributes(json, merges: merges, of: user)
        }
    }

    /// Accounts, their sessions and the audit log.
    static let accounts = [
        AdminOperation(
            "GET", "users", "listUsers", "The account with an email, or all accounts page by page", access: .scope(.usersRead),
            query: [
                Parameter("email", "Exactly this email"),
                Parameter("search", "A part of an email, phone, username or name, or an id; at most 50 accounts"),
                Parameter("after", "The id of the last account of the page before", .id), page,
            ], answers: UserList.shape
        ) { api, call in try await api.users(call.query) },
        AdminOperation(
            "GET", "users/{id}", "getUser", "One account with identities, passkeys, actors, sessions, metadata and attributes",
            access: .scope(.usersRead),
            answers: AccountDetails.shape, refusals: [404]
        ) { api, call in try await api.operator.details(try call.user) },
        AdminOperation(
            "DELETE", "users/{id}", "deleteUser", "Ends all sessions of an account and deletes it", access: .scope(.delete),
            answers: EndedAccount.shape, refusals: [404]
        ) { api, call in try await api.operator.delete(try call.user) },
        AdminOperation(
            "PUT", "users/{id}/tier", "setTier", "Sets the tier, without an end or until a time", access: .scope(.tier),
            body: .object([.has("tier", .tier), .may("until", .nullable(.time))]), answers: AccountView.shape, refusals: [404]
        ) { api, call in
            // The user first: a wrong one is 404, whatever the body.
            let named = try await api.operator.named(try call.user)
            let body = try RequestObject(call.request.body)
            guard let name = try body.text("tier") else { throw AdminRefusal(400, "BAD_REQUEST", "tier is required") }
            return try await api.operator.setTier(try TierChoice(name, until: try body.text("until")), of: named)
        },
        attributes(
            "PUT", "setAttributes", "Replaces the attributes of an account, at most \(Attributes.largest) bytes", merges: false),
        attributes("PATCH", "changeAttributes", "Replaces attributes of the same names; null removes one", merges: true),
        AdminOperation(
            "DELETE", "users/{id}/tier-cache", "forgetTier", "Has every gateway ask for the tier of an outside issuer's user again",
            access: .scope(.tier), answers: ForgottenTier.shape, refusals: [404]
        ) { api, call in try await api.operator.forgetTier(try call.user) },
        AdminOperation(
            "POST", "users/{id}/revoke", "revokeUser", "Ends all sessions of an account", access: .scope(.sessions),
            answers: EndedAccount.shape, refusals: [404]
        ) { api, call in try await api.operator.revoke(try call.user) },
        AdminOperation(
            "PUT", "users/{id}/ban", "banUser", "Bans an account, for good or until a time, and ends all its sessions",
            access: .scope(.usersWrite), body: .object([.may("until", .nullable(.time)), .may("reason", .nullable(.text))]),
            answers: ChangedBan.shape, refusals: [404]
        ) { api, call in
            // The user first: a wrong one is 404, whatever the body.
            _ = try await api.operator.account(try call.user)
            let body = call.request.body.isEmpty ? .empty : try RequestObject(call.request.body)
            return try await api.operator.ban(
                try call.user, until: try TierChoice.end(try body.text("until")), reason: try body.text("reason"))
        },
        AdminOperation(
            "DELETE", "users/{id}/ban", "unbanUser", "Lifts the ban of an account; the sessions that it ended stay ended",
            access: .scope(.usersWrite), answers: ChangedBan.shape, refusals: [404]
        ) { api, call in try await api.operator.unban(try call.user) },
        AdminOperation(
            "DELETE", "users/{id}/factors", "resetFactors",
            "Removes the second factor of an account, whose user is told where `TOLLGATE_NOTICES` is set",
            access: .scope(.usersWrite), answers: ResetFactors.shape, refusals: [404]
        ) { api, call in try await api.operator.resetFactors(try call.user) },
        AdminOperation(
            "POST", "users/{id}/merges/{from}/done", "mergeDone",
            "Services have moved what they kept of an account that was merged into this one", access: .scope(.usersWrite),
            answers: TakenMerge.shape, refusals: [404]
        ) { api, call in try await api.operator.mergeDone(from: call.arguments[1], to: try call.user) },
        AdminOperation(
            "DELETE", "users/{id}/passkeys/{passkey}", "removePasskey", "Removes a passkey of an account and ends all its sessions",
            access: .scope(.usersWrite), answers: RemovedPasskey.shape, refusals: [404]
        ) { api, call in try await api.operator.removePasskey(call.arguments[1], of: try call.user) },
        AdminOperation(
            "DELETE", "sessions/{id}", "revokeSession", "Ends one session", access: .scope(.sessions), argument: .id,
            answers: EndedSessionID.shape, refusals: [404]
        ) { api, call in try await api.operator.revoke(session: call.arguments[0]) },
        AdminOperation(
            "GET", "audit", "listAuditEvents", "The audit log of one account or of all, newest first", access: .scope(.usersRead),
            query: [
                Parameter("user", "The id of an account, also of a deleted one, its email, or NAME:SUBJECT"),
                Parameter("before", "The id of the last event of the page before", .id), page,
            ], answers: .list("events"), refusals: [404]
        ) { api, call in try await api.audit(call.query) },
    ]
}

/// A page of accounts, or those that a search has found.
struct UserList: Sendable, Recorded {
    let users: [AccountView]
    /// nil for a page.
    var isWhole: Bool?

    static let record = Record<Self>([
        .has("users", \.users), .may("complete", about: "Of a search: whether there are no others", \.isWhole),
    ])
}

extension AdminCall {
    /// The segment of the path that names a user, decoded.
    fileprivate var user: String {
        get throws {
            guard let bytes = PercentEncoding.decode(arguments[0].utf8), let text = String(validating: bytes, as: UTF8.self) else {
                throw AdminRefusal(400, "BAD_REQUEST", "The user is not percent-encoded UTF-8")
            }
            return text
        }
    }
}

extension AdminAPI {
    fileprivate func users(_ query: AdminQuery) async throws -> UserList {
        let (directory, page) = (self.operator.directory, try query.limit())
        if let text = query["search"] {
            for name in ["email", "after", "limit"] where query[name] != nil {
                throw AdminRefusal(400, "BAD_REQUEST", "\(name) does not go with search, which answers at most 50 accounts at once")
            }
            let wanted = try parsed("search must have 1 to 254 bytes and no control characters") { () throws(MalformedText) in
                try AccountSearch(text)
            }
            let found = try await self.operator.search(wanted)
            return UserList(users: found.accounts.map(self.operator.view), isWhole: found.isWhole)
        }
        let found: [Account]
        if let text = query["email"] {
            let email = try parsed("email is no email address") { () throws(MalformedText) in try EmailAddress(text) }
            found = try await directory.account(email: email).map { [$0] } ?? []
        } else {
            found = try await directory.accounts(after: try query.id("after", of: "a user"), limit: page)
        }
        return UserList(users: found.map(self.operator.view))
    }

    private func parsed<Value>(_ complaint: String, _ parse: () throws(MalformedText) -> Value) throws(AdminRefusal) -> Value {
        do throws(MalformedText) { return try parse() } catch { throw AdminRefusal(400, "BAD_REQUEST", complaint) }
    }

    /// `user` also names a deleted account by its id: its events stay, without addresses.
    fileprivate func audit(_ query: AdminQuery) async throws -> [AuditEvent] {
        var user: UUID?
        if let text = query["user"] {
            user = UUID(parsing: text)
            if user == nil { user = try await self.operator.account(text).id }
        }
        return try await self.operator.directory.auditEvents(
            of: user, before: try query.id("before", of: "an event"), limit: try query.limit())
    }
}
