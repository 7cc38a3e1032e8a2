import Credentials
import HTTP
import Testing
import Wire

@testable import Gate

/// Pages of other origins: who may call, and what their browsers are told.
@Suite struct CORSTests {
    private static let app = "https://app.example.org"
    private static let evil = "https://evil.test"
    private static let exposed =
        "Access-Control-Expose-Headers: WWW-Authenticate, Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id, X-New-Access-Token, X-New-Refresh-Token, X-New-Token-Expires-At"
    private static let allowed =
        "Access-Control-Allow-Headers: Accept, Accept-Language, Content-Language, Content-Type, Authorization, If-Match, If-Modified-Since, If-None-Match, If-Unmodified-Since, Last-Event-ID, Range, traceparent, tracestate, X-Request-Id"

    private func cors(_ origins: String..., change: (inout CORSRule) -> Void = { _ in }) throws -> CORSRule {
        var rule = CORSRule(try CORSOrigins(origins))
        change(&rule)
        return rule
    }

    /// Routes of every policy, and one for everything else if `fallback`.
    private func harness(fallback: CORSRule? = nil, ownOrigin: String? = "https://gate.test") throws -> AdmissionHarness {
        var plain = rule("plain", "GET,POST /plain/*", auth: .optional)
        plain.cors = try cors(Self.app, "https://*.example.net")
        plain.limits = [try LimitPolicy(parsing: "1000/s", tiers: .standard)]
        var cookies = rule("cookies", "/cookies/*", auth: .none)
        cookies.cors = try cors(Self.app) {
            $0.allowsCredentials = true
            $0.requestFields = ["X-Device", "content-type"]
            $0.furtherExposed = ["X-Total-Count", "x-request-id"]
            $0.maxAgeSeconds = 5
        }
        var open = rule("open", "/open/*", auth: .none)
        open.cors = try cors("*")
        var socket = rule("socket", "GET /socket", auth: .none)
        socket.cors = plain.cors
        socket.takesWebSockets = true
        var needed = rule("needed", "GET /mixed", auth: .required)
        needed.cors = plain.cors
        needed.tier = Tier(rawValue: 1)
        var other = rule("other", "PUT /mixed", auth: .required)
        other.cors = cookies.cors
        let off = rule("off", "DELETE /mixed", auth: .required)
        let rules = [plain, cookies, open, socket, needed, other, off, rule("away", "/away/*", auth: .none)]
        return AdmissionHarness(
            try Policy(
                rules: rules, trust: AdmissionHarness.trust(), trustedProxies: [CIDR(parsing: "10.0.0.0/8")!], cors: fallback,
                ownOrigin: ownOrigin))
    }

    private func fields(_ judged: Judged) -> [String] { judged.answerLines.filter { !$0.hasPrefix("RateLimit") && !$0.hasPrefix("X-RateLimit") } }

    // MARK: answers

    @Test func anAllowedOriginReadsTheAnswer() throws {
        let harness = try harness()
        for origin in [Self.app, "https://a.example.net", "https://a.b.example.net"] {
            let judged = harness.get("/plain/x", "Origin: \(origin)")
            #expect(judged.status == 0 && judged.cors == .allowed)
            #expect(fields(judged) == ["Vary: Origin", "Access-Control-Allow-Origin: \(origin)", Self.exposed])
        }
    }

