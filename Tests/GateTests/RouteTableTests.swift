import HTTP
import Testing
import Wire

@testable import Gate

/// A rule from `name: METHODS HOST/PATH`, as settings have it.
func rule(_ name: String, _ pattern: String, auth: AuthMode = .required) -> RouteRule {
    var methods: [String] = []
    var place = pattern
    if let space = pattern.firstIndex(of: " ") {
        methods = pattern[..<space].split(separator: ",").map(String.init)
        place = String(pattern[pattern.index(after: space)...])
    }
    let slash = place.firstIndex(of: "/") ?? place.startIndex
    let host = String(place[..<slash])
    var path = String(place[slash...])
    let isPrefix = path.hasSuffix("*")
    if isPrefix { path.removeLast() }
    return RouteRule(
        name: name, methods: methods, host: host.isEmpty ? nil : host, path: path, isPrefix: isPrefix, target: .upstream(0),
        auth: auth)
}

private func endpoint(_ name: String) -> RouteRule {
    var endpoint = RouteRule(
        name: name, methods: ["POST"], path: "/" + name, isPrefix: false, target: .local(1), auth: .none)
    endpoint.isEndpoint = true
    return endpoint
}

private func table(_ patterns: [String]) throws -> RouteTable {
    try RouteTable(patterns.map { rule($0, $0) })
}

extension RouteTable {
    /// The name of the rule for a request, `405 ALLOW`, or `404`.
    func answer(_ method: String, _ host: String, _ path: String) -> String {
        let match = method.withRawBytes { method in
            host.withRawBytes { host in
                path.withRawBytes { self.match(host: host, path: $0, method: Method(method), methodText: method) }
            }
        }
        switch match {
        case .route(let index): return rules[index].name
        case .none: return "404"
        case .methodNotAllowed(let set, _):
            var out = ByteBuffer()
            writeAllow(set, into: &out)
            return "405 " + out.readable.text
        }
    }
}

@Suite struct RouteTableTests {
    @Test(arguments: [
        ("GET", "h", "/m", "/m"), ("GET", "h", "/m/", "/m/*"), ("GET", "h", "/m/x", "/m/*"), ("GET", "h", "/mx", "/*"),
        ("GET", "h", "/n", "/n/*"), ("GET", "h", "/n/", "/n/*"), ("GET", "h", "/n/a/b", "/n/*"), ("GET", "h", "/na", "/*"),
        ("GET", "h", "/n/a/c", "/n/a/c"), ("GET", "h", "/n/a/c/", "/n/*"), ("GET", "h", "/n/deep/er", "/n/deep/*"),
        ("GET", "h", "/n/deep", "/n/deep/*"), ("GET", "h", "/n/deeper", "/n/*"), ("GET", "h", "/", "/*"),
        ("GET", "h", "/file-7", "/file-*"), ("GET", "h", "/file-", "/file-*"), ("GET", "h", "/file", "/*"),
    ])
    func theLongestPathWins(_ method: String, _ host: String, _ path: String, _ expected: String) throws {
        let table = try table(["/*", "/m", "/m/*", "/n/*", "/n/a/c", "/n/deep/*", "/file-*"])
        #expect(table.answer(method, host, path) == expected)
    }

