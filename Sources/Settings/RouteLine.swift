internal import Credentials
package import Gate
internal import Wire

/// A route, as a `TOLLGATE_ROUTE_…` line declares it.
package struct RouteDeclaration: Sendable {
    package var rule: RouteRule
    /// The name in `upstream=`, in lower case. `rule.target` is its index once all lines are read.
    package var upstream: String
    package var origin: Origin
    /// `rule.cors` comes from it once `TOLLGATE_CORS` is read.
    package var cors = CORSOptions()
}

extension LineOption {
    package static let route: [LineOption] = [
        LineOption("upstream", "a name", "the upstream of the requests; required"),
        LineOption("auth", "required, optional, none or internal", "the authentication that the route requires"),
        LineOption("tier", "a tier", "the lowest tier that may pass; others get 403"),
        LineOption(
            "limit", "60/m, or free:60/m,premium:600/m",
            "the rate limit; `+burst=10` sets the burst, `+by=address` overrides `limit-by`; up to \(LimitCharge.capacity) limits, all of which must admit",
            maximumCount: LimitCharge.capacity),
        LineOption("limit-by", "user, address, session or header:NAME", "the key of limits without `+by=`"),
        LineOption("claims", "name=value,name=value", "claims that the token must have"),
        LineOption(
            "max-age", "5m",
            "how long ago the user may have signed in; older sign-ins, and tokens without `auth_time`, get 401 `insufficient_user_authentication` (RFC 9470)"),
        LineOption(
            "identity", "headers or signed",
            "`signed` adds `X-Tollgate-Identity`, a JWT of the gateway's key for this route's upstream"),
        LineOption(
            "forward", "authorization, email, name or several with commas",
            "`authorization` keeps the bearer token for the upstream; `email` also sends unverified emails, each with `X-User-Email-Verified`; `name` sends the user's display name as `X-User-Name`"),
        LineOption(
            "keep", "NAME,NAME",
            "fields to pass on that are otherwise removed because upstreams trust them or route by them, such as `X-Original-URL`"),
        LineOption("strip", "a path", "a prefix to remove from the path"),
        LineOption("timeout", "the upstream's", "the time until the first byte of the response, and between its parts"),
        LineOption("body-limit", "10MiB", "the maximum size of a request body"),
        LineOption("retries", "the upstream's", "the number of retries of an idempotent request, up to 5"),
        LineOption(
            "errors", "password, provider, dlauth, apple, anonymous or problem", "the format of refusals"),
        LineOption("encoded-slash", "refuse or pass", "whether `%2F` in a path is passed on undecoded"),
        LineOption(
            "filter", "tier, or results[].tier",
            "removes from JSON responses what is above the caller's tier: objects with that field at any depth, or elements of the named array, including those without the field; up to \(FilterPlan.capacity) times",
            maximumCount: FilterPlan.capacity),
        LineOption("filter-strict", "on or off", "whether a response with a body that is not JSON becomes 502"),
        LineOption(
            "filter-unlabelled", "keep, drop or a tier",
            "the rule for elements without the field: by default `filter=tier` keeps them and a path drops them; a tier counts them as labelled with it"),
        LineOption("filter-require", "off or on", "the older form of `filter-unlabelled=drop`"),
        LineOption("shadow", "limit,tier,filter", "checks that are decided, counted and logged, but not enforced"),
        LineOption(
            "stream-expiry", "extend, close or keep",
            "the end of streams: with their token unless the session is refreshed (`extend`), with their token (`close`), or not before the upstream's or the client's (`keep`); but for `keep` also when their session ends or their tier falls"),
        LineOption("stream-warning", "60s", "sends event streams `event: token-expiring` so long before their end"),
        LineOption("sse-heartbeat", "15s", "sends event streams a comment when the upstream is silent so long, which then does not count against `timeout`"),
        LineOption("websocket", "off or on", "whether WebSocket handshakes are passed on"),
        LineOption("websocket-max", "a number", "how many WebSockets one user, or what `limit-by` names, may hold open on one gateway"),
    ] + CORSOptions.options
}

