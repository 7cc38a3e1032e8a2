import Credentials
import HTTP
@testable import Limits
import Testing
import Wire

@testable import Gate

/// Requests that a proxy describes at the endpoints of forward-auth.
@Suite struct ForwardAuthTests {
    /// A worker's decisions about checks.
    private final class Desk {
        var admission: Admission
        private let limiter = SharedLimiter(capacity: 64)
        private var head = RequestHead()
        private var decision = Decision()

        init(_ rules: [RouteRule], proxies: [String] = [], internals: [InternalCaller] = [], cors: CORSRule? = nil) throws {
            let takesKeys = rules.contains(where: \.auth.takesKeys)
            let trust =
                takesKeys ? Trust(issuers: [.apiKeys]) : AdmissionHarness.trust(requirements: RouteRule.requirements(of: rules))
            let policy = try Policy(
                rules: rules, trust: trust, trustedProxies: proxies.compactMap { CIDR(parsing: $0) }, internals: internals, cors: cors)
            admission = Admission(policy: policy, limiter: limiter, cacheCapacity: 64)
        }

        /// The head that a check describes; lines end in LF, and the blank line is added.
        func describe(_ check: String) throws(DescriptionFault) -> String {
            let bytes = parse(check)
            guard let endpoint = CheckEndpoint(path: bytes.rawBytes[head.path]) else { preconditionFailure("no endpoint: \(check)") }
            var out = ByteBuffer()
            try admission.describe(head, bytes.rawBytes, at: endpoint, into: &out)
            return out.readable.text
        }

        private func parse(_ request: String) -> [UInt8] {
            let bytes = Array((request.replacing("\n", with: "\r\n") + "\r\n\r\n").utf8)
            let outcome = head.parse(bytes.rawBytes, limits: HeadLimits())
            precondition(outcome == .complete, "\(outcome) for \(request)")
            return bytes
        }

        /// Decides what a check describes.
        func ask(_ check: String, at endpoint: CheckEndpoint = .check, from: String = "192.0.2.7") throws -> (Judged, passage: [String]) {
            let described = Array(try describe(check).utf8)
            #expect(head.parse(described.rawBytes, limits: HeadLimits()) == .complete)
            let peer = Peer(address: try #require(IPAddress(parsing: from)))
            admission.decide(
                head, described.rawBytes, peer: peer, at: AdmissionHarness.now, check: endpoint, limiter: limiter, &decision)
            var fields = ByteBuffer()
            if case .forward = decision.verdict {
                decision.addPassage(
                    at: endpoint, head, described.rawBytes, attributes: admission.policy.attributeFields, to: &fields)
            }
            return (
                Judged(decision, head, described.rawBytes, admission.policy, at: AdmissionHarness.now.wall),
                fields.readable.text.split(separator: "\r\n").map(String.init)
            )
        }

        /// Decides a check of `GET uri`.
        func get(_ uri: String, token: String? = nil, _ more: String = "", from: String = "192.0.2.7") throws -> Judged {
            let bearer = token.map { "\nAuthorization: Bearer \($0)" } ?? ""
            return try ask(
                "GET /auth/check HTTP/1.1\nHost: gate\nX-Forwarded-Method: GET\nX-Forwarded-Uri: \(uri)\(bearer)"
                    + (more.isEmpty ? "" : "\n" + more), from: from
            ).0
        }
    }

    private static func rule(
        _ name: String, _ path: String, isPrefix: Bool = true, _ change: (inout RouteRule) -> Void = { _ in }
    ) -> RouteRule {
        var rule = RouteRule(name: name, path: path, isPrefix: isPrefix, target: .upstream(0))
        change(&rule)
        return rule
    }

    private static let all = [rule("all", "/")]

