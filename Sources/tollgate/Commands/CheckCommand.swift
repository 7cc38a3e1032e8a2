internal import Contracts
internal import Credentials
internal import Gate
internal import Redis
internal import Settings
internal import Wire

/// `tollgate check`: all faults of the configuration, or its resolved routes.
enum CheckCommand {
    static func run(_ loaded: LoadedConfiguration, json: Bool) -> CommandResult {
        if json { return report(loaded) }
        guard let configuration = loaded.configuration else { return .refused(loaded.findings) }
        return CommandResult(
            output: CheckTable.text(configuration), errorOutput: CommandResult.warnings(loaded.findings))
    }

    private static func report(_ loaded: LoadedConfiguration) -> CommandResult {
        let isGood = loaded.findings.faults.isEmpty
        return .json(exitCode: isGood ? 0 : 2) { json in
            json.beginObject()
            json.field("ok", isGood)
            json.findings(loaded.findings)
            if let configuration = loaded.configuration { write(configuration, &json) }
            json.endObject()
        }
    }

    private static func write(_ configuration: GatewayConfiguration, _ json: inout JSONWriter) {
        let settings = configuration.settings
        json.array("listen", settings.listeners) { $0.string($1.text) }
        json.array("listen_tls", settings.tlsListeners) { $0.string($1.text) }
        json.array("admin_listen", settings.adminListeners) { $0.string($1.text) }
        json.array("check_listen", settings.checkListeners) { $0.string($1.text) }
        json.array("tiers", settings.tiers.names) { $0.string($1) }
        if let redis = configuration.redis {
            json.key("redis")
            json.beginObject()
            json.field("topology", redis.topology.name)
            json.array("servers", redis.seeds) { $0.string($1.description) }
            json.endObject()
        }
        json.array("upstreams", settings.upstreams, write)
        json.array("issuers", settings.trusts, write)
        writeRoutes(configuration, &json)
        json.array("refused_spellings", configuration.routePairs) { json, pair in
            json.beginObject()
            json.field("route", pair.rule.name)
            json.array("stricter", pair.stricter) { $0.string($1.name) }
            json.endObject()
        }
    }

    /// Writes the routes and the contracts' endpoints. `more` adds members to the route of a name.
    static func writeRoutes(
        _ configuration: GatewayConfiguration, _ json: inout JSONWriter, _ more: (String, inout JSONWriter) -> Void = { _, _ in }
    ) {
        json.array("routes", configuration.settings.routes) { json, route in write(route, configuration, &json, more) }
        json.array("endpoints", configuration.endpoints, write)
    }

    private static func write(_ cors: CORSRule, _ json: inout JSONWriter) {
        json.key("cors")
        json.beginObject()
        json.field("origins", cors.origins.text)
        json.field("credentials", cors.allowsCredentials)
        json.array("headers", cors.requestFields) { $0.string($1) }
        json.array("expose", cors.furtherExposed) { $0.string($1) }
        json.field("max_age_s", Int(cors.maxAgeSeconds))
        json.endObject()
    }

    private static func write(_ json: inout JSONWriter, _ upstream: UpstreamDeclaration) {
        json.beginObject()
        json.field("name", upstream.name)
        json.array("addresses", upstream.bases) { $0.string($1.text) }
        json.field("balance", upstream.balance.rawValue)
        json.optional("health", upstream.health?.text)
        json.field("timeout_ms", Int(upstream.timeoutMilliseconds))
        json.field("connect_timeout_ms", Int(upstream.connectTimeoutMilliseconds))
        json.field("retries", Int(upstream.retries))
        json.field("http2", upstream.speaksHTTP2)
        json.field("paths_exact", upstream.pathsAreExact)
        json.endObject()
    }

    private static func write(_ json: inout JSONWriter, _ trust: TrustDeclaration) {
        json.beginObject()
        json.field("name", trust.name)
        json.optional("issuer", trust.issuer)
        json.array("audiences", trust.audiences) { $0.string($1) }
        json.array("algorithms", trust.algorithms.members) { $0.string($1.name) }
        json.field("tier_from", trust.tierSource.name)
        json.endObject()
    }

    private static func write(_ json: inout JSONWriter, _ place: MountedEndpoint) {
        json.beginObject()
        json.field("name", place.endpoint.name)
        json.field("mount", place.mount.text)
        json.array("methods", place.endpoint.methods) { $0.string($1) }
        json.field("path", place.rule.path + (place.rule.isPrefix ? "*" : ""))
        json.field("auth", place.endpoint.auth.name)
        json.field("errors", place.endpoint.dialect.name)
        json.endObject()
    }