/// Parser of `TOLLGATE_ROUTE_<NAME>`: `[METHODS] [HOST]/PATH key=value…`.
enum RouteLine {
    static func parse(_ entry: EnvEntry, name: String, tiers: TierList) -> (RouteDeclaration, Findings) {
        var line = OptionLine(entry, knows: LineOption.route)
        var rule = RouteRule(name: name, path: "/", isPrefix: false, target: .upstream(0))
        readPattern(&line, into: &rule)
        readPolicy(&line, tiers, into: &rule)
        readCarriage(&line, into: &rule)
        checkTogether(&line, rule)
        let upstream = line.text("upstream") ?? ""
        if upstream.isEmpty { line.fault("has no upstream=, write upstream=NAME") }
        let cors = CORSOptions.read(&line)
        return (RouteDeclaration(rule: rule, upstream: upstream.lowercased(), origin: entry.origin, cors: cors), line.findings)
    }

    private static func readPattern(_ line: inout OptionLine, into rule: inout RouteRule) {
        var words = line.words
        guard let pattern = words.popLast() else {
            return line.fault("has no path, write one like GET,HEAD /api/*")
        }
        guard words.count <= 1 else {
            return line.fault("has more words than methods and a path, write METHODS HOST/PATH and then key=value")
        }
        if let methods = words.popLast() {
            rule.methods = line.parse(methods, methods) { text throws(ParseError) in try Self.methods(text) } ?? []
        }
        readPath(&line, pattern, into: &rule)
    }

    private static func readPath(_ line: inout OptionLine, _ pattern: String, into rule: inout RouteRule) {
        guard let slash = pattern.firstIndex(of: "/") else {
            return line.fault("\(quoted(pattern)) is no path, write one like /api/* or api.example.org/v1/*")
        }
        let host = pattern[..<slash], path = pattern[slash...]
        rule.host = host.isEmpty ? nil : host.lowercased()
        rule.isPrefix = path.hasSuffix("*")
        rule.path = String(rule.isPrefix ? path.dropLast() : path)
        if rule.path.contains("*") || host.contains("*") {
            line.fault("\(quoted(pattern)) has a * inside, which can only end a path")
        } else if rule.path.contains(where: { $0 == "?" || $0 == "#" }) {
            line.fault("\(quoted(pattern)) has a query or a fragment, write the path alone")
        }
    }

    private static func methods(_ text: String) throws(ParseError) -> [String] {
        let names = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        for name in names where name.isEmpty || name != name.uppercased() || name == "*" {
            throw ParseError("is no list of methods, write names in capitals like GET,HEAD, or none for all")
        }
        guard Set(names).count == names.count else { throw ParseError("names a method twice, keep one of them") }
        for name in names where name == "TRACE" || name == "CONNECT" {
            throw ParseError("names \(name), which no route takes, leave it out")
        }
        return names
    }

    private static func readPolicy(_ line: inout OptionLine, _ tiers: TierList, into rule: inout RouteRule) {
        if let auth = line.choice("auth", ["required", "optional", "none", "internal"]) {
            rule.auth = AuthMode(name: auth) ?? .required
        }
        rule.tier = line.value("tier") { text throws(ParseError) in try tier(text, tiers) }
        rule.limits = line.values("limit") { text throws(ParseError) in
            do throws(LimitPolicy.Fault) {
                return try LimitPolicy(parsing: text, tiers: tiers)
            } catch {
                throw ParseError("is no limit: \(error.message)")
            }
        }
        if let limitBy = line.value("limit-by", { text throws(ParseError) in try Self.limitBy(text) }) {
            rule.limitBy = limitBy
            if !line.has("limit"), !line.has("websocket-max") { line.fault("limit-by= needs a limit, add limit=60/m or remove it") }
        }
        rule.claims = line.list("claims") { text throws(ParseError) in try claim(text) } ?? []
        rule.maxAgeSeconds = line.duration("max-age", 1_000...31_536_000_000).map { UInt32($0 / 1_000) }
        rule.shadow = shadow(&line)
        readFilter(&line, tiers, into: &rule)
    }

