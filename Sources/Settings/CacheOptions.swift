internal import Gate
internal import Wire

/// The checks of a route's `cache=` and the options beside it.
extension RouteDeclaration {
    static func isCached(_ route: Self) -> Bool { route.rule.cache.freshSeconds != nil }

    /// A field that the upstream gets on a cached route, in lower case.
    static func varyName(_ text: String) throws(ParseError) -> String {
        let name = try CORSOptions.fieldName(text).lowercased()
        guard CacheRule.mayVary(by: name) else {
            throw ParseError("names \(quoted(text)), which no upstream gets from the client of a cached route, leave it out")
        }
        return name
    }

    /// Reports what would store nothing, or tell the upstream of a caller more than the key has.
    static func checkCache(_ line: inout OptionLine, _ rule: RouteRule) {
        guard rule.cache.freshSeconds != nil else {
            for key in ["cache-by", "cache-stale", "cache-on-error", "cache-vary"] where line.has(key) && !line.has("cache") {
                line.fault("\(key)= needs cache=, add cache=60s or remove it")
            }
            return
        }
        if !rule.methods.isEmpty, !rule.methods.contains("GET") { line.fault("cache= stores answers to GET, add GET to the methods") }
        if rule.forwardsAuthorization {
            line.fault("cache= does not go with forward=authorization, as stored answers would depend on the token, remove one of them")
        }
        if line.has("mirror") { line.fault("cache= does not go with mirror=, as most requests ask no upstream, remove one of them") }
        if rule.takesWebSockets { line.fault("cache= does not go with websocket=on, use a route for each") }
        guard rule.cache.sharing != .user else { return }
        let named = Set(rule.requestFields.set.flatMap(\.placeholders))
        let told = [
            ("request-set= with {user}", named.contains(.user)),
            ("request-set= with {tier}", rule.cache.sharing == .everyone && named.contains(.tier)), ("identity=signed", rule.signsIdentity),
            ("forward=email", rule.forwardsEmail), ("forward=name", rule.forwardsName),
            ("forward-attributes=", !rule.forwardedAttributes.isEmpty), ("merge=announce", rule.announcesMerges),
        ]
        for (option, isThere) in told where isThere {
            line.fault("\(option) tells the upstream of one user what cache-by=\(rule.cache.sharing.name) shares, write cache-by=user")
        }
    }
}