    @Test func credentialsAndMoreFieldsAreAddedWhereTheRouteSaysSo() throws {
        let judged = try harness().get("/cookies/x", "Origin: \(Self.app)")
        #expect(
            fields(judged) == [
                "Vary: Origin", "Access-Control-Allow-Origin: \(Self.app)", "Access-Control-Allow-Credentials: true",
                Self.exposed + ", X-Total-Count",
            ])
    }

    @Test func everyOriginIsAnsweredWithAStarAndNeverWithItsName() throws {
        for origin in [Self.evil, "null", "anything at all"] {
            let judged = try harness().get("/open/x", "Origin: \(origin)")
            #expect(judged.cors == .allowed)
            #expect(fields(judged) == ["Vary: Origin", "Access-Control-Allow-Origin: *", Self.exposed])
        }
    }

    @Test(arguments: [
        "https://evil.test", "null", "https://example.net", "http://app.example.org", "https://app.example.org:8443", "https://app.example.org.evil.test",
        "", "https://app.example.org, https://evil.test",
    ])
    func aForeignOriginGetsNoFieldButVary(_ origin: String) throws {
        let judged = try harness().get("/plain/x", "Origin: \(origin)")
        #expect(judged.status == 0 && judged.cors == .foreign)
        #expect(fields(judged) == ["Vary: Origin"])
    }

    /// No preflight and no rule of browsers stands between a page and the WebSockets of another origin.
    @Test(arguments: [("https://evil.test", 403), (app, 0), ("https://gate.test", 0), (nil, 0)])
    func aForeignPageOpensNoWebSocket(_ origin: String?, _ status: Int) throws {
        let handshake =
            "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
        #expect(try harness().get("/socket", handshake + (origin.map { "\nOrigin: \($0)" } ?? "")).status == status)
    }

    @Test func twoOriginFieldsAreForeign() throws {
        let judged = try harness().get("/plain/x", "Origin: \(Self.app)\nOrigin: \(Self.app)")
        #expect(judged.cors == .foreign && fields(judged) == ["Vary: Origin"])
    }

    @Test func aRequestWithoutOriginStillVaries() throws {
        #expect(fields(try harness().get("/plain/x")) == ["Vary: Origin"])
    }

    @Test func aRouteWithoutAPolicyLeavesItAllToTheUpstream() throws {
        let harness = try harness(fallback: cors("*"))
        for origin in [Self.app, Self.evil] { #expect(harness.get("/away/x", "Origin: \(origin)").answerLines == []) }
        #expect(harness.ask("POST /away/x HTTP/1.1\nHost: h\nOrigin: \(Self.evil)\nCookie: a=b").status == 0)
        let preflight = harness.ask("OPTIONS /away/x HTTP/1.1\nHost: h\nOrigin: \(Self.app)\nAccess-Control-Request-Method: PUT")
        #expect(preflight.verdict == .forward(upstream: 0))
    }

    @Test func refusalsCarryTheirFieldsToo() throws {
        let harness = try harness(fallback: cors(Self.app))
        let read = ["Vary: Origin", "Access-Control-Allow-Origin: \(Self.app)", Self.exposed]
        let origin = "Origin: \(Self.app)"
        let free = AdmissionHarness.token()
        for (judged, status) in [
            (harness.get("/mixed", origin), 401), (harness.get("/mixed", token: "bad", origin), 401), (harness.get("/mixed", token: free, origin), 403),
            (harness.get("/plain/x", token: free, "\(origin)\nAuthorization: x"), 400), (harness.get("/nowhere", origin), 404),
            (harness.get("/a/../..", origin), 400), (harness.ask("PUT /plain/x HTTP/1.1\nHost: h\n\(origin)"), 405),
            (harness.ask("POST /plain/x HTTP/1.1\nHost: h\n\(origin)\nContent-Length: 99999999"), 413),
        ] {
            #expect(judged.status == status)
            #expect(fields(judged) == read, "\(status)")
        }
        for _ in 0..<1_000 { _ = harness.get("/plain/x", origin) }
        let limited = harness.get("/plain/x", origin)
        #expect(limited.status == 429 && fields(limited) == read)
    }

    @Test func answersWithoutARouteFollowTheCommonPolicyAlone() throws {
        #expect(try harness().get("/nowhere", "Origin: \(Self.app)").answerLines == [])
        #expect(try harness(fallback: cors(Self.evil)).get("/nowhere", "Origin: \(Self.evil)").cors == .allowed)
        // The method that is missing belongs to routes, and the most specific one rules.
        let judged = try harness(fallback: cors(Self.evil)).ask("PUT /plain/x HTTP/1.1\nHost: h\nOrigin: \(Self.app)")
        #expect(judged.status == 405 && judged.cors == .allowed)
    }

    // MARK: foreign origins that would change something

    @Test(arguments: [
        ("POST", "Cookie: a=b", 403), ("POST", "Authorization: Bearer x", 403), ("PUT", "Cookie: a=b", 403), ("DELETE", "Cookie: a=b", 403),
        ("PURGE", "Cookie: a=b", 403), ("POST", "X-Nothing: x", 0), ("GET", "Cookie: a=b", 0), ("HEAD", "Cookie: a=b", 0),
        ("OPTIONS", "Cookie: a=b", 0),
    ])
    func credentialsOfAForeignPageChangeNothing(_ method: String, _ field: String, _ status: Int) throws {
        let judged = try harness().ask("\(method) /cookies/x HTTP/1.1\nHost: h\nOrigin: \(Self.evil)\n\(field)")
        #expect(judged.status == status)
        #expect(fields(judged) == ["Vary: Origin"])
        guard status == 403 else { return }
        #expect(judged.code == "FORBIDDEN" && judged.reason == .foreignOrigin && judged.route == "cookies" && judged.identity == [])
    }

    @Test func aForeignPageIsRefusedBeforeItsTokenIsReadOrItsLimitCharged() throws {
        let harness = try harness()
        let judged = harness.ask("POST /plain/x HTTP/1.1\nHost: h\nOrigin: \(Self.evil)\nAuthorization: Bearer \(AdmissionHarness.token())")
        #expect(judged.verdict == .refuse(.forbidden(.origin)) && judged.source == .none && judged.limit.result == .none)
        #expect(judged.headers == ["WWW-Authenticate: Bearer realm=\"tollgate\""])
    }

    private static let own: [(origin: String, host: String, isTLS: Bool, more: String, standing: CORSStanding)] = [
        ("https://gate.test", "elsewhere", true, "", .own), ("https://gate.test", "elsewhere", false, "", .own),
        ("http://gate.test", "elsewhere", false, "", .foreign), ("https://gate.test:8443", "elsewhere", true, "", .foreign),
        ("https://api.test", "api.test", true, "", .own), ("https://api.test", "API.test:443", true, "", .own),
        ("https://api.test:8443", "api.test:8443", true, "", .own), ("https://api.test:8443", "api.test", true, "", .foreign),
        ("https://api.test", "api.test:8443", true, "", .foreign), ("http://api.test", "api.test", true, "", .foreign),
        ("http://api.test", "api.test", false, "", .own), ("http://api.test", "api.test:80", false, "", .own),
        ("http://api.test:443", "api.test:443", false, "", .own),
        // A proxy in front ends TLS.
        ("https://api.test", "api.test", false, "", .own),
        ("http://api.test", "api.test", false, "X-Forwarded-Proto: https", .foreign),
        ("http://api.test", "api.test", false, "X-Forwarded-Proto: http", .own),
        ("http://evil.test", "api.test", false, "", .foreign), ("null", "null", false, "", .foreign), ("ftp://api.test", "api.test", false, "", .foreign),
        ("https://", "api.test", true, "", .foreign), ("https://api.test/", "api.test", true, "", .foreign),
    ]

    @Test(arguments: own) func theGatewaysOwnOriginIsNeverForeign(
        _ origin: String, _ host: String, _ isTLS: Bool, _ more: String, _ standing: CORSStanding
    ) throws {
        let request = "POST /cookies/x HTTP/1.1\nHost: \(host)\nOrigin: \(origin)\nCookie: a=b\(more.isEmpty ? "" : "\n" + more)"
        let judged = try harness().ask(request, from: "10.0.0.1", isTLS: isTLS)
        #expect(judged.cors == standing)
        #expect(judged.status == (standing == .own ? 0 : 403))
        #expect(fields(judged) == ["Vary: Origin"])
    }

    @Test func aSchemeThatAStrangerNamesDoesNotCount() throws {
        let request = "POST /cookies/x HTTP/1.1\nHost: api.test\nOrigin: http://api.test\nX-Forwarded-Proto: https\nCookie: a=b"
        #expect(try harness().ask(request, from: "192.0.2.1").cors == .own)
    }

    // MARK: preflights

    private func preflight(_ harness: AdmissionHarness, _ path: String, _ method: String, origin: String = app, _ more: String = "") -> Judged {
        harness.ask(
            "OPTIONS \(path) HTTP/1.1\nHost: h\nOrigin: \(origin)\nAccess-Control-Request-Method: \(method)\(more.isEmpty ? "" : "\n" + more)")
    }

    @Test func aPreflightIsAnsweredByTheMethodsOfItsPath() throws {
        let harness = try harness()
        let judged = preflight(harness, "/plain/x", "POST", "Access-Control-Request-Headers: authorization")
        #expect(judged.verdict == .answer(status: 204))
        #expect(judged.route == "plain" && judged.auth == .notLooked && judged.limit.result == .none)
        #expect(
            judged.answerLines == [
                "Vary: Origin", "Access-Control-Allow-Origin: \(Self.app)", Self.exposed, "Access-Control-Allow-Methods: GET, POST",
                Self.allowed, "Access-Control-Max-Age: 600",
            ])
        let cookies = preflight(harness, "/cookies//./x", "DELETE").answerLines
        #expect(
            cookies == [
                "Vary: Origin", "Access-Control-Allow-Origin: \(Self.app)", "Access-Control-Allow-Credentials: true",
                Self.exposed + ", X-Total-Count", "Access-Control-Allow-Methods: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS",
                Self.allowed + ", X-Device", "Access-Control-Max-Age: 5",
            ])
    }

    private func methods(_ judged: Judged) -> String? {
        judged.answerLines.first { $0.hasPrefix("Access-Control-Allow-Methods: ") }.map { String($0.dropFirst(30)) }
    }

    @Test func aMethodThatNoRouteTakesIsNotOnTheList() throws {
        let harness = try harness()
        #expect(methods(preflight(harness, "/plain/x", "DELETE")) == "GET, POST")
        #expect(methods(preflight(harness, "/plain/x", "PURGE")) == "GET, POST")
    }

    @Test func aRouteForAllMethodsTakesThoseThatHaveNoNameHere() throws {
        let all = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS"
        let harness = try harness()
        #expect(methods(preflight(harness, "/cookies/x", "PURGE")) == all + ", PURGE")
        for junk in ["P URGE", "PURGE, X", "<script>", "", "TRACE", "CONNECT"] { #expect(methods(preflight(harness, "/cookies/x", junk)) == all, "\(junk)") }
    }

    @Test func aMethodOfAnotherPolicyIsNotOnTheList() throws {
        let harness = try harness()
        #expect(methods(preflight(harness, "/mixed", "GET")) == "GET")
        #expect(methods(preflight(harness, "/mixed", "PUT")) == "PUT")
        // The route for it has no policy: the preflight is no business of the gateway's.
        let off = preflight(harness, "/mixed", "DELETE")
        #expect(off.status == 405 && off.verdict != .answer(status: 204))
    }

    @Test func aForeignPreflightIsToldNothing() throws {
        let harness = try harness()
        for origin in [Self.evil, "null"] {
            let judged = preflight(harness, "/plain/x", "POST", origin: origin)
            #expect(judged.verdict == .answer(status: 204) && judged.answerLines == ["Vary: Origin"])
        }
    }

    @Test func aPreflightWithoutARouteFollowsTheCommonPolicy() throws {
        #expect(preflight(try harness(), "/nowhere", "PUT").status == 404)
        let judged = preflight(try harness(fallback: cors(Self.app)), "/nowhere", "PUT")
        #expect(judged.verdict == .answer(status: 204))
        #expect(methods(judged) == "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS")
        #expect(preflight(try harness(fallback: cors(Self.app)), "/a/../..", "PUT").status == 400)
    }

    @Test(arguments: [
        "OPTIONS /plain/x HTTP/1.1\nHost: h\nOrigin: https://app.example.org", "OPTIONS /plain/x HTTP/1.1\nHost: h\nAccess-Control-Request-Method: GET",
        "OPTIONS /plain/x HTTP/1.1\nHost: h", "GET /nowhere HTTP/1.1\nHost: h\nOrigin: https://app.example.org\nAccess-Control-Request-Method: GET",
        "OPTIONS /plain/x HTTP/1.1\nHost: h\nOrigin: https://app.example.org\nAccess-Control-Request-Headers: x",
    ])
    func nothingLessIsAPreflight(_ request: String) throws {
        #expect([404, 405].contains(try harness().ask(request).status))
    }

    @Test func equalPoliciesAreOne() throws {
        var (first, second) = (rule("a", "GET /x"), rule("b", "POST /x"))
        first.cors = try cors(Self.app)
        second.cors = try cors(Self.app)
        let harness = AdmissionHarness(try Policy(rules: [first, second], trust: AdmissionHarness.trust(), cors: cors(Self.app)))
        #expect(harness.admission.policy.cors.count == 1)
        #expect(methods(preflight(harness, "/x", "GET")) == "GET, POST")
    }

    @Test func newKeysLeaveItAsItIs() throws {
        let harness = try harness(fallback: cors(Self.app))
        let before = harness.get("/nowhere", "Origin: \(Self.app)").answerLines
        let policy = try harness.admission.policy.replacing(trust: AdmissionHarness.trust(), version: 2)
        harness.admission.adopt(policy)
        #expect(harness.get("/nowhere", "Origin: \(Self.app)").answerLines == before && before.count == 3)
        #expect(harness.get("/cookies/x", "Origin: https://gate.test").cors == .own)
    }

    // MARK: explain

    @Test func explainSaysWhereTheOriginStands() throws {
        let harness = try harness()
        func step(_ judged: Judged) -> String? { judged.explanation.step("cors") }
        #expect(step(harness.get("/plain/x", "Origin: \(Self.app)")) == "\(Self.app) is allowed by https://app.example.org,https://*.example.net")
        #expect(step(harness.get("/cookies/x", "Origin: \(Self.app)")) == "\(Self.app) is allowed by https://app.example.org, with credentials")
        #expect(step(harness.get("/plain/x")) == "no Origin was sent, so the response only has Vary: Origin")
        #expect(step(harness.get("/away/x")) == nil)
        #expect(step(harness.get("/away/x", "Origin: \(Self.app)")) == "no cors= applies, the upstream's own CORS fields pass")
        #expect(step(harness.get("/cookies/x", "Origin: https://gate.test")) == "https://gate.test is the gateway's own origin, the response has no CORS fields")
        let foreign = harness.ask("POST /cookies/x HTTP/1.1\nHost: h\nOrigin: \(Self.evil)\nCookie: a=b").explanation
        #expect(foreign.steps.map(\.name) == ["client", "path", "route", "cors", "verdict"])
        #expect(
            foreign.step("cors")
                == "https://evil.test is foreign, only https://app.example.org is allowed: the response has no CORS fields, and credentials with such a method are refused")
        #expect(preflight(harness, "/plain/x", "PUT").explanation.step("route") == "none for the method that the preflight names")
        let told = preflight(harness, "/plain/x", "POST").explanation
        #expect(told.steps.map(\.name) == ["client", "path", "route", "cors", "verdict"])
        #expect(told.step("cors")?.hasPrefix("a preflight: https://app.example.org is allowed by") == true)
        #expect(told.step("verdict") == "answered by the gateway itself: 204")
    }

    // MARK: hostile origins

    /// Arbitrary bytes as an origin: none traps, and only a configured one comes back.
    @Test func anOriginComesBackOnlyIfItIsAConfiguredOne() throws {
        let harness = try harness(fallback: cors("https://*.example.net"))
        let seeds = [Self.app, "https://a.example.net", "https://a.b.example.net", "null", "https://gate.test", "http://h"]
        var random = SplitMix64(seed: 16)
        var counts: [CORSStanding: Int] = [:]
        for _ in 0..<30_000 {
            var origin = Array(seeds[Int(random.next() % UInt64(seeds.count))].utf8)
            for _ in 0..<random.next() % 3 {
                let position = Int(random.next() % UInt64(origin.count + 1))
                switch random.next() % 3 {
                case 0: origin.insert(UInt8(truncatingIfNeeded: random.next()), at: position)
                case 1: if position < origin.count { origin[position] = UInt8(truncatingIfNeeded: random.next()) }
                default: if position < origin.count { origin.remove(at: position) }
                }
            }
            let method = ["GET", "POST", "OPTIONS"][Int(random.next() % 3)]
            let path = ["/plain/x", "/cookies/x", "/nowhere"][Int(random.next() % 3)]
            let head = "\(method) \(path) HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\nAccess-Control-Request-Method: GET\r\nOrigin: "
            let bytes = Array(head.utf8) + origin + Array("\r\n\r\n".utf8)
            guard let judged = harness.ask(raw: bytes, from: Peer(address: IPAddress(v4: 0xC000_0207))) else { continue }
            counts[judged.cors, default: 0] += 1
            let named = judged.answerLines.filter { $0.hasPrefix("Access-Control-Allow-Origin: ") }
            #expect(named.isEmpty == (judged.cors != .allowed))
            #expect(judged.answerLines.allSatisfy { $0.hasPrefix("Vary: ") || $0.hasPrefix("Access-Control-") || $0.contains("RateLimit") })
            guard let name = named.first?.dropFirst(29) else { continue }
            let isSubdomain = name.wholeMatch(of: /https:\/\/[a-z0-9_-]+(\.[a-z0-9_-]+)*\.example\.net/) != nil
            #expect(String(name) == Self.app || isSubdomain, "\(name)")
        }
        #expect(counts[.allowed, default: 0] > 3_000 && counts[.foreign, default: 0] > 3_000 && counts[.own, default: 0] > 1_000)
    }
}