    private static func write(
        _ route: RouteDeclaration, _ configuration: GatewayConfiguration, _ json: inout JSONWriter,
        _ more: (String, inout JSONWriter) -> Void
    ) {
        let rule = route.rule
        json.beginObject()
        json.field("name", rule.name)
        json.array("methods", rule.methods) { $0.string($1) }
        json.optional("host", rule.host)
        json.field("path", rule.path + (rule.isPrefix ? "*" : ""))
        json.field("upstream", route.upstream)
        json.field("auth", rule.auth.name)
        json.optional("tier", rule.tier.map { configuration.settings.tiers.name(of: $0) })
        if !rule.limits.isEmpty {
            json.field("limit", rule.limits.map(\.text).joined(separator: " "))
            json.field("limit_by", rule.limitBy.text)
        }
        if !rule.filters.isEmpty {
            json.array("filter", rule.filters) { $0.string($1.text) }
            json.optional("filter_unlabelled", rule.unlabelled.text(configuration.settings.tiers))
            json.field("filter_strict", rule.filterIsStrict)
        }
        json.optional("strip", rule.strip)
        json.array("claims", rule.claims) { $0.string("\($1.name)=\($1.value)") }
        json.optional("max_age", rule.maxAgeSeconds.map { DurationText.text(UInt64($0) * 1_000) })
        json.field("identity", rule.signsIdentity ? "signed" : "headers")
        json.field("authorization", rule.keepsAuthorization ? "forwarded" : "removed")
        if let cors = rule.cors { write(cors, &json) }
        json.field("body_limit", Int(rule.bodyLimit))
        json.field("errors", rule.errors.name)
        more(rule.name, &json)
        json.endObject()
    }
}

extension GatewayConfiguration {
    /// The routes that refuse other spellings of stricter routes' paths.
    fileprivate var routePairs: [(rule: RouteRule, stricter: [RouteRule])] {
        FoldedRoutes.pairs(of: endpoints.map(\.rule) + settings.routes.map(\.rule))
    }
}

extension RedisEndpoint.Topology {
    /// The servers of `seeds` in a word or two.
    var name: String {
        switch self {
        case .single: "one server"
        case .cluster: "cluster"
        case .sentinel(_, let master): "sentinels of \(master)"
        }
    }
}

extension UnlabelledRule {
    /// The value of `filter-unlabelled=`; nil for the default of the filter's form.
    fileprivate func text(_ tiers: TierList) -> String? {
        switch self {
        case .byForm: nil
        case .keep: "keep"
        case .drop: "drop"
        case .tier(let tier): tiers.name(of: tier)
        }
    }
}

/// The configuration as tables for a terminal.
enum CheckTable {
    static func text(_ configuration: GatewayConfiguration) -> String {
        let settings = configuration.settings
        var text = listeners(configuration)
        text += "\n" + table(["UPSTREAM", "ADDRESSES", "PROTOCOL", "BALANCE", "HEALTH"], settings.upstreams.map(upstream))
        if !settings.trusts.isEmpty {
            text += "\n" + table(["ISSUER", "ISS", "AUD", "KEYS", "ALGORITHMS", "TIER FROM"], settings.trusts.map(issuer))
        }
        let routes = settings.routes.map { route($0, configuration) } + configuration.endpoints.map { endpoint($0, settings.corsRule) }
        text += "\n" + table(["ROUTE", "MATCHES", "UPSTREAM", "AUTH", "TIER", "LIMIT", "MORE"], routes)
        let taken = configuration.taken.map { [$0.route.rule.name, $0.owner, $0.paths.joined(separator: " ")] }
        if !taken.isEmpty {
            text += "\n" + table(["ROUTE", "LEAVES TO", "PATHS"], taken)
            text += "`tollgate doctor` asks upstreams whether they have such paths.\n"
        }
        let sum = [(settings.routes.count, "route"), (settings.upstreams.count, "upstream"), (settings.trusts.count, "outside issuer")]
            .map { counted($0, $1) }.joined(separator: ", ")
        return text + bearers(settings.routes) + spellings(configuration) + "\nThe configuration is good: \(sum).\n"
    }

    /// Which upstreams get the client's `Authorization`.
    private static func bearers(_ routes: [RouteDeclaration]) -> String {
        guard !routes.isEmpty else { return "" }
        let kept = routes.map(\.rule).filter(\.keepsAuthorization).map { rule in
            "\(rule.name) (\(rule.auth == .none ? "auth=none" : "forward=authorization"))"
        }
        let text = "\nAuthorization is removed before the upstream"
        if kept.isEmpty { return text + "; forward=authorization on a route keeps it.\n" }
        return text + ", except on \(kept.joined(separator: ", ")).\n"
    }

    /// Which routes refuse other spellings of the paths of which stricter ones.
    private static func spellings(_ configuration: GatewayConfiguration) -> String {
        let pairs = configuration.routePairs
        guard !pairs.isEmpty else { return "" }
        let lines = pairs.map { "  \($0.rule.name): \($0.stricter.map(\.name).joined(separator: ", "))\n" }
        return "\nPaths that differ from those of a stricter route only in case, the last slash or blanks at the end are refused with 400, "
            + "unless the upstream has paths=exact:\n" + lines.joined()
    }

    private static func listeners(_ configuration: GatewayConfiguration) -> String {
        let settings = configuration.settings
        let rows = settings.listeners.map { ("http", $0.text) } + settings.tlsListeners.map { ("https", $0.text) }
            + settings.checkListeners.map { ("check", $0.text) } + settings.adminListeners.map { ("admin", $0.text) }
        let redis = configuration.redis.map { redis in
            "\n" + table(["REDIS", "SERVERS"], [[redis.topology.name, redis.seeds.map(\.description).joined(separator: " ")]])
        }
        return table(["LISTENS", "ON"], rows.map { [$0.0, $0.1] }) + (redis ?? "")
    }