    @Test(arguments: [
        ("/progress/words/7/review", "/progress/{kind}/{id}/review"), ("/progress/words/7", "/progress/*"),
        ("/progress/words/7/review/", "/progress/*"), ("/progress//7/review", "/progress/*"), ("/progress/words//review", "/progress/*"),
        ("/progress/words/7/reviews", "/progress/*"), ("/progress/words/all/review", "/progress/words/all/*"),
        ("/progress/words/all", "/progress/words/all/*"), ("/progress/words/al/review", "/progress/{kind}/{id}/review"),
        ("/progress/words/every/review", "/progress/{kind}/{id}/review"), ("/progress/words/every/x", "/progress/words/every/x"),
        ("/u/a", "/u/{id}"), ("/u/", "404"), ("/u", "404"), ("/u/a/", "/u/{id}/*"), ("/u/a/b/c", "/u/{id}/*"), ("/u/me", "/u/me"),
        ("/u/me/x", "/u/{id}/*"), ("/o/a", "/o/{id}/*"), ("/o/a/", "/o/{id}/*"), ("/u/%7Bid%7D", "/u/{id}"), ("/u/{id}", "/u/{id}"),
    ])
    func aBracedNameTakesOneSegmentAndALiteralBeatsIt(_ path: String, _ expected: String) throws {
        let table = try table([
            "/progress/{kind}/{id}/review", "/progress/*", "/progress/words/all/*", "/progress/words/every/x", "/u/{id}", "/u/me",
            "/u/{id}/*", "/o/{id}/*",
        ])
        #expect(table.answer("GET", "h", path) == expected)
    }

    @Test func aMethodThatTheLiteralRefusesIsLookedForBehindTheBraces() throws {
        let table = try table(["GET /a/b", "POST /a/{x}", "PUT /a/*"])
        #expect(table.answer("POST", "h", "/a/b") == "POST /a/{x}")
        #expect(table.answer("PUT", "h", "/a/b") == "PUT /a/*")
        #expect(table.answer("DELETE", "h", "/a/b") == "405 GET, POST, PUT")
        #expect(table.answer("GET", "h", "/a/c") == "405 POST, PUT")
    }

    @Test func anEndpointIsNotWidenedByBraces() throws {
        let table = try RouteTable([endpoint("login"), rule("any", "/{x}")])
        #expect(table.answer("POST", "h", "/login") == "login")
        #expect(table.answer("GET", "h", "/login") == "405 POST")
        #expect(table.answer("GET", "h", "/logout") == "any")
    }

    @Test(arguments: ["/a{x}", "/{x}a", "/{}", "/{x", "/x}", "/{x-y}", "/{{x}}", "/{x}*", "/{x}{y}", "/{a/b}"])
    func bracesThatEncloseNoWholeSegmentAreAnError(_ path: String) {
        #expect(throws: RouteFault.badBraces("r")) { try RouteTable([rule("r", path)]) }
    }

    /// A thousand rules that share their beginnings in two spellings: the walk comes back at each level, and still ends.
    @Test func manyBracesThatLeadNowhereAreFollowedOnce() throws {
        let depth = 12
        var patterns: [String] = []
        for bits in 0..<1 << 10 {
            patterns.append((0..<depth).map { bits >> $0 & 1 == 1 ? "/a" : "/{x}" }.joined() + "/end")
        }
        let table = try table(patterns)
        let path = String(repeating: "/a", count: depth)
        #expect(table.answer("GET", "h", path + "/none") == "404")
        #expect(table.answer("GET", "h", path + "/end") == patterns[patterns.count - 1])
    }

    @Test func aPathWithoutStarMatchesNothingLonger() throws {
        let table = try table(["/m"])
        #expect(table.answer("GET", "h", "/m") == "/m")
        #expect(table.answer("GET", "h", "/m/") == "404")
        #expect(table.answer("GET", "h", "/m/x") == "404")
        #expect(table.answer("GET", "h", "/") == "404")
        #expect(table.answer("GET", "h", "*") == "404")
        #expect(table.answer("GET", "h", "") == "404")
    }

