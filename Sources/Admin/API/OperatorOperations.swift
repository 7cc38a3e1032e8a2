internal import Accounts
internal import Credentials
internal import HTTP

extension AdminOperation {
    /// The audit log, keys, limits, the outbox and the configuration.
    static let operations = [
        AdminOperation(
            "GET", "audit", "listAuditEvents", "The audit log of one account or of all, newest first", access: .scope(.usersRead),
            query: [
                Parameter("user", "The id of an account, also of a deleted one, or NAME:SUBJECT"),
                Parameter("before", "The id of the last event of the page before", .id), Parameter("limit", "At most so many", .range(1...1_000)),
            ], answers: .json(.object([.has("events", .array(.named("AuditEvent")))])), refusals: [404]
        ) { api, call in try await api.audit(call.query) },
        AdminOperation(
            "GET", "keys", "getKeys", "The gateway's signing keys, and the keys of outside issuers with their fetches", access: .scope(.gatewayRead),
            answers: .json(.object([.has("own", .array(.named("SigningKey"))), .has("issuers", .array(.named("IssuerKeys")))]))
        ) { api, _ in api.showKeys() },
        AdminOperation(
            "POST", "keys/rotate", "rotateKeys", "Rotates the gateway's signing keys, as tollgate keys rotate does", access: .operator,
            answers: .json(.object([.has("own", .array(.named("SigningKey")))])), refusals: [409]
        ) { api, _ in try await api.rotateKeys() },
        AdminOperation(
            "GET", "limits", "getLimits", "The limits of the routes, the keys that they refused most often, and the Redis that shares them", access: .scope(.gatewayRead),
            answers: .json(.named("Limits"))
        ) { api, _ in await api.showLimits() },
        AdminOperation(
            "GET", "outbox", "getOutbox", "The development outbox: the messages of channels that are not configured, the newest first", access: .operator,
            answers: .json(.named("Outbox"))
        ) { api, _ in try await api.showOutbox() },
        AdminOperation(
            "GET", "configuration", "getConfiguration", "The settings in force with their sources, without secrets, and the last reload", access: .scope(.gatewayRead),
            answers: .json(.named("Configuration"))
        ) { api, _ in api.showConfiguration() },
    ]

    static let operationSchemas: [(name: String, schema: JSONSchema)] = [
        ("AuditEvent", .object([
            .has("id", .id), .has("at", .time), .has("event", .words(AuditEvent.Kind.allCases.map(\.rawValue))), .may("user", .id),
            .may("email", .text, "Of the account as it is now, not part of the event"), .may("session", .id),
            .has("actor", .words(["user", "command", "admin-api", "console", "operator"]), "operator: an event of an earlier version"),
            .may("token", .text, "The name of the token with scopes by which the admin API was used"),
            .may("address", .text), .may("detail", .text),
        ])),
        ("SigningKey", .object([
            .may("kid", .text, "Missing for a shared secret"), .has("alg", .text), .has("state", .words(["current", "next", "retired"])),
            .has("created_at", .time), .may("ends_at", .time, "Until when a retired key verifies"),
        ])),
        ("IssuerKeys", .object([
            .has("name", .text), .may("issuer", .text), .may("jwks_url", .text), .may("file", .text), .has("keys", .integer),
            .may("fetched_at", .time), .may("next_fetch_at", .time), .has("fetches", .integer), .has("failures", .integer),
            .may("last_fault", .text, "The error of the last fetch"),
        ])),
        ("Limits", .object([
            .has("policies", .array(.object([
                .has("route", .text), .has("policy", .text), .has("limit", .text), .has("key", .text),
                .has("failure", .words(["local", "open", "closed"])), .has("shadow", .boolean),
            ]))),
            .has("hottest_since", .time),
            .has("hottest", .array(.object([
                .has("route", .text), .has("policy", .text), .has("limit", .text), .has("by", .text), .has("key", .text),
                .has("kind", .words(["user", "address"])), .may("issuer", .text), .has("refused", .integer, "A lower bound"),
            ]))),
            .has("redis", .object([
                .has("configured", .boolean), .may("topology", .text), .may("state", .words(["ready", "degraded", "unready"])), .may("reason", .text),
            ])),
        ])),
        ("Outbox", .object([
            .has("channels", .array(.words(["mail", "sms"])), "Those whose messages land here; empty if both are configured"),
            .has("messages", .array(.object([
                .has("at", .time), .has("channel", .words(["mail", "sms"])), .has("kind", .text), .has("to", .text), .may("subject", .text),
                .has("text", .text), .may("code", .text), .may("link", .text),
            ]))),
        ])),
        ("Configuration", .object([
            .has("loaded_at", .time), .has("version", .integer),
            .has("settings", .array(.object([
                .has("name", .text), .has("value", .nullable(.text), "Null for a secret"), .has("source", .text, "FILE:LINE, environment or default"),
                .has("secret", .boolean), .has("restart", .boolean, "Whether a change needs a restart"),
            ]))),
            .may("last_reload", .object([
                .has("at", .time), .has("ok", .boolean), .has("faults", .array(.text)), .has("warnings", .array(.text)),
            ])),
        ])),
    ]
}
