import Foundation
import TestThreads
import Testing

/// Answers of every kind, over both versions of HTTP, as pages of other origins get them.
@Suite(.ownThread) struct CORSEndToEndTests {
    private static let app = "https://app.example.org"
    private static let evil = "https://evil.test"

    /// A service with CORS fields of its own, which are wrong.
    private static func service() throws -> Upstream {
        try Upstream { request, connection in
            let own =
                "Access-Control-Allow-Origin: *\r\naccess-control-allow-credentials: true\r\nAccess-Control-Expose-Headers: X-Secret\r\n"
            switch request.target {
            case "/api/broken": connection.close()
            case "/api/late": Thread.sleep(forTimeInterval: 10)
            case "/api/hint": try connection.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\(own)\r\n")
            case "/api/trailers":
                return try connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\(own)\r\n")
            default: break
            }
            let isJSON = request.target.hasPrefix("/filtered")
            let body = isJSON ? #"{"tier":"premium"}"# : "ok"
            let status = request.target == "/api/gone" ? "410 Gone" : "200 OK"
            let type = request.target == "/filtered/text" ? "text/plain" : "application/json"
            try connection.send(
                "HTTP/1.1 \(status)\r\n\(own)Vary: Accept-Encoding, origin\r\nContent-Type: \(type)\r\nContent-Length: \(body.utf8.count)\r\nVary: ORIGIN\r\nX-Data: 1\r\n\r\n\(request.method == "HEAD" ? "" : body)"
            )
        }
    }

    private static func settings(_ upstream: Upstream, _ more: String = "") -> String {
        """
        TOLLGATE_LISTEN=127.0.0.1:0;h2c
        TOLLGATE_CORS="\(app)"
        TOLLGATE_CONTRACTS=password@/api/v1
        TOLLGATE_UPSTREAM_U="\(upstream.url) retries=0"
        TOLLGATE_UPSTREAM_NOBODY="http://127.0.0.1:1 retries=0"
        TOLLGATE_TRUST_FAR="issuer=https://far.test audience=any jwks=http://127.0.0.1:1/ algorithms=RS256"
        TOLLGATE_ROUTE_API="/api/* upstream=u auth=optional cors=\(app),https://*.example.net cors-expose=X-Data body-limit=10"
        TOLLGATE_ROUTE_LATE="/api/late upstream=u auth=optional cors=\(app),https://*.example.net cors-expose=X-Data body-limit=10 timeout=500ms"
        TOLLGATE_ROUTE_NEEDED="GET,PUT /needed/* upstream=u cors=\(app) tier=premium"
        TOLLGATE_ROUTE_LIMITED="/limited/* upstream=u auth=none limit=1/h"
        TOLLGATE_ROUTE_FILTERED="/filtered/* upstream=u auth=optional filter=tier"
        TOLLGATE_ROUTE_NOBODY="/nobody/* upstream=nobody auth=none"
        TOLLGATE_ROUTE_AWAY="/away/* upstream=u auth=none cors=off"
        \(more)
        """
    }

