internal import Accounts
internal import Admin
internal import Credentials
internal import Settings
internal import Wire

/// `tollgate user list`: the accounts in the order of their creation.
struct UserListCommand: AccountCommand {
    private static let usualLimit = 100
    private static let largestLimit = 1_000

    let email: String?
    let after: UUID?
    let limit: Int
    let json: Bool

    init(_ arguments: Arguments) throws(UsageFault) {
        email = arguments.value("email")
        json = arguments.has("json")
        after = try arguments.value("after").map { text throws(UsageFault) in
            guard let id = UUID(parsing: text) else { throw Self.fault("--after \(quoted(text)) is no id, give the last one of the list before") }
            return id
        }
        let text = arguments.value("limit") ?? "\(Self.usualLimit)"
        do throws(ParseError) {
            limit = try TypedText.count(text, 1...Self.largestLimit)
        } catch {
            throw Self.fault("--limit \(quoted(text)) \(error.text)")
        }
    }

    private static func fault(_ message: String) -> UsageFault { UsageFault(message: message, command: .userList) }

    func run(_ accounts: OfflineAccounts) async throws -> CommandResult {
        // One more than shown, to know whether there are more.
        let found = try await found(accounts)
        let shown = found.prefix(limit).map { AccountView($0, accounts) }
        return json ? report(shown) : describe(shown, hasMore: found.count > limit)
    }

    private func found(_ accounts: OfflineAccounts) async throws -> [Account] {
        guard let email else { return try await accounts.directory.accounts(after: after, limit: limit + 1) }
        let address: EmailAddress
        do throws(MalformedText) {
            address = try EmailAddress(email)
        } catch {
            throw AccountCommandFault(message: "--email \(quoted(email)) is no email, write one like ada@example.org", exitCode: 2)
        }
        let account = try await accounts.directory.account(email: address)
        return account.map { [$0] }?.filter { account in after.map { $0 < account.id } ?? true } ?? []
    }

    private func describe(_ shown: [AccountView], hasMore: Bool) -> CommandResult {
        guard let last = shown.last else {
            let none = email == nil && after == nil ? "There are no accounts yet." : "There is no such account."
            return CommandResult(output: none + "\n")
        }
        let table = CheckTable.table(AccountView.columns, shown.map(\.row))
        return CommandResult(output: table + (hasMore ? "\nThere are more: --after \(last.account.id.text)\n" : ""))
    }

    private func report(_ shown: [AccountView]) -> CommandResult {
        .json { json in
            json.beginArray()
            for answer in shown {
                json.beginObject()
                answer.write(&json)
                json.endObject()
            }
            json.endArray()
        }
    }
}

/// `tollgate user show`: one account with identities, grants, metadata and sessions.
struct UserShowCommand: AccountCommand {
    let user: String
    let json: Bool

    init(_ arguments: Arguments) {
        user = arguments.operands[0]
        json = arguments.has("json")
    }

    func run(_ accounts: OfflineAccounts) async throws -> CommandResult {
        let account = try await accounts.account(user)
        let belongings = try await AccountDetails(of: account, accounts.directory)
        let answer = AccountView(account, accounts)
        return json ? report(answer, belongings) : describe(answer, belongings)
    }

    private func describe(_ answer: AccountView, _ belongings: AccountDetails) -> CommandResult {
        var rows = answer.rows
        for identity in belongings.identities {
            rows.append(["identity", "\(identity.key.source.name) \(identity.key.subject), linked at \(ISO8601.text(identity.linkedAt))"])
        }
        for actor in belongings.grants { rows.append(["acts as", "\(actor.type) \(actor.id)"]) }
        if answer.account.metadata != .empty { rows.append(["metadata", answer.account.metadata.json.rawBytes.text]) }
        var text = CheckTable.table(["PART", "WHAT"], rows.map { $0.map(visible) })
        let sessions = belongings.sessions.map { session in
            [
                session.id.text, session.contract.name, ISO8601.text(session.createdAt), ISO8601.text(session.lastUsedAt),
                session.address?.text ?? "", visible(session.device ?? ""),
            ]
        }
        text += sessions.isEmpty ? "\nNo session is in use.\n" : "\n" + CheckTable.table(["SESSION", "CONTRACT", "CREATED", "LAST USED", "ADDRESS", "DEVICE"], sessions)
        return CommandResult(output: text)
    }

    private func report(_ answer: AccountView, _ belongings: AccountDetails) -> CommandResult {
        .json { json in
            json.beginObject()
            answer.write(&json)
            belongings.write(&json)
            json.endObject()
        }
    }
}
