internal import Accounts
internal import Admin
internal import Wire

extension Command {
    /// The keys of partners and scripts.
    static let apiKeys = [
        Command.overAccounts(
            "key create", "makes an API key for routes with auth=key, and prints it once; every gateway takes it within a second",
            options: [
                CommandOption("name", "NAME", "for whom or what it is", isRequired: true),
                CommandOption("tier", "TIER", "its tier", isRequired: true),
                CommandOption("routes", "NAME,NAME", "the routes that it may be used on; all that take keys by default"),
                CommandOption("until", "TIME", "its end, like 2027-01-01T00:00:00Z"),
                CommandOption("limit", "RATE", "a limit of its own over all routes, like 100/m"),
            ]
        ) { call in
            { accounts in
                let owner = accounts.operator
                let choice: APIKeyChoice
                do throws(APIKeyChoice.Fault) {
                    choice = try APIKeyChoice(
                        name: call.value("name") ?? "", tier: call.value("tier") ?? "",
                        routes: call.value("routes").map { $0.split(separator: ",").map(String.init) }, until: call.value("until"),
                        limit: call.value("limit"), owner.plan, now: owner.now)
                } catch {
                    throw OperatorRefusal.apiKey(error)
                }
                let made = try await owner.create(choice)
                var result = call.answer(made.key, APIKey.record(with: made.text).shape) { "\(made.text)\n" }
                result.errorOutput += "note: the key is not shown again; its id is \(made.key.id.text)\n"
                if owner.plan.keyRoutes.isEmpty { result.errorOutput += "note: no route takes keys, write auth=key on one\n" }
                return result
            }
        },
        Command.overAccounts("key list", "lists the API keys, without their texts") { call in
            { accounts in
                let keys = try await accounts.operator.apiKeys()
                return call.answer(keys, .list("keys")) {
                    let rows = keys.map { key in
                        [
                            key.id.text, visible(key.name), key.prefix, key.tier, key.routes.joined(separator: ","), key.limit ?? "",
                            key.state, key.lastUsedAt.map { ISO8601.text($0) } ?? "",
                        ]
                    }
                    return CheckTable.table(["ID", "NAME", "PREFIX", "TIER", "ROUTES", "LIMIT", "STATE", "LAST USED"], rows)
                }
            }
        },
        Command.overAccounts("key revoke ID", "revokes an API key for good; every gateway refuses it within a second") { call in
            { accounts in
                guard let id = UUID(parsing: call.operands[0]) else { throw OperatorRefusal.unknownAPIKey }
                let key = try await accounts.operator.revoke(apiKey: id)
                return call.answer(key) { "The key \(visible(key.name)) is revoked.\n" }
            }
        },
    ]
}

extension APIKey {
    /// For people.
    fileprivate var state: String {
        if let revokedAt { return "revoked \(ISO8601.text(revokedAt))" }
        return until.map { "until \(ISO8601.text($0))" } ?? "valid"
    }
}
