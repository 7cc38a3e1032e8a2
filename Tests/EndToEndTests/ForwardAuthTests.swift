import Foundation
import TestThreads
import Testing

/// Proxies that others wrote, each with the configuration that docs/forward-auth.md prints, in front of a service that shows what it
/// receives. The gateway decides, and no request passes through it.
@Suite(.ownThread, .timeLimit(.minutes(10))) struct ForwardAuthTests {
    /// A gateway whose upstream does not exist.
    private func gateway(_ more: String = "") throws -> Gateway {
        try Gateway(
            """
            TOLLGATE_CHECK_LISTEN=127.0.0.1:0;h2c
            TOLLGATE_TRUSTED_PROXIES=127.0.0.1/32
            TOLLGATE_PUBLIC_URL="https://api.test"
            TOLLGATE_UPSTREAM_APP="http://127.0.0.1:1"
            TOLLGATE_ROUTE_OPEN="/open/* upstream=app auth=none"
            TOLLGATE_ROUTE_EITHER="/either/* upstream=app auth=optional"
            TOLLGATE_ROUTE_ME="/me/* upstream=app auth=required"
            TOLLGATE_ROUTE_PREMIUM="/premium/* upstream=app auth=required tier=premium"
            TOLLGATE_ROUTE_KEPT="/kept/* upstream=app auth=required forward=authorization"
            TOLLGATE_ROUTE_SIGNED="/signed/* upstream=app auth=required identity=signed"
            TOLLGATE_ROUTE_FEW="GET /few upstream=app auth=required limit=2/h errors=dlauth"
            \(more)
            """)
    }

    private static let identity = [
        "X-User-Id", "X-User-Name", "X-User-Email", "X-User-Email-Verified", "X-User-Tier", "X-User-Premium", "X-Session-Id",
        "X-Token-Issuer", "X-Actor-Type",
        "X-Actor-Id", "X-Tollgate-Identity",
    ]
    private static let forged = identity.map { "\($0): root" } + ["x-user-id: root", "X-Internal-Key: root", "X-Refresh-Token: root"]

    /// The identity fields and credentials that the service received, in any spelling.
    private func received(_ request: Message) -> Set<String> {
        let names = Set((Self.identity + ["X-Internal-Key", "X-Refresh-Token", "Authorization"]).map { $0.lowercased() })
        return Set(
            request.fields.compactMap { field in
                let name = field.name.lowercased().replacing(/[_.]/, with: "-")
                return names.contains(name) ? "\(name): \(field.value)" : nil
            })
    }

    /// The interval of two an hour, less the time that the test has taken.
    private func isHalfAnHour(_ seconds: String?) -> Bool { (1_500...1_800).contains(seconds.flatMap { Int($0) } ?? 0) }

    @Test(arguments: FrontProxy.Kind.installed)
    func theServiceReceivesTheIdentityAndNoneThatTheClientMadeUp(_ kind: FrontProxy.Kind) throws {
        let (gateway, service) = (try gateway(), try Upstream())
        let proxy = try FrontProxy(kind, check: gateway.checkPort, service: service.port)
        let bearer = try gateway.bearer("--sub", "ada", "--tier", "premium")
        let ready = service.requests.now.count
        let connection = try Connection(port: proxy.port)
        func passes(_ what: String, _ fields: [String], body: [UInt8]? = nil) throws -> Message {
            let answer = try connection.ask(what, ["Host: api.example.org"] + Self.forged + fields, body: body)
            #expect(answer.status == 200, "\(kind): \(what): \(answer)")
            return try #require(service.requests.now.last)
        }
        let mine = try passes("POST /me/x?y=%2F&z", [bearer], body: Array("content".utf8))
        #expect(mine.method == "POST" && mine.target == "/me/x?y=%2F&z" && mine.text == "content", "\(kind): \(mine)")
        let known = received(mine)
        #expect(
            known.isSuperset(of: ["x-user-id: ada", "x-user-tier: premium", "x-user-premium: true"]) && known.count == 4,
            "\(kind): \(known)")
        #expect(known.contains { $0.hasPrefix("x-token-issuer: http") })
        // Where a token is optional and none is sent, all that is left would be the client's.
        #expect(try received(passes("GET /either/x", [])) == [], "\(kind)")
        #expect(try received(passes("GET /open/x", [])) == [], "\(kind)")
        #expect(try received(passes("GET /kept/x", [bearer])).contains(bearer.replacing("Authorization", with: "authorization")), "\(kind)")
        let signed = try received(passes("GET /signed/x", [bearer])).filter { $0.hasPrefix("x-tollgate-identity: ") }
        #expect(signed.count == 1 && signed.allSatisfy { $0.split(separator: ".").count == 3 }, "\(kind): \(signed)")
        #expect(service.requests.now.count == ready + 5)
        // Another spelling is removed, or the request is refused.
        for spelling in [
            ["X_User_Id: root", "x-user_tier: root"], ["X.User.Id: root"], ["x-user.tier: root"], ["X-Tollgate.Identity: root"],
        ] {
            let spelled = try Connection(port: proxy.port).ask("GET /either/x", ["Host: api.example.org"] + spelling)
            if spelled.status == 200 {
                #expect(try received(#require(service.requests.now.last)) == [], "\(kind): \(spelling)")
            } else {
                #expect([400, 403].contains(spelled.status), "\(kind): \(spelled)")
            }
        }
        // Fields that frameworks trust are removed, or the request is refused. A proxy's own stand for the client's address and request.
        let trusted = [
            "X-HTTP-Method-Override: DELETE", "X-Original-URL: /premium/x", "X-Original-URL: /either/x", "X-Original-Method: DELETE",
            "X-Rewrite-URL: /premium/x",
            "Remote-User: root", "True-Client-IP: 6.6.6.6", "X-Real-IP: 6.6.6.6", "X-Forwarded-Uri: /premium/x",
            "X-Forwarded-Method: DELETE",
        ]
        for field in trusted {
            let sent = try Connection(port: proxy.port).ask("GET /either/x", ["Host: api.example.org", field])
            if sent.status == 200 {
                let got = try #require(service.requests.now.last).fields.map { "\($0.name): \($0.value)".lowercased() }
                #expect(!got.contains(field.lowercased()) || field.hasSuffix("/either/x"), "\(kind): \(field)")
            } else {
                #expect([400, 403].contains(sent.status), "\(kind): \(sent)")
            }
        }
        // A field of another kind with such a name is the service's own.
        let own = try Connection(port: proxy.port).ask("GET /open/x", ["Host: api.example.org", "X.Page: 2"])
        #expect(own.status == 200, "\(kind): \(own)")
    }

    @Test(arguments: FrontProxy.Kind.installed)
    func aRefusalReachesTheClientAsItIs(_ kind: FrontProxy.Kind) throws {
        let (gateway, service) = (try gateway(), try Upstream())
        let proxy = try FrontProxy(kind, check: gateway.checkPort, service: service.port)
        let bearer = try gateway.bearer("--sub", "ada")
        let ready = service.requests.now.count
        func ask(_ what: String, _ fields: [String] = []) throws -> Message {
            try Connection(port: proxy.port).ask(what, ["Host: api.example.org"] + fields)
        }
        let missing = try ask("GET /me/x")
        #expect(missing.status == 401 && missing["WWW-Authenticate"]?.hasPrefix("Bearer realm=") == true, "\(kind): \(missing)")
        #expect(try ask("GET /me/x", ["Authorization: Bearer x.y.z"])["WWW-Authenticate"]?.contains("invalid_token") == true, "\(kind)")
        let premium = try ask("GET /premium/x", [bearer])
        #expect(premium.status == 403 && premium["WWW-Authenticate"]?.contains("insufficient_scope") == true, "\(kind): \(premium)")
        #expect(try ask("GET /nowhere", [bearer]).status == 404, "\(kind)")
        let method = try ask("POST /few", [bearer])
        #expect(method.status == 405 && method["Allow"] == "GET", "\(kind): \(method)")
        for _ in 0..<2 { #expect(try ask("GET /few", [bearer]).status == 200, "\(kind)") }
        let limited = try ask("GET /few", [bearer])
        #expect(limited.status == 429 && isHalfAnHour(limited["Retry-After"]), "\(kind): \(limited)")
        #expect(limited["RateLimit"]?.hasPrefix("\"few\";r=0;t=") == true, "\(kind): \(limited)")
        // nginx writes the content of refusals itself.
        if kind == .nginx {
            #expect(missing["X-Tollgate-Code"] == "UNAUTHORIZED" && limited["X-Tollgate-Code"] == "RATE_LIMITED", "\(missing) \(limited)")
        } else {
            #expect(limited.text.contains(#""error":"rate_limited""#), "\(kind): \(limited.text)")
        }
        // Paths of another route once their dots are resolved.
        for path in ["/open/../me/x", "/open/%2e%2e/me/x", "/open//../../me/x", "/open/..%2Fme/x", "/open/..\\me"] {
            #expect([400, 401, 403, 404].contains(try ask("GET \(path)").status), "\(kind): \(path)")
        }
        // What a client describes is not what the proxy asks about.
        let lied = try ask(
            "GET /me/x", ["X-Forwarded-Uri: /open/x", "X-Original-URL: /open/x", "X-Forwarded-Method: GET", "X-Original-Method: GET"])
        #expect([400, 401].contains(lied.status), "\(kind): \(lied)")
        #expect(service.requests.now.count == ready + 2, "\(kind)")
    }

    /// In either field; the service learns who the key is, and not the key.
    @Test(arguments: FrontProxy.Kind.installed)
    func anAPIKeyPassesAndEnds(_ kind: FrontProxy.Kind) throws {
        let gateway = try gateway(
            "TOLLGATE_ROUTE_KEYED=\"/keyed/* upstream=app auth=key\"\nTOLLGATE_ROUTE_BOTH=\"/both/* upstream=app auth=required,key\"")
        let service = try Upstream()
        let proxy = try FrontProxy(kind, check: gateway.checkPort, service: service.port)
        let made = try gateway.command(["key", "create", "--name", "partner", "--tier", "premium"])
        let key = made.output.trimmingCharacters(in: .whitespacesAndNewlines)
        func ask(_ path: String, _ field: String) throws -> Message {
            try Connection(port: proxy.port).ask("GET \(path)", ["Host: api.example.org", field])
        }
        try eventually("the gateway takes the key") { try ask("/keyed/x", "X-Api-Key: \(key)").status == 200 }
        for path in ["/keyed/x", "/both/x"] {
            for field in ["X-Api-Key: \(key)", "Authorization: Bearer \(key)"] {
                #expect(try ask(path, field).status == 200, "\(kind): \(path)")
                let request = try #require(service.requests.now.last)
                #expect(request.target == path && request["X-Token-Issuer"] == "key" && request["X-User-Tier"] == "premium", "\(kind)")
                #expect(!request.fields.contains { $0.value.contains(key) }, "\(kind): \(field.prefix(9))")
            }
        }
        let other = key.dropLast() + (key.hasSuffix("a") ? "b" : "a")
        #expect(try ask("/keyed/x", "X-Api-Key: \(other)").status == 401 && ask("/me/x", "X-Api-Key: \(key)").status == 401, "\(kind)")
        let id = try must(JSON(gateway.command(["key", "list", "--json"]).output)["keys"][0]["id"])
        #expect(try gateway.command(["key", "revoke", id]).code == 0)
        try eventually("the key has ended") { try ask("/keyed/x", "X-Api-Key: \(key)").status == 401 }
    }

    @Test func theLogHasTheDescribedRequestAndTheMetricsCountIt() throws {
        let gateway = try gateway("TOLLGATE_ACCESS_LOG=json")
        let bearer = try gateway.bearer("--sub", "ada")
        let proxy = try Connection(port: gateway.checkPort)
        let described = [
            "X-Forwarded-Method: DELETE", "X-Forwarded-Host: api.example.org", "X-Forwarded-Uri: /me/x?secret",
            "X-Forwarded-For: 192.0.2.9",
        ]
        #expect(try proxy.ask("GET /auth/check", described + [bearer])["X-User-Id"] == "ada")
        let refusal = try proxy.ask("GET /auth/check/nginx", described)
        #expect(refusal.status == 401)
        #expect(try proxy.ask("PUT /auth/check/envoy/premium/x", ["Host: api.example.org", bearer]).status == 403)
        #expect(try proxy.ask("GET /metrics").status == 404)
        let lines = try gateway.accessLog(4)
        #expect(lines.map { $0["forward_auth"].text } == ["check", "nginx", "envoy", nil])
        #expect(lines.prefix(3).map { $0["route"].text } == ["me", "me", "premium"])
        #expect(
            lines[0]["method"].text == "DELETE" && lines[0]["host"].text == "api.example.org" && lines[0]["path"].text == "/me/x?[redacted]"
        )
        #expect(lines[0]["client_ip"].text == "192.0.2.9" && lines[0]["user_id"].text == "ada")
        #expect(lines[1]["code"].text == "UNAUTHORIZED" && lines[2]["method"].text == "PUT" && lines[2]["code"].text == "PREMIUM_REQUIRED")
        #expect(try gateway.metric("tollgate_forward_auth_checks_total", #"endpoint="nginx""#, #"code_class="4xx""#) == 1)
        #expect(try gateway.metric("tollgate_http_requests_total", #"route="me""#) == 2)
        #expect(try gateway.metric("tollgate_upstream_requests_total") == 0)
        let token = try String(contentsOfFile: gateway.folder.file("data/keys/admin-token"), encoding: .utf8)
        let asked = try Connection(port: gateway.adminPort).ask(
            "GET /admin/api/decisions?request_id=\(refusal["X-Request-Id"] ?? "")",
            ["Host: localhost", "Authorization: Bearer \(token.trimmingCharacters(in: .whitespacesAndNewlines))"])
        #expect(asked.text.contains(#""method":"DELETE""#) && asked.text.contains("refused: 401"))
    }

    @Test func limitsThatRedisCountsAreAwaited() throws {
        let redis = try Redis()
        let gateway = try gateway(redis.setting + "\n" + Redis.patience)
        try eventually("redis is ready") {
            try JSON(gateway.askAdmin("/readyz").text)["checks"].array.contains {
                $0["name"].text == "redis" && $0["status"].text == "ready"
            }
        }
        let bearer = try gateway.bearer("--sub", "ada")
        let proxy = try Connection(port: gateway.checkPort)
        let described = ["X-Original-Method: GET", "X-Original-URL: http://api.example.org/few", bearer]
        for left in [1, 0] {
            let answer = try proxy.ask("GET /auth/check/nginx", described)
            #expect(answer.status == 200 && answer["X-User-Id"] == "ada" && answer["RateLimit"]?.hasPrefix("\"few\";r=\(left);") == true)
        }
        let refusal = try proxy.ask("GET /auth/check/nginx", described)
        #expect(refusal.status == 403 && refusal["X-Tollgate-Status"] == "429" && refusal["X-Tollgate-Code"] == "RATE_LIMITED")
        #expect(isHalfAnHour(refusal["Retry-After"]) && refusal["X-User-Id"] == nil)
    }

    @Test func checksComeOverHTTP2() throws {
        let gateway = try gateway()
        let bearer = try gateway.bearer("--sub", "ada")
        func curl(_ path: String, _ more: [String]) throws -> String {
            try mustRun(
                "curl",
                [
                    "-sS", "--max-time", "60", "--http2-prior-knowledge", "-o", "/dev/null", "-w",
                    "%{http_code} %{http_version} user=%header{x-user-id}",
                ]
                    + more + ["http://127.0.0.1:\(gateway.checkPort)\(path)"])
        }
        let described = ["-H", "X-Forwarded-Method: GET", "-H", "X-Forwarded-Uri: /me/x"]
        #expect(try curl("/auth/check", described + ["-H", bearer]) == "200 2 user=ada")
        #expect(try curl("/auth/check", described) == "401 2 user=")
        // The answer does not wait for content, at which curl would go on sending until its time is over.
        let folder = try Folder()
        let sent = try mustRun(
            "nghttp",
            ["-nv", "-d", folder.write("content", "content"), "-H", "x-forwarded-method: GET", "-H", "x-forwarded-uri: /me/x"]
                + [
                    "-H", bearer.replacingOccurrences(of: "Authorization", with: "authorization"),
                    "http://127.0.0.1:\(gateway.checkPort)/auth/check",
                ])
        #expect(sent.contains(":status: 200") && sent.contains("x-user-id: ada"), "\(sent)")
        #expect(try curl("/auth/check/envoy/me/x?y", ["-X", "DELETE", "-H", bearer]) == "200 2 user=ada")
        #expect(try curl("/auth/check/envoy/open/../me/x", ["--path-as-is", "-H", bearer]) == "400 2 user=")
        #expect(try curl("/me/x", ["-H", bearer]) == "404 2 user=")
        #expect(try gateway.accessLog(6).map { $0["proto"].text } == Array(repeating: "HTTP/2", count: 6))
    }
}
