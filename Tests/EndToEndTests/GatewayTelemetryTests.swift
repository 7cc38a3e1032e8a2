import Foundation
import TestThreads
import Testing

/// What the gateway tells of itself: health, metrics, and one line for each request that holds no secret.
@Suite(.ownThread) struct GatewayTelemetryTests {
    @Test func healthIsPlain() throws {
        let gateway = try Gateway("")
        #expect(try gateway.askAdmin("/livez").status == 200)
        let ready = try gateway.askAdmin("/readyz")
        #expect(ready.status == 200)
        #expect(try JSON(ready.text)["status"].text == "ready")
        #expect(try gateway.askAdmin("/nothing").status == 404)
        let connection = try Connection(port: gateway.adminPort)
        #expect(try connection.ask("POST /livez", body: [1]).status == 405)
        #expect(try connection.ask("HEAD /metrics").status == 200)
        #expect(try gateway.ask("GET /metrics").status == 404, "not on the main listeners")
    }

    @Test func metricsAreWellFormedAndCount() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_WORKERS=2
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_A="/a upstream=u"
            TOLLGATE_ROUTE_B="/b upstream=u auth=none limit=2/h"
            """)
        let bearer = try gateway.bearer("--sub", "ada", "--tier", "premium")
        for _ in 0..<5 { #expect(try gateway.ask("GET /a", [bearer]).status == 200) }
        for _ in 0..<3 { try gateway.ask("GET /a") }
        for _ in 0..<4 { try gateway.ask("POST /b", body: [1]) }
        let kept = try gateway.connect()
        try kept.ask("GET /missing")
        let text = try gateway.askAdmin("/metrics").text
        try Self.check(text)
        let table: [([String], Double)] = [
            ([#"route="a""#, #"code_class="2xx""#, #"tier="premium""#], 5), ([#"route="a""#, #"code_class="4xx""#], 3),
            ([#"route="b""#, #"method="POST""#, #"code_class="2xx""#], 2), ([#"route="b""#, #"code_class="4xx""#], 2),
        ]
        for (labels, count) in table {
            let lines = text.split(separator: "\n").filter { line in
                line.hasPrefix("tollgate_http_requests_total{") && labels.allSatisfy { line.contains($0) }
            }
            #expect(lines.compactMap { Double($0.split(separator: " ").last ?? "") }.reduce(0, +) == count, "\(labels)")
        }
        #expect(try gateway.metric("tollgate_http_request_duration_seconds_count", #"route="a""#) == 8)
        #expect(try gateway.metric("tollgate_token_cache_hits_total") + gateway.metric("tollgate_token_cache_misses_total") == 5)
        #expect(try gateway.metric("tollgate_upstream_requests_total", #"upstream="u""#) == 7)
        #expect(try gateway.metric("tollgate_connections_accepted_total") >= 13)
        #expect(try gateway.metric("tollgate_http_requests_in_flight") == 0)
    }

    /// The exposition format, as far as scrapers rely on it.
    private static func check(_ text: String) throws {
        let sample = /([a-z_][a-z0-9_]*)(\{([a-z_]+="[^"]*",?)*\})? (-?[0-9.e+]+|\+Inf|NaN)/
        var (types, current, seen, last): ([String: String], String, Set<String>, [String: Double]) = ([:], "", [], [:])
        for line in text.split(separator: "\n").map(String.init) {
            if line.hasPrefix("#") {
                let words = line.split(separator: " ")
                if words[1] == "TYPE" {
                    #expect(types.updateValue(String(words[3]), forKey: String(words[2])) == nil, "twice: \(line)")
                    current = String(words[2])
                }
                continue
            }
            guard let match = line.wholeMatch(of: sample) else { throw Fault("no sample: \(line)") }
            let name = String(match.1)
            #expect(name == current || (types[current] == "histogram" && name.hasPrefix(current + "_")), "out of place: \(line)")
            let series = String(line.split(separator: " ")[0])
            #expect(seen.insert(series).inserted, "twice: \(line)")
            if name.hasSuffix("_bucket"), let value = Double(match.4) {
                let others = name + series.replacing(/le="[^"]*"/, with: "")
                #expect(value >= last[others] ?? 0, "a bucket below the one before: \(line)")
                last[others] = value
            }
        }
        #expect(types.count > 20)
    }

    @Test func everyRequestHasOneLineAndNoSecret() throws {
        let upstream = try Upstream()
        let secret = String(repeating: "s", count: 40)
        let gateway = try Gateway(
            """
            TOLLGATE_JWT_SECRET=\(secret)
            TOLLGATE_LOG=debug
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_A="/a/* upstream=u limit=3/h"
            TOLLGATE_ROUTE_B="/b/* upstream=u auth=none"
            """)
        let good = try gateway.bearer("--sub", "ada", "--email", "ada@example.org")
        let expired = try IssuerKey(.hs256(secret: secret)).token(
            #"{"iss":"http://localhost:8000","aud":"tollgate","sub":"ada","exp":\#(unixNow - 100)}"#)
        let foreign = try IssuerKey(.hs256(secret: secret + "x")).token(#"{"sub":"mallory-secret","exp":\#(unixNow + 100)}"#)
        let more = [
            "X-Internal-Key: key-secret", "X-Refresh-Token: refresh-secret", "Cookie: cookie-secret", "User-Agent: \"quoted\\ \u{1F600}",
        ]
        let asked: [(String, [String])] = [
            ("GET /a/x?access_token=query-secret", [good]), ("GET /a/x", [good] + more), ("GET /a/x", ["Authorization: Bearer \(expired)"]),
            ("GET /a/x", ["Authorization: Bearer \(foreign)"] + more), ("GET /a/x", ["Authorization: Basic basic-secret"]),
            ("GET /a/x", [good]), ("GET /a/x", [good]), ("GET /b/x", [good]), ("GET /missing?code=query-secret", [good]),
            ("GET /b/\"quote\"", []), ("GET /a/x", [good, good]),
        ]
        var ids: Set<String> = []
        for (request, fields) in asked { ids.insert(try gateway.ask(request, fields)["X-Request-Id"] ?? "") }
        let malformed = try gateway.connect()
        try malformed.send("GET /a/x HTTP/1.1\r\nHost: a\r\nHost: b\r\nAuthorization: Bearer head-secret\r\n\r\n")
        ids.insert(try malformed.answer()["X-Request-Id"] ?? "")
        let lines = try gateway.accessLog(asked.count + 1)
        #expect(try gateway.stop() == 0)
        #expect(gateway.process.output.now.count == asked.count + 1, "one line a request, and nothing else")
        #expect(Set(lines.compactMap { $0["request_id"].text }) == ids)
        #expect(lines.allSatisfy { $0["status"].int != nil && $0["client_ip"].text == "127.0.0.1" && $0["duration_ms"].number != nil })
        #expect(lines.map { $0["status"].int ?? 0 }.sorted() == [200, 200, 200, 200, 200, 400, 400, 401, 401, 401, 404, 429].sorted())
        let written = (gateway.process.output.now + gateway.process.complaints.now).joined(separator: "\n")
        for (_, fields) in asked {
            for field in fields where field.hasPrefix("Authorization: Bearer ") {
                for part in field.dropFirst(22).split(separator: ".") where part.count > 40 {
                    #expect(!written.contains(part), "a part of a token is in the log")
                }
            }
        }
        for word in ["-secret", secret, "ada@example.org"] { #expect(!written.contains(word), "\(word) is in the log") }
    }

    @Test func aForwardedRequestsLineNamesWhereItWentTo() throws {
        let (refusing, upstream) = (try Listening.refusing(), try Upstream())
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_ONE="\(upstream.url)"
            TOLLGATE_UPSTREAM_TWO="http://127.0.0.1:\(refusing.port) \(upstream.url)"
            TOLLGATE_UPSTREAM_DOWN="http://127.0.0.1:\(refusing.port) retries=0"
            TOLLGATE_ROUTE_ONE="/one upstream=one auth=none"
            TOLLGATE_ROUTE_TWO="/two upstream=two auth=none"
            TOLLGATE_ROUTE_DOWN="/down upstream=down auth=none limit=9/h"
            TOLLGATE_ROUTE_SHUT="/shut upstream=one"
            """)
        for path in ["/one", "/two", "/two", "/down", "/shut", "/none"] { try gateway.ask("GET \(path)") }
        let lines = try gateway.accessLog(6)
        #expect(lines.map { $0["upstream"].text } == ["one", "two", "two", "down", nil, nil])
        let (well, away) = ("127.0.0.1:\(upstream.port)", "127.0.0.1:\(refusing.port)")
        // After a second try, the one that answered.
        #expect(lines.map { $0["upstream_addr"].text } == [well, well, well, away, nil, nil])
        #expect(lines.map { $0["attempts"].int ?? 0 }.reduce(0, +) == 5)
    }

    @Test func theLogCanBeTextOrOff() throws {
        let upstream = try Upstream()
        let settings = "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_B=\"/b upstream=u auth=none\"\n"
        let quiet = try Gateway(settings + "TOLLGATE_ACCESS_LOG=off")
        #expect(try quiet.ask("GET /b").status == 200)
        #expect(try quiet.stop() == 0)
        #expect(quiet.process.output.now.isEmpty)
        let plain = try Gateway(settings + "TOLLGATE_ACCESS_LOG=text")
        #expect(try plain.ask("GET /b", ["User-Agent: two words=\"x\"\u{7F}\u{1B}[31m"]).status == 400)
        #expect(try plain.ask("GET /b", ["User-Agent: two words=\"x\""]).status == 200)
        #expect(try plain.stop() == 0)
        let line = try #require(plain.process.output.now.last)
        for word in ["access", "route=b", "status=200", #"user_agent="two words=\"x\"""#] { #expect(line.contains(word), "\(line)") }
    }

    @Test func aReaderOfTheLogThatStopsHoldsUpNobody() throws {
        let upstream = try Upstream()
        let folder = try Folder()
        try mustRun("mkfifo", [folder.file("log")])
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_B=\"/b upstream=u auth=none\"\n", folder: folder,
            command: ["sh", "-c", "exec \"$@\" 1<>\(folder.file("log"))", "sh"])
        let connection = try gateway.connect()
        for _ in 0..<1_500 { #expect(try connection.ask("GET /b").status == 200) }
        #expect(try gateway.stop() == 0)
    }
}