    private static func readFilter(_ line: inout OptionLine, _ tiers: TierList, into rule: inout RouteRule) {
        rule.filters = line.values("filter") { text throws(ParseError) in
            do throws(FilterPath.Fault) {
                return try FilterPath(parsing: text)
            } catch {
                throw ParseError("is no filter: \(error.message)")
            }
        }
        if Set(rule.filters).count < rule.filters.count { line.fault("filter= names the same twice, keep one of them") }
        rule.filterIsStrict = line.choice("filter-strict", ["on", "off"]) != "off"
        if let unlabelled = line.value("filter-unlabelled", { text throws(ParseError) in try unlabelled(text, tiers) }) {
            rule.unlabelled = unlabelled
        }
        if line.choice("filter-require", ["off", "on"]) == "on" { rule.unlabelled = .drop }
        if line.has("filter-require"), line.has("filter-unlabelled") {
            line.fault("filter-require= is the older form of filter-unlabelled=, keep filter-unlabelled= alone")
        }
        if rule.shadow.contains(.filter), !line.has("filter") {
            line.fault("shadow=filter needs a filter, add filter=tier or remove it")
        }
        for key in ["filter-strict", "filter-unlabelled", "filter-require"] where line.has(key) && !line.has("filter") {
            line.fault("\(key)= needs a filter, add filter=tier or remove it")
        }
    }

    private static func readCarriage(_ line: inout OptionLine, into rule: inout RouteRule) {
        let forwards = line.list("forward") { text throws(ParseError) in try Self.forward(text) } ?? []
        rule.forwardsAuthorization = forwards.contains(.authorization)
        rule.forwardsEmail = forwards.contains(.email)
        rule.forwardsName = forwards.contains(.name)
        rule.signsIdentity = line.choice("identity", ["headers", "signed"]) == "signed"
        rule.keptFields = KeptFields(line.list("keep") { text throws(ParseError) in try kept(text) } ?? [])
        rule.strip = line.value("strip") { text throws(ParseError) in try strip(text) }
        rule.timeoutMilliseconds = line.duration("timeout", 1...86_400_000).map { UInt32($0) }
        rule.retries = line.count("retries", 0...5).map { UInt8($0) }
        let size = line.value("body-limit") { text throws(ParseError) in try TypedText.size(text) }
        rule.bodyLimit = size ?? rule.bodyLimit
        if let errors = line.choice("errors", Dialect.ofRoutes.map(\.name)) {
            rule.errors = Dialect(name: errors) ?? rule.errors
        }
        readStreams(&line, into: &rule)
        rule.takesWebSockets = line.choice("websocket", ["off", "on"]) == "on"
        rule.mostWebSockets = line.count("websocket-max", 1...1_000_000).map { UInt32($0) }
        rule.encodedSlashPasses = line.choice("encoded-slash", ["refuse", "pass"]) == "pass"
    }

    private static let streamExpiries = StreamExpiry.allCases.map { "\($0)" }

    private static func readStreams(_ line: inout OptionLine, into rule: inout RouteRule) {
        let expiry = line.choice("stream-expiry", streamExpiries)
        rule.streams.expiry = expiry.flatMap { StreamExpiry(name: $0) } ?? rule.streams.expiry
        rule.streams.warningMilliseconds = line.duration("stream-warning", 1_000...86_400_000).map { UInt32($0) }
        rule.streams.heartbeatMilliseconds = line.duration("sse-heartbeat", 100...86_400_000).map { UInt32($0) }
        if rule.streams.expiry == .keep, line.has("stream-warning") {
            line.fault("stream-warning= warns before an end that stream-expiry=keep does not make, remove one of them")
        }
        guard rule.filterIsStrict, !rule.filters.isEmpty, !rule.shadow.contains(.filter) else { return }
        for key in ["stream-warning", "sse-heartbeat"] where line.has(key) {
            line.warn("\(key)= has no effect where filter= refuses event streams, add filter-strict=off or remove it")
        }
    }