    @Test(arguments: [
        ("api.example.com", "api"), ("API.Example.COM", "api"), ("api.example.com:8443", "api"), ("api.example.com.", "api"),
        ("api.example.com.:80", "api"), ("www.example.com", "any"), ("", "any"), ("api.example.co", "any"), ("[::1]:80", "six"),
        ("[::1]", "six"), ("xapi.example.com", "any"), ("api.example.com:", "api"), ("[0:0:0:0:0:0:0:1]", "six"), ("[::0001]:80", "six"),
        ("[::2]", "any"), ("[2001:db8::a]", "long"), ("[2001:DB8:0::A]:443", "long"), ("[::ffff:192.0.2.1]", "any"), ("192.0.2.1", "four"),
    ])
    func anExactHostWinsWithoutCaseAndPort(_ host: String, _ expected: String) throws {
        let table = try RouteTable([
            rule("any", "/a/very/long/*"), rule("api", "Api.Example.Com/*"), rule("six", "[::1]/*"),
            rule("long", "[2001:DB8:0:0:0:0:0:a]/*"), rule("four", "192.0.2.1/*"),
        ])
        #expect(table.answer("GET", host, "/a/very/long/path") == expected)
    }

    @Test func aHostWithoutARuleForThePathFallsBackToEveryHost() throws {
        let table = try RouteTable([rule("any", "/a"), rule("api", "api.test/b")])
        #expect(table.answer("GET", "api.test", "/a") == "any")
        #expect(table.answer("GET", "api.test", "/b") == "api")
        #expect(table.answer("GET", "other.test", "/b") == "404")
    }

    @Test func fewerMethodsWin() throws {
        let table = try table(["/a", "GET,HEAD,POST /a", "GET /a"])
        #expect(table.answer("GET", "h", "/a") == "GET /a")
        #expect(table.answer("HEAD", "h", "/a") == "GET,HEAD,POST /a")
        #expect(table.answer("DELETE", "h", "/a") == "/a")
        #expect(table.answer("PURGE", "h", "/a") == "/a")
    }

    @Test func aWrongMethodIs405WithAllThatAreAllowed() throws {
        let table = try table(["GET /a", "PUT,DELETE /a", "POST /a/*", "PURGE,GET /b", "h.test/c"])
        #expect(table.answer("PATCH", "h", "/a") == "405 GET, POST, PUT, DELETE")
        #expect(table.answer("PURGE", "h", "/b") == "PURGE,GET /b")
        #expect(table.answer("POST", "h", "/b") == "405 GET, PURGE")
        #expect(table.answer("purge", "h", "/b") == "405 GET, PURGE")
        #expect(table.answer("get", "h", "/a") == "405 GET, POST, PUT, DELETE")
        #expect(table.answer("PATCH", "h", "/c") == "404")
    }

    @Test func theRefusalOfAMethodNamesTheMostSpecificRule() throws {
        let table = try table(["/b", "GET /a/*", "GET /a/b", "PUT /a/b"])
        let match = "/a/b".withRawBytes { path in
            table.match(host: RawSpan(), path: path, method: .post, methodText: ("POST" as StaticString).rawBytes)
        }
        #expect(match == .methodNotAllowed(MethodSet(bits: 1 << UInt64(Method.get.rawValue) | 1 << UInt64(Method.put.rawValue)), by: 2))
    }

    @Test(arguments: [
        ("POST", "/login", "login"), ("POST", "/login/", "login"), ("GET", "/login", "405 POST"), ("PUT", "/login/", "405 POST"),
        ("POST", "/login/x", "/*"), ("GET", "/user", "GET /user"), ("POST", "/user", "user"), ("PUT", "/user", "405 GET, POST"),
        ("GET", "/", "/*"),
    ])
    func anEndpointAnswersForItsPathAlone(_ method: String, _ path: String, _ expected: String) throws {
        let table = try RouteTable([rule("/*", "/*"), endpoint("login"), endpoint("user"), rule("GET /user", "GET /user")])
        #expect(table.answer(method, "h", path) == expected)
    }

    @Test(arguments: ["POST /login", "POST /login/", "PUT /login"])
    func anEndpointAndARouteOfItsRequestsAreEqual(_ pattern: String) {
        let clash: () throws -> RouteTable = { try RouteTable([rule("mine", pattern), endpoint("login")]) }
        guard pattern.hasPrefix("POST") else {
            #expect(throws: Never.self) { try clash() }
            return
        }
        #expect(throws: RouteFault.equal("mine", "login")) { try clash() }
    }

