import Credentials
import Gate
import Testing

@testable import Settings
@testable import tollgate

@Suite struct RouteLineTests {
    private func parse(_ value: String) -> (RouteDeclaration, Findings) {
        RouteLine.parse(EnvEntry(name: "R", value: value, origin: .environment), name: "r", tiers: .standard)
    }

    /// A line, and its rule as it prints itself.
    static let good: [(String, String)] = [
        ("/* upstream=u", "/*"), ("/a upstream=u", "/a"), ("GET /a/* upstream=u", "GET /a/*"),
        ("GET,HEAD api.example.org/v1/* upstream=u auth=optional", "GET,HEAD api.example.org/v1/*"),
        ("API.Example.org/ upstream=u", "api.example.org/"), ("PROPFIND /dav/* upstream=U", "PROPFIND /dav/*"),
        ("upstream=u /late", "/late"), ("POST\t/a  upstream=u\tauth=none", "POST /a"),
    ]

    @Test(arguments: good) func methodsHostAndPathAreRead(_ value: String, _ pattern: String) {
        let (route, findings) = parse(value)
        #expect(findings.faults == [])
        #expect(route.rule.pattern == pattern)
        #expect(route.upstream == "u")
    }

    @Test func aBareRouteHasTheDefaults() {
        let rule = parse("/* upstream=u").0.rule
        #expect(rule.auth == .required)
        #expect(rule.tier == nil)
        #expect(rule.limits == [])
        #expect(rule.limitBy == .user)
        #expect(rule.claims == [])
        #expect(!rule.forwardsAuthorization)
        #expect(rule.maxAgeSeconds == nil)
        #expect(!rule.signsIdentity)
        #expect(rule.bodyLimit == 10 << 20)
        #expect(rule.errors == .password)
        #expect(!rule.encodedSlashPasses)
        #expect(rule.shadow == [])
        #expect(rule.streams == StreamRule())
    }

    @Test func everyKeyIsRead() {
        let (route, findings) = parse(
            "/s/* upstream=u auth=optional tier=premium limit=free:60/m,premium:600/m+burst=10 limit=5/s+by=address limit-by=header:X-Key claims=a=b,c=d=e forward=authorization strip=/s timeout=5s body-limit=64MiB retries=2 errors=problem encoded-slash=pass shadow=limit,tier stream-expiry=keep websocket=on websocket-max=5 max-age=5m identity=signed")
        let rule = route.rule
        #expect(findings.faults == [])
        #expect(rule.auth == .optional)
        #expect(rule.tier == Tier(rawValue: 1))
        #expect(rule.limits.map { $0.tiers.map(\.rate.burst) } == [[60, 10], [5, 5]])
        #expect(rule.limits.map { $0.anonymous.by } == [nil, .address])
        #expect(rule.limitBy == .header("x-key"))
        #expect(rule.claims == [ClaimRequirement(name: "a", value: "b"), ClaimRequirement(name: "c", value: "d=e")])
        #expect(rule.forwardsAuthorization)
        #expect(rule.strip == "/s")
        #expect(rule.maxAgeSeconds == 300)
        #expect(rule.signsIdentity)
        #expect(rule.timeoutMilliseconds == 5_000)
        #expect(rule.bodyLimit == 64 << 20)
        #expect(rule.retries == 2)
        #expect(rule.errors == .problem)
        #expect(rule.encodedSlashPasses)
        #expect(rule.shadow == [.limit, .tier])
        #expect(rule.streams.expiry == .keep)
        #expect(rule.takesWebSockets && rule.mostWebSockets == 5)
    }

    @Test(arguments: ["keep=X-Original-URL,x-http-method-override", "forward=email keep=X-HTTP-Method-Override,X-Original-URL"])
    func keptFieldsAndForwardsAreParsed(_ options: String) throws {
        let (route, findings) = parse("/a upstream=u \(options)")
        #expect(findings.faults == [])
        #expect(route.rule.keptFields.text == "X-Original-URL,X-HTTP-Method-Override")
        #expect(route.rule.forwardsEmail == options.contains("email"))
        #expect(!route.rule.forwardsAuthorization)
        #expect(!route.rule.forwardsName)
        let all = parse("/a upstream=u forward=email,authorization,name").0.rule
        #expect(all.forwardsAuthorization && all.forwardsEmail && all.forwardsName)
    }

