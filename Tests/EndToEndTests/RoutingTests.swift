import TestThreads
import Testing

/// Which route a request takes, and what it gets without one.
@Suite(.ownThread) struct RoutingTests {
    @Test func theMostSpecificRouteWins() throws {
        let upstreams = try ["a", "b"].map { name in
            try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\(name)"))
        }
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_A="\(upstreams[0].url)"
            TOLLGATE_UPSTREAM_B="\(upstreams[1].url)"
            TOLLGATE_ROUTE_ALL="GET /* upstream=a auth=none"
            TOLLGATE_ROUTE_DEEP="/x/* upstream=b auth=none"
            TOLLGATE_ROUTE_DEEPER="GET /x/y/* upstream=a auth=none"
            TOLLGATE_ROUTE_EXACT="GET /x/y/z upstream=b auth=none"
            TOLLGATE_ROUTE_HOST="api.test/* upstream=b auth=none"
            TOLLGATE_ROUTE_M="GET /m upstream=b auth=none"
            TOLLGATE_ROUTE_STRIP="/s/* upstream=a auth=none strip=/s"
            TOLLGATE_ROUTE_SLASH="/f/* upstream=a auth=none encoded-slash=pass"
            """)
        let table: [(String, [String], String)] = [
            ("GET /", [], "a"), ("GET /q", [], "a"), ("GET /x", [], "b"), ("GET /x/1", [], "b"), ("POST /x/1", [], "b"),
            ("GET /x/y", [], "a"), ("GET /x/y/1", [], "a"), ("POST /x/y/1", [], "b"), ("GET /x/y/z", [], "b"),
            ("GET /xx", [], "a"), ("POST /q", [], "405 GET"), ("GET /m", [], "b"), ("GET /m/", [], "a"),
            ("GET /q", ["Host: api.test"], "b"), ("GET /q", ["Host: API.test:8000"], "b"), ("GET /q", ["Host: apix.test"], "a"),
            ("GET /x//y///z", [], "b"), ("GET /a/../x/./y/z", [], "b"), ("GET /%78/%79/z", [], "b"), ("GET /x/Y/z", [], "b"),
        ]
        for (request, fields, expected) in table {
            let answer = try gateway.ask(request, fields)
            let got = answer.status == 200 ? answer.text : "\(answer.status) \(answer["Allow"] ?? "")"
            #expect(got == expected, "\(request) \(fields)")
        }
        let targets = upstreams.flatMap { $0.requests.now.map(\.target) }
        #expect(targets.contains("/x/y/z") && !targets.contains { $0.contains("//") || $0.contains("..") || $0.contains("%78") })
        try gateway.ask("GET /s/a/b?c=%2f..//")
        try gateway.ask("GET /s")
        try gateway.ask("GET /f/a%2Fb")
        #expect(upstreams[0].requests.now.suffix(3).map(\.target) == ["/a/b?c=%2f..//", "/", "/f/a%2Fb"])
    }

    @Test func thousandsOfRoutesAreServedAndReloaded() throws {
        let upstream = try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nu"))
        let settings = { (count: Int) in
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_NAMED=\"/s17/{id}/review upstream=u auth=required\"\n"
                + (0..<count).map { "TOLLGATE_ROUTE_R\($0)=\"/s\($0)/* upstream=u auth=none limit=600/m\"\n" }.joined()
        }
        let gateway = try Gateway(settings(3_000))
        func statuses() throws -> [Int] {
            try ["/s0/x", "/s2999/x", "/s17/x", "/s17/4711/review", "/s3000/x"].map { try gateway.ask("GET \($0)").status }
        }
        #expect(try statuses() == [200, 200, 200, 401, 404])
        try gateway.reload(settings(3_001))
        #expect(try statuses() == [200, 200, 200, 401, 200])
        try gateway.reload(settings(2_999))
        #expect(try statuses() == [200, 404, 200, 401, 404])
        #expect(try gateway.metric("tollgate_http_requests_total", #"route="r0""#, #"code_class="2xx""#) == 3)
    }

    @Test func withoutARouteNobodyIsAsked() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"GET,HEAD,POST /a/* upstream=u auth=none body-limit=1KiB\"")
        let missing = try gateway.ask("GET /b")
        #expect(missing.status == 404)
        #expect(try JSON(missing.text)["code"].text == "NOT_FOUND")
        let wrong = try gateway.ask("DELETE /a/x")
        #expect(wrong.status == 405)
        #expect(wrong["Allow"] == "GET, HEAD, POST")
        #expect(upstream.connections.now == 0)
    }

    @Test func pathsThatTwoCouldReadDifferentlyAreRefused() throws {
        let upstream = try Upstream()
        let gateway = try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/* upstream=u auth=none\"")
        let paths = [
            "/..", "/a/../..", "/%2e%2e/a", "/a%2Fb", "/a%2fb", "/a%5Cb", "/a\\b", "/a%00b", "/a%", "/a%4", "/a%zz", "/a%252Fb",
            "/a%255cb", "/a%2500", "/..;/a", "/a/..%2f", "/%c0%ae%2fx", "/%25%32%65", "/a/%25%32%65%25%32%65/b", "/%252%66",
        ]
        for path in paths {
            let answer = try gateway.ask("GET \(path)")
            #expect(answer.status == 400, "\(path)")
        }
        #expect(upstream.connections.now == 0)
    }

    @Test func parametersHideNoRoute() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/* upstream=u auth=none\"\nTOLLGATE_ROUTE_ME=\"/me/* upstream=u\"")
        for path in ["/me;a=b", "/me;a=b/x", "/me%3B/x", "/me%3bx", "/;/me", "/%6de;/x"] {
            let answer = try gateway.ask("GET \(path)")
            #expect(answer.status == 400 && answer.text.contains("BAD_REQUEST"), "\(path)")
        }
        #expect(try gateway.ask("GET /me/x;a=b").status == 401)
        #expect(upstream.connections.now == 0)
        #expect(try gateway.ask("GET /you;jsessionid=1/me;x").status == 200)
        #expect(upstream.requests.now.map(\.target) == ["/you;jsessionid=1/me;x"])
    }

    @Test func aSpellingOfAStricterRouteIsRefusedUnlessTheUpstreamTellsThemApart() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_UPSTREAM_X="\(upstream.url) paths=exact"
            TOLLGATE_ROUTE_A="/* upstream=u auth=none"
            TOLLGATE_ROUTE_PREMIUM="/premium/* upstream=u"
            TOLLGATE_ROUTE_EXPORT="/export upstream=u tier=premium"
            TOLLGATE_ROUTE_X="x.test/* upstream=x auth=none"
            TOLLGATE_ROUTE_XP="x.test/premium/* upstream=x"
            """)
        for path in ["/PREMIUM/x", "/premiuM", "/export/", "/export/.", "/export%20", "/Export"] {
            let answer = try gateway.ask("GET \(path)")
            #expect(answer.status == 400 && answer.text.contains("BAD_REQUEST"), "\(path)")
        }
        #expect(upstream.connections.now == 0)
        #expect(try gateway.ask("GET /export").status == 401)
        #expect(try gateway.ask("GET /Other/").status == 200)
        #expect(try gateway.ask("GET /PREMIUM/x", ["Host: x.test"]).status == 200)
        #expect(upstream.requests.now.map(\.target) == ["/Other/", "/PREMIUM/x"])
    }

    @Test func whatIsTooLargeIsRefusedAsSuch() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_A=\"/a/* upstream=u auth=none body-limit=1KiB\"")
        let long = String(repeating: "x", count: 9_000)
        let table: [(String, String, Int)] = [
            ("a long target", requestHead("GET /a/\(long)"), 414),
            ("a long query", requestHead("GET /a/?\(long)"), 414),
            ("a long field", requestHead("GET /a/x", ["X-Long: " + String(repeating: "x", count: 40_000)]), 431),
            ("101 fields", requestHead("GET /a/x", (0..<101).map { "X-\($0): 1" }), 431),
            ("a long body", requestHead("POST /a/x", length: 2_000) + String(repeating: "b", count: 2_000), 413),
            ("a long body that is announced", requestHead("POST /a/x", ["Expect: 100-continue"], length: 2_000), 413),
            (
                "a long body in chunks",
                requestHead("POST /a/x", ["Transfer-Encoding: chunked"]) + "600\r\n" + String(repeating: "b", count: 0x600)
                    + "\r\n0\r\n\r\n", 413
            ),
        ]
        for (name, request, status) in table {
            let connection = try gateway.connect()
            try connection.send(request)
            #expect(try connection.answer().status == status, "\(name)")
        }
        #expect(upstream.requests.now.isEmpty)
        #expect(try gateway.ask("POST /a/x", body: [UInt8](repeating: 98, count: 1_024)).status == 200)
        #expect(try gateway.ask("GET /a/x", (0..<90).map { "X-\($0): 1" }).status == 200)
    }

    @Test func everyDialectSaysItInItsOwnWords() throws {
        let upstream = try Upstream()
        let dialects = ["password", "provider", "dlauth", "apple", "anonymous", "problem"]
        let routes = dialects.map { "TOLLGATE_ROUTE_\($0.uppercased())=\"GET /\($0) upstream=u errors=\($0) limit=1/h\"" }
        let gateway = try Gateway("TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\n" + routes.joined(separator: "\n"))
        let bearer = try gateway.bearer("--sub", "ada")
        for dialect in dialects {
            #expect(try gateway.ask("GET /\(dialect)", [bearer]).status == 200)
            for (fields, code) in [([], "UNAUTHORIZED"), ([bearer], "RATE_LIMITED")] {
                let answer = try gateway.ask("GET /\(dialect)", fields)
                let body = try JSON(answer.text)
                switch dialect {
                case "password", "apple", "anonymous":
                    #expect(body["error"]["code"].text == code)
                    #expect(body["error"]["message"].text?.isEmpty == false)
                case "provider":
                    #expect(body["code"].text == code)
                    #expect(body["error"].text?.isEmpty == false)
                case "dlauth":
                    #expect(body["error"].text == code.lowercased())
                    #expect(body["message"].text?.isEmpty == false)
                default:
                    #expect(body["code"].text == code)
                    #expect(body["status"].int == answer.status)
                    #expect(body["request_id"].text == answer["X-Request-Id"])
                    #expect(answer["Content-Type"] == "application/problem+json")
                }
                if dialect != "problem" { #expect(answer["Content-Type"]?.hasPrefix("application/json") == true) }
            }
        }
    }
}
