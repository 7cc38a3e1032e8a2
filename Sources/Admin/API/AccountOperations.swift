internal import Accounts
internal import Credentials
internal import HTTP

extension AdminOperation {
    /// Accounts and their sessions.
    static let accounts = [
        AdminOperation(
            "GET", "users", "listUsers", "The account with an email, or all accounts page by page", access: .scope(.usersRead),
            query: [
                Parameter("email", "Exactly this email"),
                Parameter("search", "A part of an email, phone, username or name, or an id; at most 50 accounts"),
                Parameter("after", "The id of the last account of the page before", .id), Parameter("limit", "At most so many", .range(1...1_000)),
            ], answers: .json(.object([
                .has("users", .array(.named("User"))), .may("complete", .boolean, "Of a search: whether there are no others"),
            ]))
        ) { api, call in try await api.users(call.query) },
        AdminOperation(
            "GET", "users/{id}", "getUser", "One account with identities, actors, sessions and metadata", access: .scope(.usersRead), answers: .json(.named("UserDetails")),
            refusals: [404]
        ) { api, call in try await api.show(try await api.account(call.arguments[0])) },
        AdminOperation(
            "DELETE", "users/{id}", "deleteUser", "Ends all sessions of an account and deletes it", access: .scope(.delete), answers: .json(.named("Ended")),
            refusals: [404]
        ) { api, call in try await api.delete(try await api.account(call.arguments[0])) },
        AdminOperation(
            "PUT", "users/{id}/tier", "setTier", "Sets the tier, without an end or until a time", access: .scope(.tier),
            body: .object([.has("tier", .named("Tier")), .may("until", .nullable(.time))]), answers: .json(.named("User")), refusals: [404]
        ) { api, call in try await api.setTier(call.arguments[0], call.request.body) },
        AdminOperation(
            "DELETE", "users/{id}/tier-cache", "forgetTier", "Has every gateway ask for the tier of an outside issuer's user again", access: .scope(.tier),
            answers: .json(.object([.has("user", .text), .has("forgotten", .boolean)])), refusals: [404]
        ) { api, call in try await api.forgetTier(call.arguments[0]) },
        AdminOperation(
            "POST", "users/{id}/revoke", "revokeUser", "Ends all sessions of an account", access: .scope(.sessions), answers: .json(.named("Ended")), refusals: [404]
        ) { api, call in try await api.revoke(try await api.account(call.arguments[0])) },
        AdminOperation(
            "DELETE", "sessions/{id}", "revokeSession", "Ends one session", access: .scope(.sessions), argument: .id,
            answers: .json(.object([.has("id", .id), .has("ended", .boolean)])), refusals: [404]
        ) { api, call in try await api.revokeSession(call.arguments[0]) },
    ]

    static let accountSchemas: [(name: String, schema: JSONSchema)] = [
        ("User", .object(user)),
        ("UserDetails", .object(user + [
            .has("identities", .array(.object([.has("provider", .text), .has("subject", .text), .has("linked_at", .time)]))),
            .has("actors", .array(.object([.has("type", .text), .has("id", .text)]))),
            .has("sessions", .array(.object([
                .has("id", .id), .has("contract", .words(ContractID.allCases.map(\.name))), .may("device", .text), .may("address", .text), .has("created_at", .time), .has("last_used_at", .time),
                .has("expires_at", .time, "Unless it is refreshed before"),
            ]))),
            .has("metadata", .anything),
        ])),
        ("Ended", .object([.has("id", .id), .has("deleted", .boolean), .has("sessions_ended", .integer)])),
    ]

    private static let user: [JSONSchema.Member] = [
        .has("id", .id), .may("email", .text), .may("email_confirmed_at", .time), .may("phone", .text), .may("phone_confirmed_at", .time),
        .may("username", .text), .may("name", .text, "Both parts"), .may("given_name", .text), .may("family_name", .text), .has("has_password", .boolean),
        .has("opened_by", .words(ContractID.allCases.map(\.name) + ["operator"])), .has("created_at", .time), .has("updated_at", .time), .has("tier", .named("Tier")), .may("tier_until", .time),
        .has("has_active_subscription", .boolean),
    ]
}
