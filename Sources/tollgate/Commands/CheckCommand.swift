internal import Admin
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
        json.lines("upstreams", settings.upstreams, settings.tiers, [.has("addresses") { $0.target.bases.map(\.text) }])
        json.lines("issuers", settings.trusts, settings.tiers)
        json.lines("providers", settings.providers, settings.tiers)
        json.lines("products", settings.products, settings.tiers)
        json.lines("purchases_apple", settings.appleStore.list, settings.tiers)
        json.lines("purchases_google", settings.googleStore.list, settings.tiers)
        json.lines("purchases_stripe", settings.stripeStore.list, settings.tiers)
        json.lines("purchases_revenuecat", settings.revenueCatStore.list, settings.tiers)
        json.lines("events", settings.events, settings.tiers)
        json.lines("hook_signup", settings.signUpHook.map { [$0] } ?? [], settings.tiers)
        json.lines("resources", settings.resources, settings.tiers)
        json.lines("internal_callers", settings.internals, settings.tiers)
        json.lines("version_gates", settings.versionGates, settings.tiers)
        json.lines("attestations", settings.attestations, settings.tiers)
        for (name, rows) in [("edge", settings.edge), ("accounts", settings.accountRules)] {
            json.object(name) { json in
                for (name, words) in rows { json.array(name, words) { $0.string($1) } }
            }
        }
        json.lines("admin_tokens", settings.scopedAdminTokens, settings.tiers)
        ShownRoutes.plain.writeMembers(ShownRoutes(configuration), &json)
        json.array("refused_spellings", configuration.routePairs) { json, pair in
            json.beginObject()
            json.field("route", pair.rule.name)
            json.array("stricter", pair.stricter) { $0.string($1.name) }
            json.endObject()
        }
    }
}

extension JSONWriter {
    /// An array of declarations with their options, and `more`.
    fileprivate mutating func lines<Target: OptionTarget>(
        _ name: StaticString, _ targets: [Target], _ tiers: TierList, _ more: [RecordField<ShownLine<Target>>] = []
    ) {
        let record = Record<ShownLine<Target>>([.has("name", \.target.lineName)] + more + ShownLine.optionFields)
        array(name, targets) { json, target in record.write(ShownLine(target: target, tiers: tiers), &json) }
    }
}

extension GatewayConfiguration {
    /// The routes that refuse other spellings of stricter routes' paths.
    fileprivate var routePairs: [(rule: RouteRule, stricter: [RouteRule])] {
        FoldedRoutes.pairs(of: endpoints.map(\.rule) + settings.routes.map(\.rule))
    }
}

extension Configuration {
    /// Settings that `check` shows by name, with their words.
    fileprivate typealias Shown = [(name: StaticString, words: [String])]

    /// The settings of the edge that hold for all routes.
    fileprivate var edge: Shown {
        let scopes = zip(tiers.names, tierScopes).filter { !$1.isEmpty }.map { "\($0)=\($1.joined(separator: ","))" }
        let orders = acmeDirectory.map { [self.acmeChallenge.rawValue, maskingURLSecrets($0)] } ?? []
        let all: Shown = [
            ("certificates", acmeDirectory == nil ? [] : certificateNames), ("ordered_by", orders), ("hsts", strictTransport.list),
            ("deny_from", denyFrom?.words ?? []), ("scopes", scopes), ("dpop_nonce", self.asksForNonces ? ["on"] : []),
        ]
        return all.filter { !$0.words.isEmpty }
    }

    /// The settings by which users of accounts sign in and prove who they are.
    fileprivate var accountRules: Shown {
        let attested = attestedSignIn.map { [$0.name] + ($0.isShadowed ? ["shadow=attest"] : []) }
        let proof =
            switch factor {
            case .off: [String]()
            case .offered: ["offered"]
            case .required(let tier): ["required:\(tiers.name(of: tier))"]
            }
        let keys = deviceKeys.map { "\($0.name.dropFirst(Setting.deviceKey.name.count).lowercased()):\($0.value)" }
        let all: Shown = [
            ("passkey_domain", passkey.map { [$0.rpID] } ?? []), ("passkey_origins", passkeyOrigins.sorted()),
            ("second_factor", proof), ("attest_signin", attested ?? []), ("device_keys", keys.sorted()),
        ]
        return all.filter { !$0.words.isEmpty }
    }
}

