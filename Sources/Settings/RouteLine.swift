internal import Credentials
package import Gate
internal import Wire

/// A route, as a `TOLLGATE_ROUTE_…` line declares it.
package struct RouteDeclaration: Sendable {
    package var rule: RouteRule
    /// The name in `upstream=`, in lower case. `rule.target` is its index once all lines are read.
    package var upstream = ""
    package var origin: Origin
    /// `rule.cors` comes from it once `TOLLGATE_CORS` is read.
    package var cors = CORSOptions()

    init(name: String, origin: Origin) {
        rule = RouteRule(name: name, path: "/", isPrefix: false, target: .upstream(0))
        self.origin = origin
    }
}

extension RouteDeclaration: OptionTarget {
    package static let grammar = "[METHODS] [HOST]/PATH key=value …"
    package static let family = Setting.route
    package var lineName: String { rule.name }
    package static let bare = Self(name: "", origin: .builtIn)

    package static let options = table {
        LineOption("upstream", \.upstream, .plain { $0.lowercased() }, values: "a name", "the upstream of the requests; required").column
        LineOption("auth", \.rule.auth, .choice(AuthMode.allCases, \.name), "the authentication that the route requires").column
        LineOption("tier", ifSet: \.rule.tier, .tier, "a tier", "the lowest tier that may pass; others get 403").column
        LineOption(
            "limit", each: \.rule.limits, .limit, "60/m, or free:60/m,premium:600/m", most: LimitCharge.capacity, isText: true,
            "the rate limit; `+burst=10` sets the burst, `+by=address` overrides `limit-by`; up to \(LimitCharge.capacity) limits, all of which must admit"
        ).column
        LineOption("limit-by", \.rule.limitBy, .limitBy, values: LimitBy.forms, "the key of limits without `+by=`")
            .when { !$0.rule.limits.isEmpty || $0.rule.maxWebSockets != nil }.column { !$0.rule.limits.isEmpty }
        LineOption(
            "allow-from", networks: \.rule.allowFrom,
            "the only client networks whose requests pass, and files of them; others get 403 `ADDRESS_DENIED`")
        LineOption(
            "deny-from", networks: \.rule.denyFrom,
            "client networks whose requests get 403 `ADDRESS_DENIED`, also where `allow-from` has them")
        LineOption(
            "claims", list: \.rule.claims, "name=value,name=value", "claims that the token must have", part: claim, join: { $0 },
            show: { $0.map { "\($0.name)=\($0.value)" } })
        LineOption(
            "scope", list: \.rule.scopes, "feed:read,feed:write",
            "scopes that the token must have, all of them; own users have those that `TOLLGATE_SCOPES` gives their tier; others get 403 `insufficient_scope`",
            TypedText.scope)
        LineOption(
            "attributes", list: \.rule.attributes, "name=value|value,…",
            "attributes that the account must have, each with one of its values; others get 403", part: attribute,
            join: { $0 }, show: { $0.map(\.text) })
        LineOption(
            "forward-attributes", list: \.rule.forwardedAttributes, "name,name",
            "attributes of the account that the upstream gets as `X-User-Attribute-Name`", part: AttributeName.part, join: { $0 },
            show: { $0.map(\.text) })
        LineOption(
            "merge", \.rule.announcesMerges, .choice([("off", false), ("announce", true)]),
            "`announce` tells the upstream in `X-User-Merged-From` which accounts were merged into the user's, until it answers `X-Tollgate-Merge-Done`"
        )
        LineOption(
            "max-age", ifSet: \.rule.maxAgeSeconds, .duration(1_000...31_536_000_000, unit: 1_000), "5m",
            "how long ago the user may have signed in; older sign-ins, and tokens without `auth_time`, get 401 `insufficient_user_authentication` (RFC 9470)"
        )
        LineOption(
            "factor", ifSet: \.rule.factorSeconds, .duration(1_000...2_592_000_000, unit: 1_000), "10m",
            "how long ago the session may have proven a [second factor](second-factor.md), up to 30 days; others, outside tokens and API keys get 401 `insufficient_user_authentication` with `acr_values`"
        )
        LineOption(
            "proof", \.rule.proof, .choice(ProofMode.allCases) { "\($0)" },
            "who must prove possession of the key that the token is bound to (DPoP, RFC 9449): nobody, holders of bound tokens, or everyone; see [device keys](device-keys.md)"
        ).when { $0.rule.proof != .bound }
        LineOption(
            "identity", \.rule.signsIdentity, .choice([("headers", false), ("signed", true)]),
            "`signed` adds `X-Tollgate-Identity`, a JWT of the gateway's key for this route's upstream")
        LineOption(
            "forward",
            flags: [("authorization", \.rule.forwardsAuthorization), ("email", \.rule.forwardsEmail), ("name", \.rule.forwardsName)],
            "authorization, email, name or several with commas",
            "`authorization` keeps the bearer token for the upstream; `email` also sends unverified emails, each with `X-User-Email-Verified`; `name` sends the user's display name as `X-User-Name`"
        )
        LineOption(
            "keep", list: \.rule.keptFields, "NAME,NAME",
            "fields to pass on that are otherwise removed because upstreams trust them or route by them, such as `X-Original-URL`",
            part: kept,
            join: { KeptFields($0) }, show: { $0.text.split(separator: ",").map(String.init) })
        splitOptions
        fieldOptions
        LineOption("strip", ifSet: \.rule.strip, .plain(strip), "a path", "a prefix to remove from the path")
        LineOption(
            "timeout", ifSet: \.rule.timeoutMilliseconds, .duration(1...86_400_000), "the upstream's",
            "the time until the first byte of the response, and between its parts")
        LineOption("body-limit", \.rule.bodyLimit, .size(), "the maximum size of a request body")
        LineOption(
            "retries", ifSet: \.rule.retries, .count(0...5), "the upstream's", "the number of retries of an idempotent request, up to 5")
        LineOption(
            "errors", \.rule.errors, .choice(ContractID.allCases.map { ($0.name, Dialect($0)) } + [("problem", .problem)]),
            "the format of refusals")
        LineOption(
            "encoded-slash", \.rule.encodedSlashPasses, .choice([("refuse", false), ("pass", true)]),
            "whether `%2F` in a path is passed on undecoded")
        LineOption(
            "filter", each: \.rule.filters, .filter, "tier, or results[].tier", most: FilterPlan.capacity,
            "removes from JSON responses what is above the caller's tier: objects with that field at any depth, or elements of the named array, including those without the field; up to \(FilterPlan.capacity) times"
        )
        LineOption(
            "filter-strict", \.rule.filterIsStrict, .flag([("on", true), ("off", false)]),
            "whether a response with a body that is not JSON becomes 502"
        ).when { !$0.rule.filters.isEmpty }
        LineOption(
            "filter-unlabelled", \.rule.unlabelled, .unlabelled, values: "keep, drop or a tier",
            "the rule for elements without the field: by default `filter=tier` keeps them and a path drops them; a tier counts them as labelled with it"
        )
        LineOption(
            "compress", \.rule.compression.mode, .choice(CompressionRule.Mode.allCases) { "\($0)" },
            "whether responses are compressed: those that the gateway filters, all, or none"
        ).when { $0.rule.compression.mode != .filtered }
        LineOption("compress-min", \.rule.compression.least, .size(), "the length from which on a response is compressed")
            .when { $0.rule.compression.least != CompressionRule().least }
        LineOption(
            "compress-events", \.rule.compression.takesEvents, .flag(), "whether event streams are compressed, too, each event at once"
        ).when { $0.rule.compression.takesEvents }
        LineOption(
            "shadow",
            flags: [
                ("limit", \.rule.shadow[.limit]), ("tier", \.rule.shadow[.tier]), ("filter", \.rule.shadow[.filter]),
                ("app", \.rule.shadow[.app]), ("attest", \.rule.shadow[.attestation]),
            ],
            "limit,tier,filter,app,attest", "checks that are decided, counted and logged, but not enforced")
        LineOption(
            "stream-expiry", \.rule.streams.expiry, .choice(StreamExpiry.allCases) { "\($0)" },
            "the end of streams: with their token unless the session is refreshed (`extend`), with their token (`close`), or not before the upstream's or the client's (`keep`); but for `keep` also when their session ends or their tier falls"
        )
        LineOption(
            "stream-warning", ifSet: \.rule.streams.warningMilliseconds, .duration(1_000...86_400_000), "60s",
            "sends event streams `event: token-expiring` so long before their end")
        LineOption(
            "sse-heartbeat", ifSet: \.rule.streams.heartbeatMilliseconds, .duration(100...86_400_000), "15s",
            "sends event streams a comment when the upstream is silent so long, which then does not count against `timeout`")
        LineOption(
            "cache", ifSet: \.rule.cache.freshSeconds, .duration(1_000...31_536_000_000, unit: 1_000), "60s",
            "for how long the response to a GET is kept at most and answers others; see [caching](caching.md)")
        LineOption(
            "cache-by", \.rule.cache.sharing, .choice([.user, .tier, .everyone], \.name),
            "who shares a kept response: one user, a tier, or all; the upstream is told no more of a caller than that"
        ).when(isCached)
        LineOption(
            "cache-stale", ifSet: \.rule.cache.staleSeconds, .duration(0...31_536_000_000, unit: 1_000), "30s",
            "for how long a response that is no longer fresh is still sent while a new one is fetched"
        ).when(isCached)
        LineOption(
            "cache-on-error", ifSet: \.rule.cache.errorSeconds, .duration(0...31_536_000_000, unit: 1_000), "1h",
            "for how long a response that is no longer fresh is sent while the upstream fails"
        ).when(isCached)
        LineOption(
            "cache-vary", list: \.rule.cache.vary, "NAME,NAME",
            "request fields that the upstream gets and by which responses are kept apart",
            varyName
        ).when(isCached)
        appOptions
        attestOptions
        LineOption("websocket", \.rule.takesWebSockets, .flag(), "whether WebSocket handshakes are passed on")
        LineOption(
            "websocket-max", ifSet: \.rule.maxWebSockets, .count(1...1_000_000), "a number",
            "how many WebSockets one user, or what `limit-by` names, may hold open on one gateway")
        LineOption(
            "cors", "https://app.example.org,https://*.example.org",
            "the origins whose pages may call the route, `*` for all, or `off`; by default as `TOLLGATE_CORS` says",
            read: CORSOptions.readChoice
        ) { route, _ in
            route.rule.cors.map { OptionValue($0.origins.text) } ?? (route.cors.choice == .off ? .inTextAlone("off") : nil)
        }.json("cors.origins").when { $0.rule.cors != nil || $0.cors.choice == .off }
        LineOption("cors-credentials", \.cors.rule.allowsCredentials, .flag(), "whether those pages may send cookies; not with `*`")
            .json("cors.credentials").when(hasCORS)
        LineOption(
            "cors-headers", list: \.cors.rule.requestFields, "NAME,NAME", "request fields that those pages may send besides the usual ones",
            CORSOptions.fieldName
        ).json("cors.headers").when(hasCORS)
        LineOption(
            "cors-expose", list: \.cors.rule.furtherExposed, "NAME,NAME", "response fields of the upstream that those pages may read",
            CORSOptions.fieldName
        ).json("cors.expose").when(hasCORS)
        LineOption(
            "cors-max-age", \.cors.rule.maxAgeSeconds, .duration(0...86_400_000, unit: 1_000, isNumber: true),
            "the time for which a browser may remember the answer to a preflight"
        ).json("cors.max_age_s").when(hasCORS)
    }