    private static func upstream(_ upstream: UpstreamDeclaration) -> [String] {
        [
            upstream.name, upstream.bases.map(\.text).joined(separator: " "), upstream.speaksHTTP2 ? "HTTP/2" : "HTTP/1.1",
            upstream.balance.rawValue, upstream.health?.text ?? "",
        ]
    }

    private static func issuer(_ trust: TrustDeclaration) -> [String] {
        let keys =
            switch trust.keySource {
            case .url(let url): url
            case .file(let path): path
            case .secret: "shared secret"
            }
        let audiences = trust.audiences.isEmpty ? "any" : trust.audiences.joined(separator: ",")
        let algorithms = trust.algorithms.members.map(\.name).joined(separator: ",")
        return [trust.name, trust.issuer ?? "(none)", audiences, keys, algorithms, trust.tierSource.name]
    }

    private static func route(_ route: RouteDeclaration, _ configuration: GatewayConfiguration) -> [String] {
        let rule = route.rule
        let limits = rule.limits.map(\.text).joined(separator: " ")
        let limit = limits.isEmpty ? "" : "\(limits) by \(rule.limitBy.text)"
        let tier = rule.tier.map { configuration.settings.tiers.name(of: $0) } ?? ""
        return [rule.name, rule.pattern, route.upstream, rule.auth.name, tier, limit, more(rule, configuration.settings.tiers)]
    }

    /// A row for an endpoint of a contract or page, with its mount in place of an upstream.
    private static func endpoint(_ place: MountedEndpoint, _ cors: CORSRule?) -> [String] {
        let more = cors.map { "cors=\($0.origins.text)" } ?? ""
        return [place.endpoint.name, place.rule.pattern, place.mount.text, place.endpoint.auth.name, "", "", more]
    }

    /// Options without a column that differ from the default.
    private static func more(_ rule: RouteRule, _ tiers: TierList) -> String {
        var parts: [String] = []
        if !rule.claims.isEmpty { parts.append("claims=" + rule.claims.map { "\($0.name)=\($0.value)" }.joined(separator: ",")) }
        parts += rule.filters.map { "filter=\($0.text)" }
        if !rule.filterIsStrict { parts.append("filter-strict=off") }
        if let unlabelled = rule.unlabelled.text(tiers) { parts.append("filter-unlabelled=\(unlabelled)") }
        let forwarded = [
            rule.forwardsAuthorization ? "authorization" : nil, rule.forwardsEmail ? "email" : nil, rule.forwardsName ? "name" : nil,
        ].compactMap(\.self)
        if !forwarded.isEmpty { parts.append("forward=" + forwarded.joined(separator: ",")) }
        if let maxAge = rule.maxAgeSeconds { parts.append("max-age=\(DurationText.text(UInt64(maxAge) * 1_000))") }
        if rule.signsIdentity { parts.append("identity=signed") }
        if !rule.keptFields.isEmpty { parts.append("keep=" + rule.keptFields.text) }
        if let cors = rule.cors { parts += options(cors) }
        if let strip = rule.strip { parts.append("strip=\(strip)") }
        if let timeout = rule.timeoutMilliseconds { parts.append("timeout=\(DurationText.text(UInt64(timeout)))") }
        if rule.bodyLimit != 10 << 20 { parts.append("body-limit=\(SizeText.text(rule.bodyLimit))") }
        if rule.errors != .password { parts.append("errors=\(rule.errors.name)") }
        if rule.encodedSlashPasses { parts.append("encoded-slash=pass") }
        if !rule.shadow.isEmpty { parts.append("shadow") }
        return parts.joined(separator: " ")
    }

    private static func options(_ cors: CORSRule) -> [String] {
        var parts = ["cors=\(cors.origins.text)"]
        if cors.allowsCredentials { parts.append("cors-credentials=on") }
        if !cors.requestFields.isEmpty { parts.append("cors-headers=" + cors.requestFields.joined(separator: ",")) }
        if !cors.furtherExposed.isEmpty { parts.append("cors-expose=" + cors.furtherExposed.joined(separator: ",")) }
        if cors.maxAgeSeconds != 600 { parts.append("cors-max-age=\(DurationText.text(UInt64(cors.maxAgeSeconds) * 1_000))") }
        return parts
    }

    /// A text table: columns as wide as their widest cell, separated by two spaces.
    static func table(_ head: [String], _ rows: [[String]]) -> String {
        let all = [head] + rows
        let widths = head.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
        return all.map { row in
            let cells = zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
            var line = cells.joined(separator: "  ")
            while line.last == " " { line.removeLast() }
            return line + "\n"
        }.joined()
    }
}

extension RouteRule {
    /// Whether the upstream gets the client's `Authorization`.
    fileprivate var keepsAuthorization: Bool { auth == .none || forwardsAuthorization }
}