    @Test func aProofIsForTheDescribedRequest() throws {
        let (desk, device) = (try Desk(Self.all), BoundDevice())
        let token = device.token()
        func ask(_ method: String, _ url: String) throws -> Judged {
            try desk.ask(
                "GET /auth/check HTTP/1.1\nHost: gate\nX-Forwarded-Method: POST\nX-Forwarded-Proto: https\nX-Forwarded-Host: app.test\n"
                    + "X-Forwarded-Uri: /a?b\nAuthorization: DPoP \(token)\nDPoP: \(device.proof(token, method: method, url: url))"
            ).0
        }
        #expect(try ask("POST", "https://app.test/a").status == 0)
        #expect(try ask("POST", "https://app.test/a").reason == .proofReplayed)
        for (method, url) in [("GET", "https://app.test/a"), ("POST", "http://app.test/a"), ("POST", "https://gate/auth/check")] {
            #expect(try ask(method, url).reason == .proofInvalid, "\(method) \(url)")
        }
    }

    // MARK: the description

    @Test(arguments: [
        (
            "GET /auth/check?x HTTP/1.1\nHost: gate\nX-Forwarded-Method: POST\nX-Forwarded-Proto: https\nX-Forwarded-Host: api.test\nX-Forwarded-Uri: /a?b=%2F\nCookie: c",
            "POST /a?b=%2F HTTP/1.1|Host: api.test|X-Forwarded-Proto: https|Cookie: c"
        ),
        (
            "PUT /auth/check/nginx HTTP/1.0\nHost: gate\nX-Original-Method: GET\nX-Original-URL: http://api.test:8080/a?b",
            "GET /a?b HTTP/1.1|Host: api.test:8080|X-Forwarded-Proto: http"
        ),
        // A path, and an empty field, which is as good as none.
        (
            "GET /auth/check HTTP/1.1\nHost: gate\nX-Original-Method: GET\nX-Original-URL: /a//b\nX-Forwarded-Method:",
            "GET /a//b HTTP/1.1|Host: gate|X-Forwarded-Proto: http"
        ),
        (
            "DELETE /auth/check/envoy/a/b?c=d HTTP/1.1\nHost: api.test\nX-Forwarded-Proto: HTTPS\nX-Forwarded-For: 192.0.2.1",
            "DELETE /a/b?c=d HTTP/1.1|Host: api.test|X-Forwarded-Proto: https|X-Forwarded-For: 192.0.2.1"
        ),
        // Two descriptions that agree.
        (
            "GET /auth/check HTTP/1.1\nHost: gate\nX-Forwarded-Method: GET\nX-Original-Method: GET\nX-Forwarded-Uri: /a\nX-Original-URL: https://h/a\nX-Forwarded-Proto: https\nX-Forwarded-Host: h",
            "GET /a HTTP/1.1|Host: h|X-Forwarded-Proto: https"
        ),
        // Fields that frame the check, or announce content that a proxy has kept, are not the request's.
        (
            "GET /auth/check HTTP/1.1\nHost: gate\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nContent-Length: 7\nExpect: 100-continue\nConnection: close, X-A\nTE: trailers\nX-A: 1\nUpgrade: h2c",
            "GET /a HTTP/1.1|Host: gate|X-Forwarded-Proto: http|X-A: 1"
        ),
        // Proxies remove `Upgrade` from what they ask, and keep the key.
        (
            "GET /auth/check HTTP/1.1\nHost: gate\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /ws\nX-Forwarded-Proto: wss\nSec-WebSocket-Key: k",
            "GET /ws HTTP/1.1|Host: gate|X-Forwarded-Proto: https|Sec-WebSocket-Key: k|Connection: Upgrade|Upgrade: websocket"
        ),
    ])
    func aCheckDescribesOneRequest(_ check: String, _ described: String) throws {
        #expect(try Desk(Self.all).describe(check) == described.replacing("|", with: "\r\n") + "\r\n\r\n")
    }

