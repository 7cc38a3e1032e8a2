import Foundation
import TestThreads
import Testing

/// Stored answers as Varnish and nginx give them, where the three agree.
@Suite(.ownThread) struct CacheComparisonTests {
    private enum Cache: String, CaseIterable { case tollgate, varnish, nginx }

    /// An answer of the upstream, requests for it one after the other, and what clients get: the status, and the number of the fetch that
    /// the content has. `without` are those that decide otherwise, for the reason beside it.
    private struct Case {
        var status = 200
        let fields: [String]
        var requests = ["", ""]
        let answers: [String]
        var without: Set<Cache> = []
    }

    private static let first = "0000000001", second = "0000000002"
    private static let kept = ["200 \(first)", "200 \(first)"], fetched = ["200 \(first)", "200 \(second)"]
    private static let date = "Wed, 15 Jul 2026 10:36:17 GMT"

    private static let cases: [Case] = [
        // Freshness.
        Case(fields: [], answers: kept), Case(fields: ["Cache-Control: max-age=60"], answers: kept),
        Case(fields: ["Cache-Control: public, MAX-AGE=60"], answers: kept), Case(fields: ["Cache-Control: max-age=0"], answers: fetched),
        Case(fields: ["Cache-Control: max-age=0, s-maxage=60"], answers: kept),
        Case(fields: ["Cache-Control: s-maxage=0, max-age=60"], answers: fetched),
        Case(fields: ["Expires: Thu, 01 Jan 1970 00:00:10 GMT"], answers: fetched),  // Varnish takes a malformed date for none.
        Case(fields: ["Expires: 0"], answers: fetched, without: [.varnish]),
        Case(fields: ["Expires: Fri, 31 Dec 2032 23:59:59 GMT"], answers: kept),
        Case(fields: ["Cache-Control: max-age=60", "Expires: Thu, 01 Jan 1970 00:00:10 GMT"], answers: kept),
        Case(fields: ["Cache-Control: max-age=60", "Age: 10"], answers: kept),
        // nginx does not look at `Age`.
        Case(fields: ["Cache-Control: max-age=60", "Age: 100"], answers: fetched, without: [.nginx]),
        // What is not kept.
        Case(fields: ["Cache-Control: no-store"], answers: fetched), Case(fields: ["Cache-Control: no-cache"], answers: fetched),
        Case(fields: ["Cache-Control: private, max-age=60"], answers: fetched),
        Case(fields: ["Cache-Control: max-age=60", "Set-Cookie: a=b"], answers: fetched),
        Case(fields: ["Cache-Control: max-age=60", "Vary: *"], answers: fetched),
        // Statuses.
        Case(status: 301, fields: ["Location: /x"], answers: ["301 \(first)", "301 \(first)"]),
        Case(status: 302, fields: ["Location: /x"], answers: ["302 \(first)", "302 \(second)"]),
        Case(status: 302, fields: ["Location: /x", "Cache-Control: max-age=60"], answers: ["302 \(first)", "302 \(first)"]),
        Case(status: 404, fields: ["Cache-Control: max-age=60"], answers: ["404 \(first)", "404 \(first)"]),
        Case(status: 500, fields: [], answers: ["500 \(first)", "500 \(second)"]),
        // nginx keeps any status that says for how long.
        Case(status: 503, fields: ["Cache-Control: max-age=60"], answers: ["503 \(first)", "503 \(second)"], without: [.nginx]),
        // What the upstream chooses by.
        Case(
            fields: ["Vary: Accept-Language"],
            requests: ["Accept-Language: de", "Accept-Language: en", "Accept-Language: de", "Accept-Language: en", ""],
            answers: ["200 \(first)", "200 \(second)", "200 \(first)", "200 \(second)", "200 0000000003"]),
        Case(
            fields: ["Vary: X-A"], requests: ["X-A: 1", "X-A: 2", "X-B: 1|X-A: 1"],
            answers: ["200 \(first)", "200 \(second)", "200 \(first)"]),
        // Queries are part of the key, HEAD is answered from the response to GET.
        Case(fields: [], requests: ["?a=1", "?a=2", "?a=1"], answers: ["200 \(first)", "200 \(second)", "200 \(first)"]),
        Case(fields: [], requests: ["", "HEAD", ""], answers: ["200 \(first)", "200 HEAD 10", "200 \(first)"]),
        // Conditions.
        Case(
            fields: ["ETag: \"a\""],
            requests: [
                "", "If-None-Match: \"a\"", "If-None-Match: \"b\", \"a\"", "If-None-Match: W/\"a\"", "If-None-Match: \"b\"",
                "If-None-Match: *",
            ], answers: ["200 \(first)", "304 ", "304 ", "304 ", "200 \(first)", "304 "], without: [.varnish]),
        // Varnish knows no lists and no `*`.
        Case(
            fields: ["ETag: \"a\""],
            requests: ["", "If-None-Match: \"a\"", "If-None-Match: W/\"a\"", "If-None-Match: \"b\""],
            answers: ["200 \(first)", "304 ", "304 ", "200 \(first)"]),
        Case(
            fields: ["Last-Modified: \(date)"],
            requests: ["", "If-Modified-Since: \(date)", "If-Modified-Since: Wed, 15 Jul 2026 10:36:16 GMT"],
            answers: ["200 \(first)", "304 ", "200 \(first)"]),
        // Ranges.
        Case(
            fields: ["ETag: \"a\""],
            requests: ["", "Range: bytes=0-1", "Range: bytes=8-", "Range: bytes=-2", "Range: bytes=9-90", "Range: bytes=10-"],
            answers: ["200 \(first)", "206 00", "206 01", "206 01", "206 1", "416 "]),
        // Varnish and nginx answer 416 to what is malformed.
        Case(
            fields: ["ETag: \"a\""], requests: ["", "Range: lines=1-2", "Range: bytes=5-4"],
            answers: ["200 \(first)", "200 \(first)", "200 \(first)"], without: [.varnish, .nginx]),
        Case(
            fields: ["ETag: \"a\""],
            requests: [
                "", "Range: bytes=0-1|If-Range: \"a\"", "Range: bytes=0-1|If-Range: \"b\"", "Range: bytes=0-1|If-None-Match: \"a\"",
            ],
            answers: ["200 \(first)", "206 00", "200 \(first)", "304 "]),
    ]