    private static func hasCORS(_ route: Self) -> Bool { route.rule.cors != nil }

    private static func claim(_ text: String) throws(ParseError) -> ClaimRequirement {
        let pair = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard pair.count == 2, !pair[0].isEmpty, !pair[1].isEmpty else {
            throw ParseError("is no list of claims, write claims=name=value,name=value")
        }
        return ClaimRequirement(name: pair[0], value: pair[1])
    }

    private static func attribute(_ text: String) throws(ParseError) -> AttributeRequirement {
        let pair = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let values = pair.last?.split(separator: "|", omittingEmptySubsequences: false).map(String.init) ?? []
        guard pair.count == 2, !pair[0].isEmpty, !values.contains("") else {
            throw ParseError("is no list of attributes, write attributes=name=value|value,name=value")
        }
        return AttributeRequirement(name: pair[0], values: values)
    }

    private static func strip(_ text: String) throws(ParseError) -> String {
        guard text.hasPrefix("/"), text != "/", !text.contains("*"), !text.contains("?") else {
            throw ParseError("is no path to remove, write one like /content")
        }
        return text
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
}

extension ShadowSet {
    fileprivate subscript(decision: ShadowSet) -> Bool {
        get { contains(decision) }
        set { if newValue { insert(decision) } else { remove(decision) } }
    }
}

extension RouteDeclaration {
    /// Parses `[METHODS] [HOST]/PATH key=value…`.
    package init(_ line: inout OptionLine, name: String) {
        self.init(name: name, origin: line.entry.origin)
        Self.readPattern(&line, into: &rule)
        line.read(into: &self)
        Self.checkFilter(&line, rule)
        Self.checkStreams(&line, rule)
        Self.checkFields(&line, rule)
        Self.checkCompression(&line, rule)
        Self.checkCache(&line, rule)
        Self.checkSplit(&line, rule)
        Self.checkApp(&line, rule)
        Self.checkTogether(&line, rule)
        if upstream.isEmpty { line.fault("has no upstream=, write upstream=NAME") }
        cors.noteDependent(line)
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
            rule.methods = line.parse(quoting: methods, methods) { text throws(ParseError) in try Self.methods(text) } ?? []
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

    private static func checkFilter(_ line: inout OptionLine, _ rule: RouteRule) {
        if line.has("limit-by"), !line.has("limit"), !line.has("websocket-max") {
            line.fault("limit-by= needs a limit, add limit=60/m or remove it")
        }
        if Set(rule.filters).count < rule.filters.count { line.fault("filter= names the same twice, keep one of them") }
        guard !line.has("filter") else { return }
        if rule.shadow.contains(.filter) { line.fault("shadow=filter needs a filter, add filter=tier or remove it") }
        for key in ["filter-strict", "filter-unlabelled"] where line.has(key) {
            line.fault("\(key)= needs a filter, add filter=tier or remove it")
        }
    }

    private static func checkCompression(_ line: inout OptionLine, _ rule: RouteRule) {
        guard rule.compression.mode == .off || rule.compression.mode == .filtered && rule.filters.isEmpty else { return }
        for key in ["compress-min", "compress-events"] where line.has(key) {
            line.fault("\(key)= needs a route whose responses are compressed, add compress=on or remove it")
        }
    }

    private static func checkStreams(_ line: inout OptionLine, _ rule: RouteRule) {
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
            let keys = [
                "tier", "claims", "scope", "attributes", "forward-attributes", "merge", "max-age", "factor", "stream-expiry",
                "stream-warning",
            ]
            for key in keys where line.has(key) {
                line.fault("\(key)= does not go with auth=none, which ignores the identity, write auth=required")
            }
            if rule.signsIdentity {
                line.fault("identity=signed does not go with auth=none, which ignores the identity, write auth=required")
            }
            if rule.proof == .required {
                line.fault("proof=required does not go with auth=none, which ignores the identity, write auth=required")
            }
            for (key, isThere) in [("email", rule.forwardsEmail), ("name", rule.forwardsName)] where isThere {
                line.fault("forward=\(key) does not go with auth=none, which ignores the identity, write auth=required")
            }
            if line.has("filter") {
                line.fault(
                    "filter= does not go with auth=none, which ignores the identity, write auth=optional: callers without a token get the lowest tier's view"
                )
            }
        }
        if rule.auth == .key {
            for key in ["claims", "attributes", "forward-attributes", "merge", "max-age", "factor"] where line.has(key) {
                line.fault(
                    "\(key)= does not go with auth=key, whose callers have no token and no account, remove it or write auth=required,key")
            }
        }
        if rule.limits.count > rule.mostLimits {
            line.fault(
                "has \(rule.limits.count) limits, and with auth=\(rule.auth.name) a key may bring one of its own: keep \(rule.mostLimits)")
        }
        if Set(rule.forwardedAttributes.map(\.field)).count < rule.forwardedAttributes.count {
            line.fault("forward-attributes= names two attributes that one field would carry, rename one of them")
        }
        if rule.takesWebSockets {
            if !rule.methods.isEmpty, !rule.methods.contains("GET") {
                line.fault("websocket=on needs the method GET, add it")
            }
            if line.has("filter") {
                line.fault("filter= does not go with websocket=on, whose messages are not filtered, use a route for each")
            }
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
}
