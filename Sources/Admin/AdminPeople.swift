import Accounts
import HTTP
import Wire

/// `GET /admin/api/users?search=TEXT` and `GET /admin/api/audit`.
extension AdminAPI {
    func search(_ text: String) async throws -> LocalResponse {
        let search: AccountSearch
        do throws(MalformedText) {
            search = try AccountSearch(text)
        } catch {
            throw AdminRefusal(400, "BAD_REQUEST", "search must have 1 to 254 bytes and no control characters")
        }
        var matches = try await directory.accounts(matching: search)
        if let account = try await outsideAccount(search.text), !matches.accounts.contains(where: { $0.id == account.id }) {
            matches = AccountMatches(accounts: [account] + matches.accounts.prefix(AccountSearch.most - 1), isWhole: matches.isWhole)
        }
        let found = matches
        return .json(200) { json in
            json.beginObject()
            json.array("users", found.accounts) { json, account in
                json.beginObject()
                answer(account).write(&json)
                json.endObject()
            }
            json.field("complete", found.isWhole)
            json.endObject()
        }
    }

    /// The account of `NAME:SUBJECT`; nil for any other text.
    private func outsideAccount(_ text: String) async throws -> Account? {
        let subject: SubjectName?
        do throws(SubjectName.Fault) { subject = try SubjectName(text, issuers: plan().issuers) } catch { return nil }
        guard let subject else { return nil }
        return try await directory.account(of: subject.key, orID: subject.mayBeID)
    }

    /// `user` also names a deleted account by its id: its events stay, without addresses.
    func audit(_ query: AdminQuery) async throws -> LocalResponse {
        var user: UUID?
        if let text = query["user"] {
            user = UUID(parsing: text)
            if user == nil { user = try await account(text).id }
        }
        var before: UUID?
        if let text = query["before"] {
            guard let id = UUID(parsing: text) else { throw AdminRefusal(400, "BAD_REQUEST", "before must be the id of an event") }
            before = id
        }
        let events = try await directory.auditEvents(of: user, before: before, limit: try query.limit())
        return .json(200) { json in
            json.beginObject()
            json.array("events", events) { json, event in
                json.beginObject()
                json.field("id", event.id.text)
                json.field("at", ISO8601.text(event.at))
                json.field("event", event.kind.rawValue)
                json.optional("user", event.user?.text)
                json.optional("email", event.email)
                json.optional("session", event.session?.text)
                json.field("actor", event.actor.kind)
                json.optional("token", event.actor.token)
                json.optional("address", event.address?.text)
                json.optional("detail", event.detail)
                json.endObject()
            }
            json.endObject()
        }
    }
}