extension Optional {
    fileprivate var list: [Wrapped] { map { [$0] } ?? [] }
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

/// The configuration as tables for a terminal.
enum CheckTable {
    static func text(_ configuration: GatewayConfiguration) -> String {
        let settings = configuration.settings
        let tiers = settings.tiers
        var text = listeners(configuration)
        text +=
            "\n"
            + table(["UPSTREAM", "ADDRESSES", "PROTOCOL", "BALANCE", "HEALTH", "MORE"], settings.upstreams.map { upstream($0, tiers) })
        if !settings.trusts.isEmpty {
            let rows = settings.trusts.map { issuer($0) + [$0.furtherOptions(tiers)] }
            text += "\n" + table(["ISSUER", "ISS", "AUD", "KEYS", "ALGORITHMS", "TIER FROM", "MORE"], rows)
        }
        text +=
            lines("PROVIDER", settings.providers, tiers) + products(settings.products, tiers)
            + lines("STORE", settings.stores, tiers)
            + lines("RESOURCE", settings.resources, tiers)
            + lines("INTERNAL CALLER", settings.internals, tiers)
            + lines("VERSION GATE", settings.versionGates, tiers)
            + lines("ATTESTATION", settings.attestations, tiers)
            + lines("ADMIN TOKEN", settings.scopedAdminTokens, tiers)
        for (head, rows) in [("FOR ALL ROUTES", settings.edge), ("FOR ACCOUNTS", settings.accountRules)] where !rows.isEmpty {
            text += "\n" + table([head, "IS"], rows.map { ["\($0.name)", $0.words.joined(separator: " ")] })
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
        let rows =
            settings.listeners.map { ("http", $0.text) } + settings.tlsListeners.map { ("https", $0.text) }
            + settings.checkListeners.map { ("check", $0.text) } + settings.adminListeners.map { ("admin", $0.text) }
        let redis = configuration.redis.map { redis in
            "\n" + table(["REDIS", "SERVERS"], [[redis.topology.name, redis.seeds.map(\.description).joined(separator: " ")]])
        }
        return table(["LISTENS", "ON"], rows.map { [$0.0, $0.1] }) + (redis ?? "")
    }

    /// Declarations without columns of their own.
    private static func lines(_ head: String, _ targets: [any OptionTarget], _ tiers: TierList) -> String {
        targets.isEmpty ? "" : "\n" + table([head, "MORE"], targets.map { [$0.lineName, $0.furtherOptions(tiers)] })
    }

    private static func products(_ products: [ProductDeclaration], _ tiers: TierList) -> String {
        products.isEmpty
            ? "" : "\n" + table(["PRODUCT", "TIER", "MORE"], products.map { [$0.lineName, $0.tier, $0.furtherOptions(tiers)] })
    }

    private static func upstream(_ upstream: UpstreamDeclaration, _ tiers: TierList) -> [String] {
        [
            upstream.name, upstream.bases.map(\.text).joined(separator: " "), upstream.speaksHTTP2 ? "HTTP/2" : "HTTP/1.1",
            upstream.settings.balance == .roundRobin ? "round" : "least", upstream.settings.health?.text ?? "",
            upstream.furtherOptions(tiers),
        ]
    }

    private static func issuer(_ trust: TrustDeclaration) -> [String] {
        let audiences = trust.audiences.isEmpty ? "any" : trust.audiences.joined(separator: ",")
        let algorithms = trust.algorithms.members.map(\.name).joined(separator: ",")
        let issuer = trust.issuer.map(maskingURLSecrets) ?? "(none)"
        return [trust.name, issuer, audiences, trust.keySource.place ?? "shared secret", algorithms, "\(trust.tierSource)"]
    }

    private static func route(_ route: RouteDeclaration, _ configuration: GatewayConfiguration) -> [String] {
        let rule = route.rule
        let limits = rule.limits.map(\.text).joined(separator: " ")
        let limit = limits.isEmpty ? "" : "\(limits) by \(rule.limitBy.text)"
        let tier = rule.tier.map { configuration.settings.tiers.name(of: $0) } ?? ""
        return [rule.name, rule.pattern, route.upstream, rule.auth.name, tier, limit, route.furtherOptions(configuration.settings.tiers)]
    }

    /// A row for an endpoint of a contract or page, with its mount in place of an upstream.
    private static func endpoint(_ place: MountedEndpoint, _ cors: CORSRule?) -> [String] {
        let more = cors.map { "cors=\($0.origins.text)" } ?? ""
        return [place.endpoint.name, place.rule.pattern, place.mount, place.endpoint.auth.name, "", "", more]
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