    private func encoded(_ text: String) -> String {
        Data(text.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    private func curl(
        _ gateway: Gateway, _ version: String, _ method: String, _ path: String, _ fields: [String], body: String? = nil
    ) throws -> Message {
        var arguments = ["-sS", "--max-time", "60", version, "--path-as-is", "-i", "-X", method]
        if method == "HEAD" { arguments = ["-sS", "--max-time", "60", version, "-I"] }
        for field in fields { arguments += ["-H", field] }
        if let body { arguments += ["--data-binary", body] }
        let outcome = try run("curl", arguments + ["http://127.0.0.1:\(gateway.port)\(path)"])
        guard outcome.code == 0 else { throw Fault("curl: \(outcome.complaints)") }
        var heads = outcome.output.components(separatedBy: "\r\n\r\n")
        while heads.count > 1, heads[0].hasPrefix("HTTP/1.1 1") || heads[0].hasPrefix("HTTP/2 1") { heads.removeFirst() }
        return Message(head: Array(heads[0].utf8))
    }

    @Test(arguments: ["--http1.1", "--http2-prior-knowledge"]) func everyAnswerSaysWhoMayReadIt(_ version: String) throws {
        let upstream = try Self.service()
        let gateway = try Gateway(Self.settings(upstream))
        let free = try gateway.bearer("--sub", "a")
        let far =
            "Authorization: Bearer \(encoded(#"{"alg":"RS256"}"#)).\(encoded(#"{"iss":"https://far.test","sub":"a","exp":9999999999}"#)).AAAA"
        _ = try gateway.ask("GET /limited/x")
        let kinds: [(status: Int, method: String, path: String, fields: [String], body: String?)] = [
            (200, "GET", "/api/x", [], nil), (200, "GET", "/api/x", [free], nil), (200, "HEAD", "/api/x", [], nil),
            (410, "GET", "/api/gone", [], nil),
            (200, "GET", "/api/hint", [], nil), (401, "GET", "/needed/x", [], nil),
            (401, "GET", "/needed/x", ["Authorization: Bearer x"], nil),
            (403, "GET", "/needed/x", [free], nil), (403, "GET", "/filtered/x", [], nil), (502, "GET", "/filtered/text", [], nil),
            (404, "GET", "/elsewhere", [], nil), (405, "DELETE", "/needed/x", [], nil), (400, "GET", "/api/%2e%2e/%2e%2e/x", [], nil),
            (413, "POST", "/api/x", [], "more than ten bytes"),
            (413, "POST", "/api/x", ["Transfer-Encoding: chunked"], "more than ten bytes"),
            (429, "GET", "/limited/x", [], nil), (502, "GET", "/api/broken", [], nil), (502, "GET", "/nobody/x", [], nil),
            (503, "GET", "/api/x", [far], nil),
            (504, "GET", "/api/late", [], nil), (401, "GET", "/api/v1/auth/me", [], nil), (400, "POST", "/api/v1/auth/login", [], "{}"),
            (200, "GET", "/.well-known/jwks.json", [], nil),
        ]
        for kind in kinds {
            // A request of HTTP/2 has no such field; curl makes content without a length of it all the same.
            let fields = version == "--http1.1" ? kind.fields : kind.fields.filter { !$0.hasPrefix("Transfer-Encoding") }
            for origin in [Self.app, Self.evil, nil] {
                let answer = try curl(
                    gateway, version, kind.method, kind.path, fields + (origin.map { ["Origin: \($0)"] } ?? []), body: kind.body)
                // The token's holder is a stranger's page: the method decides.
                #expect(answer.status == kind.status, "\(kind.method) \(kind.path) \(origin ?? "-"): \(answer)")
                let isAllowed = origin == Self.app
                #expect(answer.all("Access-Control-Allow-Origin") == (isAllowed ? [Self.app] : []), "\(kind.path): \(answer)")
                #expect(answer.all("Access-Control-Expose-Headers").count == (isAllowed ? 1 : 0))
                #expect(answer["Access-Control-Allow-Credentials"] == nil)
                let varying = answer.all("Vary").joined(separator: ", ").lowercased().components(separatedBy: ", ")
                #expect(varying.filter { $0 == "origin" }.count == 1, "\(kind.path): \(answer)")
                if kind.status == 200, kind.path.hasPrefix("/api/") {
                    #expect(varying.contains("accept-encoding") && answer["X-Data"] == "1")
                }
                #expect(answer["X-Request-Id"] != nil)
            }
        }
    }

    /// A browser's head with too many cookies, for example.
    @Test func aHeadThatIsTooLargeIsRefusedWithTheFieldsOfTheCommonSettingOverHTTP2() throws {
        let gateway = try Gateway(Self.settings(try Self.service()))
        let many = (0..<110).map { "X-\($0): y" }
        let long = ["X-Long: " + String(repeating: "y", count: 40_000)]
        let requests: [(status: Int, path: String, fields: [String])] = [
            (431, "/api/x", many), (431, "/api/x", long), (414, "/api/" + String(repeating: "x", count: 9_000), []),
        ]
        for request in requests {
            for origin in [Self.app, Self.evil] {
                let answer = try curl(gateway, "--http2-prior-knowledge", "GET", request.path, ["Origin: \(origin)"] + request.fields)
                #expect(answer.status == request.status, "\(answer)")
                #expect(answer.all("Access-Control-Allow-Origin") == (origin == Self.app ? [Self.app] : []), "\(answer)")
                #expect(answer["Vary"] == "Origin")
            }
            // Behind the limit it is not read.
            if request.status == 431 {
                let late = try curl(gateway, "--http2-prior-knowledge", "GET", request.path, request.fields + ["Origin: \(Self.app)"])
                #expect(late.status == 431 && late["Access-Control-Allow-Origin"] == nil && late["Vary"] == "Origin", "\(late)")
            }
        }
    }

    @Test func interimAnswersAndTrailersLoseTheUpstreamsFields() throws {
        let upstream = try Self.service()
        let gateway = try Gateway(Self.settings(upstream))
        let answer = try gateway.ask("GET /api/hint", ["Origin: \(Self.app)"])
        #expect(answer.interim.count == 1 && answer.interim[0]["Link"] == "</a>" && answer.interim[0]["Access-Control-Allow-Origin"] == nil)
        #expect(try gateway.ask("GET /api/trailers", ["Origin: \(Self.app)", "TE: trailers"]).trailers.map(\.name) == ["X-Sum"])
    }

    @Test func aRouteWithCorsOffIsTheUpstreamsOwn() throws {
        let upstream = try Self.service()
        let gateway = try Gateway(Self.settings(upstream))
        for origin in [Self.app, Self.evil] {
            let answer = try gateway.ask("GET /away/x", ["Origin: \(origin)"])
            #expect(answer["Access-Control-Allow-Origin"] == "*" && answer["Access-Control-Expose-Headers"] == "X-Secret")
            #expect(answer.all("Vary") == ["Accept-Encoding, origin", "ORIGIN"])
            #expect(try gateway.ask("OPTIONS /away/x", ["Origin: \(origin)", "Access-Control-Request-Method: PUT"]).status == 200)
            #expect(try gateway.ask("POST /away/x", ["Origin: \(origin)", "Cookie: a=b"], body: []).status == 200)
        }
        #expect(upstream.requests.now.map(\.method) == ["GET", "OPTIONS", "POST", "GET", "OPTIONS", "POST"])
        #expect(upstream.requests.now.allSatisfy { $0["Origin"] != nil })
    }

    @Test func aPreflightNeedsNoTokenAndCostsNothing() throws {
        let upstream = try Self.service()
        let gateway = try Gateway(Self.settings(upstream))
        let ask = [
            "Origin: \(Self.app)", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: authorization,content-type",
        ]
        let connection = try gateway.connect()
        for _ in 0..<3 {
            let answer = try connection.ask("OPTIONS /needed/x", ask)
            #expect(answer.status == 204 && answer["Content-Length"] == nil)
            #expect(answer["Access-Control-Allow-Origin"] == Self.app && answer["Access-Control-Allow-Methods"] == "GET, PUT")
            #expect(answer["Access-Control-Allow-Headers"]?.contains("Authorization") == true && answer["Access-Control-Max-Age"] == "600")
        }
        // A preflight with content, which no browser sends, is answered and the content dropped.
        #expect(try connection.ask("OPTIONS /limited/x", ask, body: Array("content".utf8)).status == 204)
        #expect(try connection.ask("GET /limited/x").status == 200)
        #expect(try connection.ask("OPTIONS /limited/x", ask).status == 204)
        #expect(try connection.ask("OPTIONS /needed/x").status == 405)
        let foreign = try gateway.ask("OPTIONS /needed/x", ["Origin: \(Self.evil)", "Access-Control-Request-Method: PUT"])
        #expect(
            foreign.status == 204 && foreign.fields.allSatisfy { !$0.name.lowercased().hasPrefix("access-control-") }
                && foreign["Vary"] == "Origin")
        #expect(upstream.requests.now.map(\.method) == ["GET"])
        let lines = try gateway.accessLog(8)
        #expect(lines[0]["status"].int == 204 && lines[0]["route"].text == "needed" && lines[0]["auth"].text != "refused")
        #expect(try gateway.metric("tollgate_http_requests_total", #"method="OPTIONS""#, #"code_class="2xx""#) == 6)
    }

    @Test func aHeadThatComesByteByByteIsTheSame() throws {
        let gateway = try Gateway(Self.settings(try Self.service()))
        let connection = try gateway.connect()
        for byte in requestHead("OPTIONS /needed/x", ["Origin: \(Self.app)", "Access-Control-Request-Method: GET"]).utf8 {
            try connection.send([byte])
        }
        #expect(try connection.answer()["Access-Control-Allow-Origin"] == Self.app)
    }

    @Test func aForeignPageChangesNothingWithTheUsersCookie() throws {
        let upstream = try Self.service()
        let gateway = try Gateway(Self.settings(upstream))
        for field in ["Cookie: s=1", "Authorization: Bearer x"] {
            let refused = try gateway.ask("POST /api/x", ["Origin: \(Self.evil)", field], body: [])
            #expect(refused.status == 403 && refused.text.contains("FORBIDDEN"))
        }
        for origin in [Self.app, "https://a.example.net", "http://localhost:8000", "http://test"] {
            #expect(try gateway.ask("POST /api/x", ["Origin: \(origin)", "Cookie: s=1"], body: []).status == 200, "\(origin)")
        }
        #expect(try gateway.ask("POST /api/x", ["Origin: \(Self.evil)"], body: []).status == 200)
        #expect(upstream.requests.now.count == 5)
        #expect(try gateway.accessLog(2)[0]["auth_reason"].text == "foreign_origin")
        #expect(try gateway.metric("tollgate_auth_decisions_total", #"reason="foreign_origin""#) == 2)
    }

    @Test func contractsAreRuledByTheCommonSetting() throws {
        let gateway = try Gateway(Self.settings(try Self.service()))
        let ask = ["Origin: \(Self.app)", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type"]
        let preflight = try gateway.ask("OPTIONS /api/v1/auth/register", ask)
        #expect(preflight.status == 204 && preflight["Access-Control-Allow-Methods"] == "POST")
        let body = Array(#"{"email":"ada@example.org","password":"correct horse battery"}"#.utf8)
        let answer = try gateway.ask("POST /api/v1/auth/register", ["Origin: \(Self.app)", "Content-Type: application/json"], body: body)
        #expect(answer.status == 201 && answer["Access-Control-Allow-Origin"] == Self.app)
        #expect(try gateway.ask("POST /api/v1/auth/login", ["Origin: \(Self.evil)", "Cookie: a=b"], body: body).status == 403)
    }

    @Test func aReloadChangesWhoMayCall() throws {
        let upstream = try Self.service()
        let gateway = try Gateway(Self.settings(upstream))
        let allowed = { (origin: String) in try gateway.ask("GET /limited/y/z", ["Origin: \(origin)"])["Access-Control-Allow-Origin"] }
        #expect(try allowed(Self.app) == Self.app)
        try gateway.reload(Self.settings(upstream).replacing("TOLLGATE_CORS=\"\(Self.app)\"", with: "TOLLGATE_CORS=\(Self.evil)"))
        #expect(try allowed(Self.app) == nil)
        #expect(try allowed(Self.evil) == Self.evil)
        try gateway.reload(Self.settings(upstream).replacing("TOLLGATE_CORS=\"\(Self.app)\"", with: "TOLLGATE_CORS=off"))
        #expect(try allowed(Self.evil) == nil)
    }

    @Test func checkAndExplainSayWhoMayCall() throws {
        let gateway = try Gateway(Self.settings(try Self.service()))
        let check = try gateway.command(["check"])
        #expect(check.code == 0, "\(check.complaints)")
        #expect(check.output.contains("cors=\(Self.app),https://*.example.net cors-expose=X-Data"))
        let explained = try gateway.command([
            "explain", "OPTIONS", "/needed/x", "--header", "Origin: \(Self.app)", "--header", "Access-Control-Request-Method: PUT",
        ])
        #expect(explained.code == 0)
        #expect(explained.output.contains("a preflight: \(Self.app) is allowed by \(Self.app)"))
        #expect(explained.output.contains("answered by the gateway itself: 204"))
    }
}