    /// Reports options that contradict each other and would otherwise be ignored silently.
    private static func checkTogether(_ line: inout OptionLine, _ rule: RouteRule) {
        if rule.auth == .none {
            for key in ["tier", "claims", "max-age", "stream-expiry", "stream-warning"] where line.has(key) {
                line.fault("\(key)= does not go with auth=none, which ignores the identity, write auth=required")
            }
            if rule.signsIdentity {
                line.fault("identity=signed does not go with auth=none, which ignores the identity, write auth=required")
            }
            for (key, isThere) in [("email", rule.forwardsEmail), ("name", rule.forwardsName)] where isThere {
                line.fault("forward=\(key) does not go with auth=none, which ignores the identity, write auth=required")
            }
            if line.has("filter") {
                line.fault("filter= does not go with auth=none, which ignores the identity, write auth=optional: callers without a token get the lowest tier's view")
            }
        }
        if rule.takesWebSockets {
            if !rule.methods.isEmpty, !rule.methods.contains("GET") {
                line.fault("websocket=on needs the method GET, add it")
            }
            if line.has("filter") { line.fault("filter= does not go with websocket=on, whose messages are not filtered, use a route for each") }
        } else if line.has("websocket-max") {
            line.fault("websocket-max= needs websocket=on, add it or remove websocket-max=")
        }
        if let strip = rule.strip, !reaches(rule, below: strip) {
            line.warn("strip=\(strip) is not a prefix of every path of the route, the others stay as they are")
        }
    }

    /// Whether `strip` is a prefix, at a segment's end, of every path of the rule.
    private static func reaches(_ rule: RouteRule, below strip: String) -> Bool {
        let cut = strip.split(separator: "/"), path = rule.path.split(separator: "/")
        // Behind the last slash of a prefix anything may follow, also part of a segment.
        let whole = rule.isPrefix && !rule.path.hasSuffix("/") ? path.dropLast() : path[...]
        return cut.count <= whole.count && zip(cut, whole).allSatisfy { $0 == $1 || $0.hasPrefix("{") }
    }

    private static func tier(_ text: String, _ tiers: TierList) throws(ParseError) -> Tier {
        guard let tier = tiers.rank(of: text) else {
            throw ParseError("names no tier, the tiers are \(tiers.names.joined(separator: ", "))")
        }
        return tier
    }

    private static func unlabelled(_ text: String, _ tiers: TierList) throws(ParseError) -> UnlabelledRule {
        switch text {
        case "keep": return .keep
        case "drop": return .drop
        default:
            guard let tier = tiers.rank(of: text) else {
                throw ParseError("is not known, write keep, drop or a tier: \(tiers.names.joined(separator: ", "))")
            }
            return .tier(tier)
        }
    }

    private static func limitBy(_ text: String) throws(ParseError) -> LimitBy {
        guard let limitBy = LimitBy(parsing: text) else {
            throw ParseError("is not known, write \(LimitBy.forms)")
        }
        return limitBy
    }

    private static func claim(_ text: String) throws(ParseError) -> ClaimRequirement {
        let pair = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard pair.count == 2, !pair[0].isEmpty, !pair[1].isEmpty else {
            throw ParseError("is no list of claims, write claims=name=value,name=value")
        }
        return ClaimRequirement(name: pair[0], value: pair[1])
    }

    private static func strip(_ text: String) throws(ParseError) -> String {
        guard text.hasPrefix("/"), text != "/", !text.contains("*"), !text.contains("?") else {
            throw ParseError("is no path to remove, write one like /content")
        }
        return text
    }

    private enum Forwarded: String, CaseIterable { case authorization, email, name }

    private static func forward(_ text: String) throws(ParseError) -> Forwarded {
        guard let forwarded = Forwarded(rawValue: text) else {
            throw ParseError("is not known, write authorization, email, name or several with commas")
        }
        return forwarded
    }

    private static func kept(_ name: String) throws(ParseError) -> KeptFields {
        do throws(KeptFields.Fault) {
            return try KeptFields(named: name)
        } catch {
            switch error {
            case .written: throw ParseError("names \(quoted(name)), which the gateway writes itself, leave it out")
            case .credential: throw ParseError("names \(quoted(name)), a credential for the gateway only, leave it out")
            case .framing: throw ParseError("names \(quoted(name)), which ends at the gateway, leave it out")
            case .notRemoved:
                let nearest = nearestName(to: name, in: ProxyFields.spellings) ?? ""
                throw ParseError("names \(quoted(name)), which is not removed, the nearest that is would be \(nearest)")
            }
        }
    }

    private static func shadow(_ line: inout OptionLine) -> ShadowSet {
        let parts = line.list("shadow") { text throws(ParseError) -> ShadowSet in
            switch text {
            case "limit": return .limit
            case "tier": return .tier
            case "filter": return .filter
            default: throw ParseError("is not known, write limit, tier, filter or several with commas")
            }
        }
        return ShadowSet(parts ?? [])
    }
}