    /// Answers as the case says whose number the path is. Contents are numbers that grow with each fetch of the case.
    private static func upstream() throws -> Upstream {
        let counts = Watched<[Int: Int]>([:])
        return try Upstream { request, connection in
            guard let number = Int(request.target.dropFirst().prefix { $0.isNumber }), cases.indices.contains(number) else {
                return try Upstream.ok(request, connection)
            }
            counts.change { $0[number, default: 0] += 1 }
            let content = String(String(10_000_000_000 + (counts.now[number] ?? 0)).dropFirst())
            let lines =
                ["HTTP/1.1 \(cases[number].status) Status", "Content-Type: text/plain", "Content-Length: 10"] + cases[number].fields
            try connection.send(lines.joined(separator: "\r\n") + "\r\n\r\n" + (request.method == "HEAD" ? "" : content))
        }
    }

    private static func answer(_ port: Int, _ number: Int, _ request: String) throws -> Message {
        let method = request == "HEAD" ? "HEAD" : "GET"
        let query = request.hasPrefix("?") ? request : ""
        let fields = request == "HEAD" || request.hasPrefix("?") ? [] : request.split(separator: "|").map(String.init)
        return try Connection(port: port).ask("\(method) /\(number)\(query)", fields)
    }

    private static func summary(_ answer: Message, _ request: String) -> String {
        let content = request == "HEAD" ? "HEAD \(answer["Content-Length"] ?? "")" : answer.status == 416 ? "" : answer.text
        return "\(answer.status) \(content)"
    }

    @Test(.enabled(if: isThere(Varnish.program))) func theThreeAgree() throws {
        let upstreams = try Cache.allCases.map { _ in try Self.upstream() }
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_U="\(upstreams[0].url)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none cache=60s cache-by=public cache-vary=X-A"
            """)
        let varnish = try Varnish(server: upstreams[1].port)
        let folder = try Folder()
        let nginx = try Nginx(
            """
            location / { proxy_pass \(upstreams[2].url); proxy_cache all; proxy_cache_valid 200 301 60s; proxy_force_ranges on; }
            } proxy_cache_path \(folder.file("cache")) keys_zone=all:1m; server { listen unix:\(folder.file("unused"));
            """)
        let ports = [gateway.port, varnish.port, nginx.port]
        for (number, example) in Self.cases.enumerated() {
            for (cache, port) in zip(Cache.allCases, ports) where !example.without.contains(cache) {
                let answers = try example.requests.map { request in
                    let answer = try Self.answer(port, number, request)
                    return Self.summary(answer, request)
                }
                #expect(answers == example.answers, "\(cache) \(number): \(example.status) \(example.fields) \(example.requests)")
            }
        }
        // The age of a kept response goes on from that of the upstream's; nginx repeats the field as it came.
        let aged = try #require(Self.cases.firstIndex { $0.fields.contains("Age: 10") })
        for port in ports { #expect(try Int(Self.answer(port, aged, "")["Age"] ?? "") ?? 0 >= 10) }
        // Fields of what was kept.
        for field in ["Content-Type", "ETag", "Content-Length"] {
            let tagged = try #require(Self.cases.firstIndex { $0.fields == ["ETag: \"a\""] && $0.without.isEmpty })
            let values = try ports.map { try Self.answer($0, tagged, "")[field] }
            #expect(Set(values).count == 1 && values[0] != nil, "\(field)")
        }
    }

    @Test(.enabled(if: isThere(Varnish.program))) func whatIsOverIsFetchedAgain() throws {
        let upstream = try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nCache-Control: max-age=1\r\nContent-Length: 2\r\n\r\nok"))
        let gateway = try Gateway(
            "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none cache=60s cache-by=public\"")
        let varnish = try Varnish(server: upstream.port)
        for (name, port) in [("tollgate", gateway.port), ("varnish", varnish.port)] {
            try eventually("it is fetched again") {
                _ = try Connection(port: port).ask("GET /\(name)")
                return upstream.requests.now.count { $0.target == "/\(name)" } == 2
            }
        }
    }
}
