internal import Accounts
internal import Credentials
internal import HTTP
internal import Wire

extension AdminOperation {
    /// The keys of partners and scripts. Who makes one gives out a tier, so no token with scopes may.
    static let apiKeys = [
        AdminOperation(
            "GET", "keys/api", "listAPIKeys", "The API keys, also those that are revoked or over, without their texts",
            access: .scope(.gatewayRead), answers: .list("keys")
        ) { api, _ -> [APIKey] in try await api.operator.apiKeys() },
        AdminOperation(
            "POST", "keys/api", "createAPIKey", "Makes an API key, whose text is in this answer alone", access: .operator,
            body: .object([
                .has("name", .text), .has("tier", .tier), .may("routes", .nullable(.array(.text)), "All that take keys without it"),
                .may("until", .nullable(.time)), .may("limit", .nullable(.text), "Its own limit, like `100/m`"),
            ]), success: .json(APIKey.record(with: "").shape.schema)
        ) { api, call in
            let body = try RequestObject(call.request.body)
            // A misspelt `routes` or `until` would make a key for more than is meant.
            try body.allow(["name", "tier", "routes", "until", "limit"])
            guard let name = try body.text("name"), let tier = try body.text("tier") else {
                throw AdminRefusal(400, "BAD_REQUEST", "name and tier are required")
            }
            let (routes, until, limit) = (try body.texts("routes"), try body.text("until"), try body.text("limit"))
            let accounts = api.operator
            let choice: APIKeyChoice
            do throws(APIKeyChoice.Fault) {
                choice = try APIKeyChoice(
                    name: name, tier: tier, routes: routes, until: until, limit: limit, accounts.plan, now: accounts.now)
            } catch {
                throw OperatorRefusal.apiKey(error)
            }
            let made = try await accounts.create(choice)
            return .json { APIKey.record(with: made.text).write(made.key, &$0) }
        },
        AdminOperation(
            "DELETE", "keys/api/{id}", "revokeAPIKey", "Revokes an API key for good", access: .operator, argument: .id,
            answers: APIKey.shape, refusals: [404]
        ) { api, call in
            guard let id = UUID(parsing: call.arguments[0]) else { throw OperatorRefusal.unknownAPIKey }
            return try await api.operator.revoke(apiKey: id)
        },
    ]
}
