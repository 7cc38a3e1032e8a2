package import Admin
internal import Credentials
package import Gate
internal import Redis
internal import Settings
internal import Telemetry
internal import Wire

extension AdminOperation {
    static func limits(_ gateway: some OperatedGateway) -> AdminOperation {
        AdminOperation(
            "GET", "limits", "getLimits", "The limits of the routes, the keys that they refused most often, and the Redis that shares them",
            access: .scope(.gatewayRead), answers: ShownLimits.shape
        ) { _, _ in
            ShownLimits(
                configuration: gateway.configuration, readiness: gateway.readiness(), now: gateway.time,
                hottest: await gateway.hottestKeys(limit: ShownLimits.maxKeys))
        }
    }
}

private struct ShownLimits: Recorded {
    static let maxKeys = 50

    let configuration: GatewayConfiguration
    let readiness: Readiness
    let now: WallTime
    let hottest: [HotKey]

    static let record = Record<Self>(
        "Limits",
        [
            .has("policies", \.policies), .has("hottest_since") { HottestKeys.since($0.now) }, .has("hottest", \.hottest),
            .has(
                "redis",
                Record([
                    .has("configured") { $0.configuration.redis != nil }, .may("topology", \.configuration.redis?.topology.name),
                    .may("state", .readiness) { $0.configuration.redis == nil ? nil : ($0.redis?.state ?? .unready).text.description },
                    .may("reason", \.redis?.reason),
                ]).shape
            ) { $0 },
        ])

    private var redis: Readiness.Check? { configuration.redis == nil ? nil : readiness.checks.first { $0.name == "redis" } }

    /// The limits of the routes, in the order of the configuration.
    private var policies: [RouteLimit] {
        configuration.settings.routes.map(\.rule).flatMap { rule in
            rule.limits.indices.map { RouteLimit(rule: rule, index: $0, failure: configuration.settings.rateLimitFailure.name) }
        }
    }
}

private struct RouteLimit: Recorded {
    let rule: RouteRule
    let index: Int
    let failure: String

    static let record = Record<Self>([
        .has("route", \.rule.name), .has("policy") { $0.rule.limitName($0.index) }, .has("limit") { $0.rule.limits[$0.index].text },
        .has("key") { ($0.rule.limits[$0.index].anonymous.by ?? $0.rule.limitBy).text },
        .has("failure", .words(["local", "open", "closed"]), \.failure), .has("shadow") { $0.rule.shadow.contains(.limit) },
    ])
}

extension HotKey: Recorded {
    package static let record = Record<Self>([
        .has("route", \.key.route), .has("policy", \.key.policy), .has("limit", \.key.limit), .has("by", \.key.by.text),
        .has("key", \.key.key),
        .has("kind", .words(["user", "address"])) { $0.key.issuer == nil ? "address" : "user" }, .may("issuer", \.key.issuer),
        .has("refused", about: "A lower bound", \.refused),
    ])
}
