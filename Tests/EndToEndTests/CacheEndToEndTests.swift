import Foundation
import TestThreads
import Testing

/// Cached routes through the binary, with two workers: what one has fetched, the other answers.
@Suite(.ownThread) struct CacheEndToEndTests {
    private static func settings(_ upstream: Upstream, _ options: String = "cache-by=public") -> String {
        """
        TOLLGATE_WORKERS=2
        TOLLGATE_UPSTREAM_U="\(upstream.url)"
        TOLLGATE_ROUTE_ALL="/* upstream=u auth=optional cache=60s \(options)"
        """
    }

    @Test func hundredsWhoAskAtATimeAreOneRequestToTheUpstream() throws {
        let content = String(repeating: "0123456789", count: 2_000)
        let mayAnswer = Watched(false)
        let upstream = try Upstream { _, connection in
            _ = try mayAnswer.wait(for: "all have asked") { $0 }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(content.utf8.count)\r\n\r\n\(content)")
        }
        let gateway = try Gateway(Self.settings(upstream))
        let clients = try (0..<400).map { _ in try gateway.connect() }
        for client in clients { try client.send("GET /list HTTP/1.1\r\nHost: test\r\n\r\n") }
        try eventually("all requests are under way") { try gateway.metric("tollgate_http_requests_in_flight") == 400 }
        mayAnswer.change { $0 = true }
        for client in clients {
            let answer = try client.answer()
            #expect(answer.status == 200 && answer.text == content)
        }
        #expect(upstream.requests.now.count == 1)
        // Each worker answers from its own index.
        for _ in 0..<20 { #expect(try gateway.ask("GET /list")["Cache-Status"]?.hasPrefix("tollgate; hit; ttl=") == true) }
        #expect(upstream.requests.now.count == 1)
        #expect(try gateway.metric("tollgate_cache_entries") == 1)
        #expect(try gateway.metric("tollgate_cache_requests_total", "route=\"all\"", "result=\"hit\"") == 20)
    }

    @Test func theAccessLogHasTheResult() throws {
        let upstream = try Upstream { request, connection in
            let control = ["/no": "no-store", "/old": "max-age=0"][request.target] ?? "max-age=60"
            let isKnown = request["If-None-Match"] != nil
            let rest = isKnown ? "" : "Content-Length: 2\r\n"
            try connection.send(
                "HTTP/1.1 \(isKnown ? 304 : 200) X\r\nETag: \"a\"\r\nCache-Control: \(control)\r\n\(rest)\r\n\(isKnown ? "" : "ok")")
        }
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_OLD="/old upstream=u auth=none cache=60s cache-on-error=1h"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none cache=60s"
            TOLLGATE_ROUTE_PLAIN="/plain upstream=u auth=none"
            """)
        let expected: [(path: String, result: String?, status: String?)] = [
            ("/a", "stored", "tollgate; fwd=miss; stored"), ("/a", "hit", nil), ("/old", "stored", "tollgate; fwd=miss; stored"),
            ("/old", "revalidated", "tollgate; fwd=stale; fwd-status=304"), ("/no", "miss", "tollgate; fwd=miss"),
            ("/no", "bypass", "tollgate; fwd=bypass"), ("/plain", nil, nil),
        ]
        for (path, _, status) in expected {
            let answer = try gateway.ask("GET \(path)")
            #expect(answer.text == "ok" && (status == nil || answer["Cache-Status"] == status), "\(path)")
        }
        upstream.stop()
        let results = try gateway.accessLog(expected.count).map { $0["cache_result"].text }
        #expect(results == expected.map(\.result))
        #expect(try gateway.metric("tollgate_cache_requests_total", "route=\"old\"", "result=\"revalidated\"") == 1)
    }

    @Test func noWorkerSendsAnOlderResponseOnceAChangeIsAnswered() throws {
        let version = Watched(0)
        let upstream = try Upstream { request, connection in
            if request.method == "PUT" { version.change { $0 += 1 } }
            let text = "\(version.now)"
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)")
        }
        let gateway = try Gateway(Self.settings(upstream).replacing("WORKERS=2", with: "WORKERS=4"))
        // The kernel spreads them over the workers.
        let readers = try (0..<12).map { _ in try gateway.connect() }
        let writer = try gateway.connect()
        for round in 1...150 {
            for reader in readers { _ = try reader.ask("GET /x") }
            _ = try writer.ask("PUT /x", body: [1])
            // All at once, so that they come while the workers hear of the change.
            for reader in readers { try reader.send(requestHead("GET /x")) }
            let answers = try readers.map { try $0.answer().text }
            guard answers.allSatisfy({ $0 == "\(round)" }) else {
                Issue.record("after change \(round): \(answers)")
                return
            }
        }
    }

    @Test func aPurgeCountsAtEveryWorkerOnceItIsAnswered() throws {
        let upstream = try Upstream { request, connection in
            try connection.send("HTTP/1.1 200 OK\r\nCache-Tag: t\(request.target.count)\r\nContent-Length: 2\r\n\r\nok")
        }
        let gateway = try Gateway(Self.settings(upstream) + "\nTOLLGATE_ADMIN_TOKEN=\(Fleet.adminToken)")
        func admin(_ methodAndTarget: String, _ json: String = "") throws -> Message {
            try Connection(port: gateway.adminPort).ask(
                methodAndTarget, ["Host: localhost", "Authorization: Bearer \(Fleet.adminToken)"], body: Array(json.utf8))
        }
        func isHit(_ path: String) throws -> Bool { try gateway.ask("GET \(path)")["Cache-Status"]?.contains("hit") == true }
        func fill() throws { for path in ["/a", "/b/1", "/b/2"] { _ = try gateway.ask("GET \(path)") } }
        let purges = [
            (#"{"path":"/b/"}"#, ["/b/1", "/b/2"]), (#"{"tag":"t2"}"#, ["/a"]), (#"{"all":true}"#, ["/a", "/b/1", "/b/2"]),
        ]
        for (options, gone) in purges {
            try fill()
            #expect(try admin("GET /admin/api/cache?route=all").text.hasPrefix(#"{"entries":3,"#))
            #expect(try admin("POST /admin/api/cache/purge", options).text.hasPrefix(#"{"entries":\#(gone.count),"#))
            for path in ["/a", "/b/1", "/b/2"] { #expect(try isHit(path) != gone.contains(path), "\(options) \(path)") }
        }
        #expect(try gateway.command(["cache", "purge"]).code == 2)
    }

    @Test func aPurgeCountsAtEveryGatewayOfTheDatabase() throws {
        let upstream = try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nCache-Tag: news\r\nContent-Length: 2\r\n\r\nok"))
        let fleet = try Fleet(
            2, .postgres, "TOLLGATE_UPSTREAM_C=\"\(upstream.url)\"", "TOLLGATE_ROUTE_ALL=\"/c/* upstream=c auth=none cache=60s\"")
        func isHit(_ gateway: Gateway, _ path: String) throws -> Bool {
            try gateway.ask("GET \(path)")["Cache-Status"]?.contains("hit") == true
        }
        for selector in [#"{"tag":"news"}"#, #"{"path":"/c/1"}"#, #"{"all":true}"#] {
            for gateway in fleet.gateways {
                for path in ["/c/1", "/c/2"] { try eventually("it is kept") { try isHit(gateway, path) } }
            }
            #expect(try fleet.admin(0, "POST /admin/api/cache/purge", selector).status == 200)
            let isAsked = !selector.contains("path")
            for gateway in fleet.gateways {
                #expect(try !isHit(gateway, "/c/1"), "\(selector)")
                #expect(try isHit(gateway, "/c/2") != isAsked, "\(selector)")
            }
        }
        let refused = try fleet.admin(0, "POST /admin/api/cache/purge", #"{"tags":"news"}"#)
        #expect(refused.status == 400 && refused.text.contains("There is no member tags here"))
    }

    /// A change through one side of a split leaves no older response of the other.
    @Test func aChangeCountsForBothSidesOfASplit() throws {
        let upstream = try Upstream(), next = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_C="\(upstream.url)"
            TOLLGATE_UPSTREAM_V="\(next.url)"
            TOLLGATE_ROUTE_ALL="/c/* upstream=c auth=none cache=60s split=100%:v split-by=address when=header:X-Side=v"
            """)
        func result(_ fields: [String]) throws -> String { try gateway.ask("GET /c/1", fields)["Cache-Status"] ?? "" }
        for fields in [[], ["X-Side: v"]] { try eventually("it is kept") { try result(fields).contains("hit") } }
        #expect(try gateway.ask("POST /c/1", ["X-Side: v"]).status == 200)
        for fields in [[], ["X-Side: v"]] { #expect(try !result(fields).contains("hit"), "\(fields)") }
    }

    @Test func oneFetchServesEveryTier() throws {
        let list = #"[{"tier":"free","id":1},{"tier":"premium","id":2}]"#
        let upstream = try Upstream(
            Upstream.saying("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(list.utf8.count)\r\n\r\n\(list)"))
        let gateway = try Gateway(Self.settings(upstream, "cache-by=public filter=tier"))
        let premium = try gateway.bearer("--sub", "bob", "--tier", "premium")
        #expect(try gateway.ask("GET /x", [premium]).text == list)
        for _ in 0..<5 {
            #expect(try gateway.ask("GET /x").text == #"[{"tier":"free","id":1}]"#)
            #expect(try gateway.ask("GET /x", [premium]).text == list)
        }
        let request = try #require(upstream.requests.now.first)
        #expect(upstream.requests.now.count == 1 && request["Authorization"] == nil && request["X-User-Id"] == nil)
        #expect(request["X-Forwarded-For"] == nil && request["X-Real-IP"] == nil)
    }
}