    @Test func noRuleTakesTraceAndNoneAllowsIt() throws {
        let table = try table(["/a", "GET /a", "h.test/*", "POST /b/*", "/*"])
        let all = "405 GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS"
        #expect(table.answer("TRACE", "h", "/a") == all)
        #expect(table.answer("TRACE", "h.test", "/x") == all)
        #expect(try RouteTable([rule("b", "POST /b/*")]).answer("TRACE", "h", "/b/c") == "405 POST")
        #expect(try RouteTable([rule("b", "/b")]).answer("TRACE", "h", "/c") == "404")
        #expect(table.answer("PURGE", "h", "/a") == "/a")
    }

    @Test func getDoesNotAdmitHead() throws {
        #expect(try table(["GET /a"]).answer("HEAD", "h", "/a") == "405 GET")
    }

    @Test func aLessSpecificRuleTakesTheMethodsTheOtherLeaves() throws {
        let table = try table(["GET /a/b", "/a/*"])
        #expect(table.answer("GET", "h", "/a/b") == "GET /a/b")
        #expect(table.answer("POST", "h", "/a/b") == "/a/*")
    }

    @Test(arguments: [
        (["/a", "/a"], true), (["/a", "/b"], false), (["/a/*", "/a/"], false), (["/a/*", "/a*"], false), (["/a/*", "/a"], false),
        (["/a//b", "/a/b"], true), (["/%61", "/a"], true), (["GET /a", "POST /a"], false), (["GET /a", "GET /a"], true),
        (["GET,PUT /a", "GET,POST /a"], true), (["GET,PUT /a", "GET /a"], false), (["h.test/a", "/a"], false),
        (["h.test/a", "H.TEST./a"], true), (["/a/*", "/a/*"], true), (["PURGE /a", "PURGE /a"], true),
        (["PURGE /a", "BAN /a"], false), (["/a/{x}", "/a/{y}"], true), (["/a/{x}", "/a/x"], false), (["/a/{x}", "/a/*"], false),
        (["/{x}/b", "/a/{y}"], false), (["/a/{x}/*", "/a/{y}/*"], true), (["GET /a/{x}", "POST /a/{y}"], false),
    ])
    func twoEqualRulesAreAnErrorThatNamesBoth(_ patterns: [String], _ areEqual: Bool) {
        let rules = patterns.enumerated().map { rule("route\($0.offset)", $0.element) }
        if areEqual {
            #expect(throws: RouteFault.equal("route0", "route1")) { try RouteTable(rules) }
        } else {
            #expect(throws: Never.self) { try RouteTable(rules) }
        }
    }

    @Test func aRuleThatCannotBeMatchedIsAnError() {
        #expect(throws: RouteFault.badPath("r", .aboveRoot)) { try RouteTable([rule("r", "/../a")]) }
        #expect(throws: RouteFault.badPath("r", .encodedSlash)) { try RouteTable([rule("r", "/a%2fb")]) }
        #expect(throws: RouteFault.badMethod("r", "G(T")) { try RouteTable([rule("r", "G(T /a")]) }
        #expect(throws: RouteFault.badMethod("r", "TRACE")) { try RouteTable([rule("r", "GET,TRACE /a")]) }
        #expect(throws: RouteFault.badHost("r", "a:80")) { try RouteTable([rule("r", "a:80/a")]) }
        for host in ["*.a", "a..", ".a", "a..b", "."] {
            #expect(throws: RouteFault.badHost("r", host)) { try RouteTable([rule("r", "\(host)/a")]) }
        }
    }

    @Test func aRuleMayTakeAnEncodedSlash() throws {
        var slashed = rule("r", "/a%2fb/*")
        slashed.encodedSlashPasses = true
        #expect(try RouteTable([slashed]).answer("GET", "h", "/a%2Fb/c") == "r")
    }