    @Test(arguments: [
        ("X-Forwarded-Uri: /a", DescriptionFault.noMethod), ("X-Forwarded-Method: GET", .noURI),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri:", .noURI),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: a", .badURI), ("X-Forwarded-Method: GET\nX-Forwarded-Uri: http://h/a", .badURI),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: /a HTTP/1.1", .badURI), ("X-Forwarded-Method: GET /b\nX-Forwarded-Uri: /a", .badMethod),
        ("X-Original-Method: GET\nX-Original-URL: ftp://h/a", .badURI), ("X-Original-Method: GET\nX-Original-URL: http://h", .badURI),
        ("X-Original-Method: GET\nX-Original-URL: http:///a", .badURI),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nX-Forwarded-Proto: https,http", .badScheme),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nX-Original-Method: POST", .contradiction),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nX-Original-URL: /b", .contradiction),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nX-Original-URL: http://h/b", .contradiction),
        ("X-Forwarded-Method: GET\nX-Forwarded-Host: a\nX-Original-URL: http://b/", .contradiction),
        ("X-Forwarded-Method: GET\nX-Forwarded-Proto: https\nX-Original-URL: http://b/", .contradiction),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nX-Forwarded-Uri: /b", .contradiction),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nX_User_Id: 7", .lookAlike),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nx.user.tier: premium", .lookAlike),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nX-User-Attribute-Role: admin", .lookAlike),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nx_user.attribute-any: 1", .lookAlike),
        ("X-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nX-User-Merged-From: 1", .lookAlike),
    ])
    func anythingElseIsRefused(_ fields: String, _ fault: DescriptionFault) throws {
        let desk = try Desk(Self.all)
        #expect(throws: fault) { try desk.describe("GET /auth/check HTTP/1.1\nHost: gate\n\(fields)") }
    }

    /// Fields that the gateway removes before an upstream, and that a proxy passes on. Traefik writes some itself in every check.
    @Test func aFieldThatTheGatewayWouldRemoveIsRefusedUnlessTheRouteKeepsIt() throws {
        let kept = try KeptFields(named: "Remote-User").union(KeptFields(named: "X-Original-URI"))
        let desk = try Desk([
            Self.rule("all", "/") { $0.auth = .none },
            Self.rule("kept", "/kept/") {
                $0.auth = .none; $0.keptFields = kept
            },
        ])
        let refused = [
            "X-HTTP-Method-Override: DELETE", "X_HTTP_Method_Override: DELETE", "x-rewrite-url: /x", "Remote-User: root",
            "True-Client-IP: 192.0.2.7",
            "X-Real-IP: 6.6.6.6", "X_Real_IP: 6.6.6.6", "X-Real-IP: x", "X-Forwarded-User: root", "Client-Cert: x",
            "X-Forwarded-Prefix: /x",
            "X-Real-IP: 6.6.6.6\nX-Forwarded-For: 6.6.6.6, 192.0.2.9",
        ]
        for field in refused {
            let judged = try desk.get("/a", field)
            #expect(judged.status == 400 && judged.code == "BAD_REQUEST", "\(field)")
        }
        let passing = [
            "X-Real-IP: 192.0.2.7", "X-Real-IP: 192.0.2.9\nX-Forwarded-For: 6.6.6.6, 192.0.2.9", "X-Forwarded-Server: t",
            "X-Forwarded-Port: 80",
            "X-Original-URL: /a", "X-Original-Method: GET", "X-Page: 2", "X-Request-Id: 1", "X-User-Id: root",
        ]
        for field in passing { #expect(try desk.get("/a", field).route == "all", "\(field)") }
        for field in ["Remote-User: root", "x-original-uri: /x"] { #expect(try desk.get("/kept/a", field).route == "kept", "\(field)") }
        for field in ["Remote_User: root", "True-Client-IP: 192.0.2.7"] {
            #expect(try desk.get("/kept/a", field).status == 400, "\(field)")
        }
    }

    /// The proxy removes the field of keys by its own name; another spelling would reach the upstream with the key in it.
    @Test func anotherSpellingOfTheKeysFieldIsRefusedWhereKeysAreTaken() throws {
        let desk = try Desk([Self.rule("key", "/key") { $0.auth = .key }, Self.rule("open", "/open") { $0.auth = .none }])
        for (path, field, status) in [
            ("/key", "X_Api_Key: x", 400), ("/key", "x.api-key: x", 400), ("/key", "X-Api-Key: x\nX_Api_Key: x", 400),
            ("/key", "x-api-key: x", 401), ("/key", "X-Api-Keys: x", 401), ("/open", "X_Api_Key: x", 0),
        ] as [(String, String, UInt16)] {
            #expect(try desk.get(path, field).status == status, "\(path) \(field)")
        }
    }

    @Test func theRequestLineAtEnvoysEndpointIsADescriptionToo() throws {
        let desk = try Desk(Self.all)
        for field in ["X-Forwarded-Method: POST", "X-Forwarded-Uri: /b", "X-Forwarded-Host: other", "X-Original-URL: /b"] {
            #expect(throws: DescriptionFault.contradiction) {
                try desk.describe("GET /auth/check/envoy/a HTTP/1.1\nHost: api.test\n\(field)")
            }
        }
    }

    @Test func theHostMayBeLeftOutWhereNoRouteNamesOne() throws {
        let check = "GET /auth/check HTTP/1.1\nHost: gate\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /a"
        let desk = try Desk([Self.rule("a", "/") { $0.host = "api.test" }, Self.rule("b", "/") { $0.auth = .none }])
        #expect(throws: DescriptionFault.noHost) { try desk.describe(check) }
        #expect(try desk.ask(check + "\nX-Forwarded-Host: api.test").0.route == "a")
    }

    @Test(arguments: [
        "/auth/check/", "/auth/check/x", "/auth/checks", "/auth/check/envoy", "/auth/check/nginx/", "/auth//check", "/", "/AUTH/CHECK",
    ])
    func thereAreThreeEndpoints(_ path: String) {
        #expect(CheckEndpoint(path: Array(path.utf8).rawBytes) == nil)
    }

    // MARK: the decision

    @Test func itIsThatOfTheRequestItself() throws {
        var limited = Self.rule("limited", "/limited")
        limited.limits = [try LimitPolicy(parsing: "1/m", tiers: .standard)]
        let rules = [
            limited, Self.rule("open", "/open") { $0.auth = .none }, Self.rule("either", "/either") { $0.auth = .optional },
            Self.rule("premium", "/premium") { $0.tier = Tier(rawValue: 1) }, Self.rule("post", "/post") { $0.methods = ["POST"] },
            Self.rule("all", "/all"),
        ]
        let (desk, harness) = (try Desk(rules), try AdmissionHarness(rules))
        let tokens = [
            nil, AdmissionHarness.token(), AdmissionHarness.token("ada", tier: "premium"), AdmissionHarness.token(lifetime: -100), "x.y.z",
        ]
        for path in ["/limited/1", "/open/x", "/either", "/premium", "/post", "/all/a?b", "/none", "/all/../..", "/all/%2F", "/all/a;b"] {
            for token in tokens {
                let (checked, direct) = (try desk.get(path, token: token), harness.get(path, token: token))
                #expect(checked.verdict == direct.verdict, "\(path)")
                #expect(checked.identity == direct.identity && checked.headers == direct.headers && checked.limitLines == direct.limitLines)
            }
        }
        #expect(try desk.get("/limited", token: AdmissionHarness.token()).status == 429)
    }

    @Test func thePassageHasTheIdentityAndNothingThatIsUnknown() throws {
        let desk = try Desk(
            Self.all + [Self.rule("open", "/open") { $0.auth = .none }, Self.rule("kept", "/kept") { $0.forwardsAuthorization = true }])
        let token = AdmissionHarness.token("ada", tier: "premium")
        func passage(_ uri: String, _ more: String) throws -> [String] {
            try desk.ask("GET /auth/check HTTP/1.1\nHost: gate\nX-Forwarded-Method: GET\nX-Forwarded-Uri: \(uri)\nX-User-Id: root\n\(more)")
                .passage
        }
        let bearer = "Authorization: Bearer \(token)"
        let identity = ["X-User-Id: ada", "X-Token-Issuer: \(AdmissionHarness.issuer)", "X-User-Tier: premium", "X-User-Premium: true"]
        #expect(try passage("/a", bearer) == identity)
        #expect(try passage("/kept", bearer) == identity + [bearer])
        #expect(try passage("/open", "Accept: a") == [])
        #expect(try passage("/open", "Authorization: Basic x") == ["Authorization: Basic x"])
    }

    @Test func envoyIsToldWhatToRemove() throws {
        let forwards = Self.rule("other", "/other") { $0.forwardedAttributes = [AttributeName("avatar_url")].compactMap(\.self) }
        let desk = try Desk([Self.rule("all", "/") { $0.auth = .optional }, forwards])
        func removed(_ more: String) throws -> Set<String> {
            let passage = try desk.ask("GET /auth/check/envoy/a HTTP/1.1\nHost: api.test\(more)", at: .envoy).passage
            let line = try #require(passage.last?.split(separator: ": "))
            #expect(line[0] == "X-Envoy-Auth-Headers-To-Remove")
            return Set(line[1].split(separator: ",").map(String.init))
        }
        let names = Set(IdentityHeaders.passage.map(\.description) + ["X-User-Attribute-Avatar-Url", "DPoP"])
        #expect(names.isSuperset(of: ["X-User-Id", "X-User-Tier", "X-Session-Id", "X-Internal-Key", "X-Refresh-Token", "Authorization"]))
        #expect(try removed("") == names)
        #expect(
            try removed("\nAuthorization: Bearer \(AdmissionHarness.token())")
                == names.subtracting(["X-User-Id", "X-Token-Issuer", "X-User-Tier", "X-User-Premium"]))
    }

    @Test func aRefusalIsNeverA200() throws {
        let judged = try Desk(Self.all).get("/a", "Content-Type: application/grpc\ngrpc-timeout: 0S")
        #expect(judged.status == 401 && judged.dialect != .grpc)
        #expect(judged.dialect.status(of: .unauthorized(.missing)) == 401)
    }

    @Test func nginxGetsTheStatusesThatItPassesOn() {
        for refusal in everyRefusal {
            #expect(CheckEndpoint.nginx.status(of: refusal) == (refusal.status == 401 ? 401 : 403))
            #expect(CheckEndpoint.check.status(of: refusal) == Int(refusal.status))
            var edits = FieldEdits()
            refusal.addTrueStatus(to: &edits)
            #expect(edits.http1.text == "X-Tollgate-Status: \(refusal.status)\r\nX-Tollgate-Code: \(refusal.code.text)\r\n")
        }
    }

    @Test(arguments: [
        // The canonical path has another rule than the path that the proxy forwards.
        ("/open//../secret", 400), ("/secret/../open", 400), ("/open/./x", 400), ("/open/%2e/x", 400), ("//secret/x", 400),
        ("/s%65cret/x", 400),
        ("/open/..;/x", 400), ("/..", 400), ("/open/a%5Cb", 400), ("/open/%", 400), ("/open/..%2Fsecret", 400),
        ("/open//x", 0), ("/open/%7Ex", 0), ("/open/...", 0), ("/open/a.", 0), ("/open/.a/b..c/%2ea", 0), ("/none//x", 404),
    ])
    func aPathThatAnUpstreamMayReadAsAnotherRoutesIsRefused(_ uri: String, _ status: UInt16) throws {
        let desk = try Desk([Self.rule("open", "/open") { $0.auth = .none }, Self.rule("secret", "/secret")])
        #expect(try desk.get(uri).status == status)
    }

    @Test func anEndpointOfTheGatewayIsNoRoute() throws {
        let desk = try Desk([RouteRule(name: "sign-in", path: "/auth/login", isPrefix: false, target: .local(3), auth: .none)])
        #expect(try desk.get("/auth/login").status == 404)
    }

    // MARK: the client

    @Test func theProxysOwnAddressProvesNoInternalCaller() throws {
        let internals = [InternalCaller(name: "near", networks: [CIDR(parsing: "10.0.0.0/8")!])]
        let rules = [Self.rule("inside", "/") { $0.auth = .internal }]
        let trusting = try Desk(rules, proxies: ["10.0.0.1/32"], internals: internals)
        #expect(try trusting.get("/a", "X-Forwarded-For: 10.2.3.4", from: "10.0.0.1").status == 0)
        #expect(try trusting.get("/a", "Forwarded: for=10.2.3.4", from: "10.0.0.1").status == 0)
        #expect(try trusting.get("/a", "X-Forwarded-For: 192.0.2.1", from: "10.0.0.1").status == 403)
        #expect(try trusting.get("/a", from: "10.0.0.1").status == 403)
        // Another peer's word counts for nothing.
        #expect(try trusting.get("/a", "X-Forwarded-For: 10.2.3.4", from: "10.0.0.2").status == 403)
        #expect(try Desk(rules, internals: internals).get("/a", from: "10.0.0.1").status == 403)
    }

    @Test func anExpiredTokenIsNotRefreshed() throws {
        let key = "0123456789abcdef"
        let digest = Digest.sha256(Array(key.utf8).rawBytes)
        let desk = try Desk(Self.all, internals: [InternalCaller(name: "batch", keySHA256: digest)])
        let judged = try desk.get(
            "/a", token: AdmissionHarness.token(lifetime: -100), "X-Internal-Key: \(key)\nX-Refresh-Token: r")
        #expect(judged.status == 401 && judged.code == "TOKEN_EXPIRED" && judged.order == nil)
    }

    // MARK: WebSockets

    @Test func theTokenOfAHandshakeIsReadWhereTheRouteTakesAny() throws {
        let desk = try Desk([
            Self.rule("chat", "/chat") {
                $0.takesWebSockets = true
                $0.maxWebSockets = 1
            }, Self.rule("plain", "/plain") { $0.auth = .none },
        ])
        let handshake = "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
        let token = AdmissionHarness.token()
        // Those under way are not counted: their ends are not seen.
        for _ in 0..<3 {
            let judged = try desk.get("/chat", "\(handshake)\nSec-WebSocket-Protocol: bearer, \(token), v1")
            #expect(judged.status == 0 && judged.userID == "user-1")
        }
        #expect(try desk.get("/chat", handshake).status == 401)
        // The proxy would make a tunnel that the route does not allow.
        #expect(try desk.get("/plain", handshake).status == 501)
        #expect(try desk.get("/plain", "Upgrade: websocket\nConnection: Upgrade").status == 501)
        #expect(try desk.get("/plain", "Upgrade: h2c\nConnection: Upgrade").status == 0)
    }

    // MARK: CORS

    @Test func aPreflightIsAnsweredWhereTheProxyGivesTheAnswerToItsClient() throws {
        let cors = CORSRule(try CORSOrigins(["https://app.test"]))
        let desk = try Desk([Self.rule("all", "/") { $0.cors = cors }])
        let fields = "Origin: https://app.test\nAccess-Control-Request-Method: GET"
        let check = "GET /auth/check HTTP/1.1\nHost: h\nX-Forwarded-Method: OPTIONS\nX-Forwarded-Uri: /a\n\(fields)"
        for endpoint in [CheckEndpoint.check, .nginx] {
            #expect(try desk.ask(check, at: endpoint).0.verdict == .refuse(.forbidden(.preflight)))
        }
        let answer = try desk.ask("OPTIONS /auth/check/envoy/a HTTP/1.1\nHost: h\n\(fields)", at: .envoy).0
        #expect(answer.verdict == .answer(status: 204) && answer.answerLines.contains("Access-Control-Allow-Origin: https://app.test"))
    }

    @Test func thePagesOwnOriginIsThatOfTheDescribedURL() throws {
        let cors = CORSRule(try CORSOrigins(["https://app.test"]))
        let desk = try Desk([Self.rule("all", "/") { $0.cors = cors }])
        func standing(_ proto: String, _ origin: String) throws -> OriginClass {
            try desk.get("/a", "X-Forwarded-Proto: \(proto)\nX-Forwarded-Host: api.test\nOrigin: \(origin)").cors
        }
        #expect(try standing("https", "https://api.test") == .own)
        #expect(try standing("https", "http://api.test") == .foreign)
        #expect(try standing("http", "http://api.test") == .own)
        #expect(try standing("http", "https://app.test") == .allowed)
    }
}