    static let bad: [(String, String)] = [
        ("upstream=u", "has no path, write one like GET,HEAD /api/*"),
        ("/a", "has no upstream=, write upstream=NAME"),
        ("GET upstream=u", #""GET" is no path, write one like /api/* or api.example.org/v1/*"#),
        ("GET /a /b upstream=u", "has more words than methods and a path, write METHODS HOST/PATH and then key=value"),
        ("get /a upstream=u", #""get" is no list of methods, write names in capitals like GET,HEAD, or none for all"#),
        ("GET, /a upstream=u", #""GET," is no list of methods, write names in capitals like GET,HEAD, or none for all"#),
        ("* /a upstream=u", #""*" is no list of methods, write names in capitals like GET,HEAD, or none for all"#),
        ("GET,GET /a upstream=u", #""GET,GET" names a method twice, keep one of them"#),
        ("/a/*/b upstream=u", #""/a/*/b" has a * inside, which can only end a path"#),
        ("*.example.org/ upstream=u", #""*.example.org/" has a * inside, which can only end a path"#),
        ("/a?b upstream=u", #""/a?b" has a query or a fragment, write the path alone"#),
        ("/a upstream=u limt=1/m", #""limt" is no option here, the nearest is limit"#),
        ("/a upstream=u auth=maybe", #""auth=maybe" is not known, write required, optional, none or internal"#),
        ("/a upstream=u tier=gold", #""tier=gold" names no tier, the tiers are free, premium"#),
        ("/a upstream=u limit=1/m limit-by=moon", #""limit-by=moon" is not known, write user, address, session or header:NAME"#),
        ("/a upstream=u limit-by=user", "limit-by= needs a limit, add limit=60/m or remove it"),
        ("/a upstream=u limit=1/s limit=1/m limit=1/h limit=1/d limit=2/d", "limit= is given more than 4 times, keep 4 at most"),
        ("/a upstream=u auth=none auth=none", "auth= is given twice, keep one of them"),
        ("/a upstream=u limit=1/m limit=5", #""limit=5" is no limit: "5" is no rate; a rate is like 60/m, 10/h+burst=5, 100/s+lease or 60/m+by=address"#),
        ("/a upstream=u limit=1/m+by=moon", #""limit=1/m+by=moon" is no limit: "+by=moon" is not known; write +by=user, address, session or header:NAME"#),
        ("/a upstream=u claims=role", #""claims=role" is no list of claims, write claims=name=value,name=value"#),
        ("/a upstream=u forward=cookie", #""forward=cookie" is not known, write authorization, email, name or several with commas"#),
        ("/a upstream=u auth=none forward=name", "forward=name does not go with auth=none, which ignores the identity, write auth=required"),
        ("/a upstream=u auth=none forward=email", "forward=email does not go with auth=none, which ignores the identity, write auth=required"),
        ("/a upstream=u keep=X-User-Id", #""keep=X-User-Id" names "X-User-Id", which the gateway writes itself, leave it out"#),
        ("/a upstream=u keep=x_user_email_verified", #""keep=x_user_email_verified" names "x_user_email_verified", which the gateway writes itself, leave it out"#),
        ("/a upstream=u keep=X-Real-IP", #""keep=X-Real-IP" names "X-Real-IP", which the gateway writes itself, leave it out"#),
        ("/a upstream=u keep=X-Forwarded-For", #""keep=X-Forwarded-For" names "X-Forwarded-For", which the gateway writes itself, leave it out"#),
        ("/a upstream=u keep=Forwarded", #""keep=Forwarded" names "Forwarded", which the gateway writes itself, leave it out"#),
        ("/a upstream=u keep=X-Internal-Key", #""keep=X-Internal-Key" names "X-Internal-Key", a credential for the gateway only, leave it out"#),
        ("/a upstream=u keep=authorization", #""keep=authorization" names "authorization", a credential for the gateway only, leave it out"#),
        ("/a upstream=u keep=transfer__encoding", #""keep=transfer__encoding" names "transfer__encoding", which ends at the gateway, leave it out"#),
        ("/a upstream=u keep=Host", #""keep=Host" names "Host", which ends at the gateway, leave it out"#),
        ("/a upstream=u keep=X-Orignal-URL", #""keep=X-Orignal-URL" names "X-Orignal-URL", which is not removed, the nearest that is would be X-Original-URL"#),
        ("GET,TRACE /a upstream=u", #""GET,TRACE" names TRACE, which no route takes, leave it out"#),
        ("/a upstream=u strip=a", #""strip=a" is no path to remove, write one like /content"#),
        ("/a upstream=u body-limit=10MB", #""body-limit=10MB" is no size, write one like 512, 64KiB or 10MiB"#),
        ("/a upstream=u errors=xml", #""errors=xml" is not known, write password, provider, dlauth, apple, anonymous or problem"#),
        ("/a upstream=u shadow=all", #""shadow=all" is not known, write limit, tier, filter or several with commas"#),
        ("/a upstream=u auth=none max-age=5m", "max-age= does not go with auth=none, which ignores the identity, write auth=required"),
        ("/a upstream=u auth=none identity=signed", "identity=signed does not go with auth=none, which ignores the identity, write auth=required"),
        ("/a upstream=u auth=none tier=premium", "tier= does not go with auth=none, which ignores the identity, write auth=required"),
        ("/a upstream=u stream-expiry=keep stream-warning=60s", "stream-warning= warns before an end that stream-expiry=keep does not make, remove one of them"),
        ("/a upstream=u stream-expiry=longer", "\"stream-expiry=longer\" is not known, write extend, close or keep"),
        ("/a upstream=u auth=none stream-expiry=close", "stream-expiry= does not go with auth=none, which ignores the identity, write auth=required"),
        ("/a upstream=u auth=none claims=a=b", "claims= does not go with auth=none, which ignores the identity, write auth=required"),
        ("/a upstream=u filter=results[]", #""filter=results[]" is no filter: it ends in an array, name the field of its elements: results[].tier"#),
        ("/a upstream=u filter=data.tier", #""filter=data.tier" is no filter: it has several names and no array, write a field like tier or a path like results[].tier"#),
        ("/a upstream=u filter=a..tier", #""filter=a..tier" is no filter: a name is empty, write a field like tier or a path like results[].tier"#),
        ("/a upstream=u filter=a[0].tier", #""filter=a[0].tier" is no filter: "a[0]" has a bracket that does not belong there, an array is written results[]"#),
        ("/a upstream=u filter=tier filter=tier", "filter= names the same twice, keep one of them"),
        ("/a upstream=u filter-strict=on", "filter-strict= needs a filter, add filter=tier or remove it"),
        ("/a upstream=u shadow=filter", "shadow=filter needs a filter, add filter=tier or remove it"),
        ("/a upstream=u filter-require=on", "filter-require= needs a filter, add filter=tier or remove it"),
        ("/a upstream=u filter-unlabelled=drop", "filter-unlabelled= needs a filter, add filter=tier or remove it"),
        ("/a upstream=u filter=tier filter-unlabelled=gold", #""filter-unlabelled=gold" is not known, write keep, drop or a tier: free, premium"#),
        ("/a upstream=u filter=tier filter-unlabelled=keep filter-require=on", "filter-require= is the older form of filter-unlabelled=, keep filter-unlabelled= alone"),
        ("/a upstream=u filter=tier filter-strict=yes", #""filter-strict=yes" is not known, write on or off"#),
        ("/a upstream=u websocket-max=5", "websocket-max= needs websocket=on, add it or remove websocket-max="),
        ("POST /a upstream=u websocket=on", "websocket=on needs the method GET, add it"),
        ("/a upstream=u websocket=on filter=tier", "filter= does not go with websocket=on, whose messages are not filtered, use a route for each"),
        ("/a upstream=u auth=none filter=tier", "filter= does not go with auth=none, which ignores the identity, write auth=optional: callers without a token get the lowest tier's view"),
    ]

    @Test(arguments: bad) func anInvalidRouteIsAFault(_ value: String, _ message: String) {
        #expect(parse(value).1.faults.map(\.message) == [message])
    }

    @Test(arguments: ["limit=60", "limit=premium:6/m", "limit=free:6/y", "limit=0/s"]) func anInvalidLimitIsAFaultWithTheGatesMessage(_ limit: String) {
        let found = parse("/a upstream=u \(limit)").1.faults.map(\.message)
        #expect(found.count == 1)
        #expect(found.first?.hasPrefix("\"\(limit)\" is no limit: ") == true)
    }

    @Test func aStripThatDoesNotFitEveryPathIsAWarning() {
        #expect(parse("/a upstream=u limit=60/m+lease").1.warnings.isEmpty)
        #expect(parse("/a upstream=u strip=/b").1.warnings.map(\.message) == ["strip=/b is not a prefix of every path of the route, the others stay as they are"])
    }

    @Test(arguments: [
        ("/p/{kind}/{id}/review", "/p/{kind}", true), ("/p/{kind}/{id}", "/p/{other}", true), ("/p/words/*", "/p/{kind}", true),
        ("/p/{kind}/x", "/p/words", false), ("/p/*", "/p/{kind}", false), ("/p/wor*", "/p/{kind}", false), ("/p/words", "/p/words", true),
        ("/p/words/*", "/p/words/", true), ("/p/wordsmith", "/p/words", false),
    ])
    func aStripThatSomePathsOfTheRouteDoNotBeginWithIsAWarning(_ path: String, _ strip: String, _ reaches: Bool) {
        #expect(parse("\(path) upstream=u strip=\(strip)").1.warnings.isEmpty == reaches)
    }

    @Test(arguments: ["/a{x}", "/{x", "/{x}*"]) func bracesThatEncloseNoSegmentAreToldWithTheLine(_ path: String) {
        #expect(faults("TOLLGATE_UPSTREAM_U=http://a\nTOLLGATE_ROUTE_R=\"\(path) upstream=u\"")
            == ["a.env:2: TOLLGATE_ROUTE_R: has a brace that encloses no whole segment, write one like /items/{id}/review"])
    }

    @Test func anUnknownUpstreamIsAFaultWithTheNearestName() throws {
        let text = "TOLLGATE_UPSTREAM_ONE=http://a\nTOLLGATE_UPSTREAM_CONTENT=http://b\nTOLLGATE_ROUTE_R=\"/one upstream=one\"\n"
        let configuration = try #require(load(text + "TOLLGATE_ROUTE_S=\"/ upstream=CONTENT\"").configuration)
        #expect(configuration.settings.routes.map(\.rule.target) == [.upstream(0), .upstream(1)])
        #expect(faults(text + "TOLLGATE_ROUTE_S=\"/ upstream=contnt\"") == ["a.env:4: TOLLGATE_ROUTE_S: upstream=contnt names no upstream, the nearest is content"])
        let multiplexed = "TOLLGATE_UPSTREAM_M=\"http://h http2=on\"\n"
        #expect(faults(multiplexed + "TOLLGATE_ROUTE_S=\"/ upstream=m websocket=on\"") == [
            "a.env:2: TOLLGATE_ROUTE_S: has websocket=on, which needs an upstream over HTTP/1.1, and m has http2=on: name another upstream"
        ])
        #expect(faults("TOLLGATE_ROUTE_S=\"/ upstream=x\"") == ["a.env:1: TOLLGATE_ROUTE_S: upstream=x names no upstream, set TOLLGATE_UPSTREAM_X"])
    }

    @Test func routesWithTheSamePatternAreAFaultWithBothLines() {
        let text = "TOLLGATE_UPSTREAM_U=http://a\nTOLLGATE_ROUTE_A=\"GET /x upstream=u\"\nTOLLGATE_ROUTE_B=\"/y upstream=u\"\nTOLLGATE_ROUTE_C=\"GET //x upstream=u\"\nTOLLGATE_ROUTE_D=\"GET /x upstream=u\""
        #expect(
            faults(text) == [
                "a.env:4: TOLLGATE_ROUTE_C: takes the same requests as TOLLGATE_ROUTE_A (a.env:2), change or remove one",
                "a.env:5: TOLLGATE_ROUTE_D: takes the same requests as TOLLGATE_ROUTE_A (a.env:2), change or remove one",
            ])
    }

    @Test func anUnmatchablePathIsAFault() {
        let found = faults(oneRoute + "TOLLGATE_ROUTE_B=\"/../x upstream=u\"")
        #expect(found.count == 1)
        #expect(found.first?.hasPrefix("a.env:3: TOLLGATE_ROUTE_B: has a path that cannot be matched: ") == true)
    }

    @Test func tooManyClaimRequirementsAreAFault() {
        let claims = (0...Trust.maximumRequirements).map { "c\($0)=x" }.joined(separator: ",")
        #expect(faults(oneRoute + "TOLLGATE_ROUTE_B=\"/b upstream=u claims=\(claims)\"") == ["a.env:3: TOLLGATE_ROUTE_B: brings the routes to 65 different claims, have at most 64"])
    }

    @Test func anInternalRouteWithoutCallersIsAWarning() {
        let text = "TOLLGATE_UPSTREAM_U=http://a\nTOLLGATE_ROUTE_R=\"/i upstream=u auth=internal\"\n"
        #expect(warnings(text) == ["a.env:2: TOLLGATE_ROUTE_R: has auth=internal and there is no TOLLGATE_INTERNAL_<NAME>, every request is refused"])
        #expect(warnings(text + "TOLLGATE_INTERNAL_A=cidr=10.0.0.0/8") == [])
    }
}