    /// The trie against the rules read one by one.
    @Test func theTrieAgreesWithReadingEveryRule() throws {
        var random = SplitMix64(seed: 7)
        func path(_ words: [String]) -> String {
            (0..<random.next() % 4).reduce("") { text, _ in text + "/" + words[Int(random.next() % UInt64(words.count))] }
                + (random.next() % 3 == 0 ? "/" : "")
        }
        let words = ["a", "b", "ab", "abc", "c"]
        for _ in 0..<150 {
            var rules: [RouteRule] = []
            for number in 0..<12 {
                let method = ["", "GET ", "GET,POST ", "DELETE "][Int(random.next() % 4)]
                let host = ["", "", "h.test"][Int(random.next() % 3)]
                let place = path(words + ["{x}", "{y}"])
                let pattern = "\(method)\(host)\(place.isEmpty ? "/" : place)\(random.next() % 2 == 0 ? "*" : "")"
                let candidate = rule("\(number)", pattern)
                // Rules that conflict with an earlier one are left out.
                if case .success = Result(catching: { try RouteTable(rules + [candidate]) }) { rules.append(candidate) }
            }
            let table = try RouteTable(rules)
            for _ in 0..<60 {
                let place = path(words)
                let asked = place.isEmpty ? "/" : place
                let method = ["GET", "POST", "DELETE"][Int(random.next() % 3)]
                let host = random.next() % 2 == 0 ? "h.test" : "x.test"
                let found = table.answer(method, host, asked)
                let expected = Self.best(rules, method, host, asked)
                #expect(found.hasPrefix("4") == (expected == nil) || found == expected, "\(method) \(host)\(asked)")
                if let expected { #expect(found == expected, "\(method) \(host)\(asked)") }
            }
        }
    }

    private static func best(_ rules: [RouteRule], _ method: String, _ host: String, _ path: String) -> String? {
        func takes(_ rule: RouteRule) -> Bool {
            guard rule.methods.isEmpty || rule.methods.contains(method), rule.host == nil || rule.host == host else { return false }
            return takes(Array(rule.path.utf8)[...], rule.isPrefix, Array(path.utf8)[...])
        }
        func takes(_ pattern: ArraySlice<UInt8>, _ isPrefix: Bool, _ path: ArraySlice<UInt8>) -> Bool {
            guard let next = pattern.first else { return isPrefix || path.isEmpty }
            // A prefix takes its path without the last slash too.
            if isPrefix, pattern.count == 1, next == UInt8(ascii: "/"), path.isEmpty { return pattern.startIndex > 0 }
            guard next == UInt8(ascii: "{") else { return path.first == next && takes(pattern.dropFirst(), isPrefix, path.dropFirst()) }
            let segment = path.prefix { $0 != UInt8(ascii: "/") }
            let rest = pattern.drop { $0 != UInt8(ascii: "}") }.dropFirst()
            return !segment.isEmpty && takes(rest, isPrefix, path.dropFirst(segment.count))
        }
        /// For each segment a literal before one that is partly `*`, before a braced name, before `*`; then no `*` before one.
        func rank(_ rule: RouteRule) -> [Int] {
            let segments = rule.path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
            var rank = [rule.host == nil ? 0 : 1]
            for (index, segment) in segments.enumerated() {
                let isStarred = rule.isPrefix && index == segments.count - 1
                switch (segment.hasPrefix("{"), isStarred) {
                case (true, _): rank += [1, 0]
                case (false, true): rank += [segment.isEmpty ? 0 : 2, segment.utf8.count]
                case (false, false): rank += [3, 0]
                }
            }
            return rank + [rule.isPrefix ? 0 : 9, -(rule.methods.isEmpty ? 64 : rule.methods.count)]
        }
        return rules.filter(takes).max { rank($0).lexicographicallyPrecedes(rank($1)) }?.name
    }
}
