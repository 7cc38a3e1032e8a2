import Foundation
import TestThreads
import Testing

/// `split=` and `mirror=`: other upstreams that get some of a route's requests, or copies of them.
@Suite(.ownThread) struct SplitTests {
    private static func settings(
        _ main: Upstream, _ next: Upstream, _ options: String, _ more: String = "", of next2: String = ""
    ) -> String {
        """
        TOLLGATE_LISTEN=127.0.0.1:0;h2c
        TOLLGATE_UPSTREAM_MAIN="\(main.url)"
        TOLLGATE_UPSTREAM_NEXT="\(next.url) \(next2)"
        TOLLGATE_ROUTE_ALL="/* upstream=main auth=optional body-limit=10MiB \(options)"
        TOLLGATE_ACCESS_LOG=json
        \(more)
        """
    }

    @Test func theSideIsSaidByTheLogAndByExplain() throws {
        let (main, next) = (try Upstream(), try Upstream())
        let gateway = try Gateway(Self.settings(main, next, "split=100%:next when=header:X-Channel=beta"))
        #expect(try gateway.ask("GET /x").status == 200 && gateway.ask("GET /y", ["X-Channel: beta"]).status == 200)
        #expect(main.requests.now.map(\.startLine) == ["GET /x HTTP/1.1"] && next.requests.now.map(\.startLine) == ["GET /y HTTP/1.1"])
        #expect(try gateway.accessLog(2).map { $0["upstream"].text } == ["main", "next"])
        let walk = try gateway.command(["explain", "GET", "/y", "--header", "X-Channel: beta"]).output
        #expect(walk.contains("100% by user go to next, and so does this one") && walk.contains("passes, to the upstream next"))
    }

    // MARK: mirrors

    /// With content of each kind, over both protocols on the client's side.
    @Test func aCopyIsTheRequestAndItsAnswerIsDropped() throws {
        let main = try Upstream()
        let next = try Upstream(Upstream.saying("HTTP/1.1 500 No\r\nContent-Length: 4\r\nSet-Cookie: a=b\r\n\r\nnope"))
        let gateway = try Gateway(Self.settings(main, next, "mirror=next:100%"))
        let bearer = try gateway.bearer("--sub", "ada")
        #expect(try gateway.ask("GET /a?b=c", [bearer, "X-Tollgate-Mirror: forged"]).text == "ok")
        #expect(try gateway.ask("POST /b", body: Array("content".utf8)).text == "ok")
        let connection = try gateway.connect()
        try connection.send(requestHead("PUT /c", ["Transfer-Encoding: chunked"]) + "3\r\nabc\r\n")
        try eventually("the main upstream is connected") { main.connections.now > 0 }
        try connection.send("3\r\ndef\r\n0\r\n\r\n")
        #expect(try connection.answer().text == "ok")
        let curl = try run(
            "curl", ["-sS", "--http2-prior-knowledge", "-d", String(repeating: "x", count: 60_000), "http://127.0.0.1:\(gateway.port)/d"])
        #expect(curl.output == "ok")
        try next.requests.wait(for: "four copies", until: { $0.count == 4 })
        func shown(_ upstream: Upstream) -> [String] {
            upstream.requests.now.map { "\($0.startLine) \($0["X-User-Id"] ?? "-") \($0["X-Request-Id"] ?? "") \($0.text)" }.sorted()
        }
        #expect(shown(main) == shown(next) && shown(main)[0].hasPrefix("GET /a?b=c HTTP/1.1 ada "))
        #expect(next.requests.now.allSatisfy { $0["X-Tollgate-Mirror"] == "all" })
        #expect(main.requests.now.allSatisfy { $0["X-Tollgate-Mirror"] == nil })
        try eventually("four copies are answered") {
            try gateway.metric("tollgate_mirrored_requests_total", #"route="all""#, #"outcome="answered""#) == 4
        }
        #expect(try gateway.accessLog(4).allSatisfy { $0["status"].number == 200 && $0["upstream"].text == "main" })
        #expect(try gateway.metric("tollgate_http_requests_total", #"route="all""#) == 4)
    }

    /// Over one connection; the other gateway forwards what it gets.
    @Test func aMirrorMaySpeakHTTP2() throws {
        let (main, last) = (try Upstream(), try Upstream())
        let back = try Gateway(HTTP2Tests.settings(last))
        let gateway = try Gateway(
            Self.settings(main, last, "mirror=h2:100%", "TOLLGATE_UPSTREAM_H2=\"http://127.0.0.1:\(back.port) http2=on\""))
        for number in 0..<3 { #expect(try gateway.ask("GET /get\(number)").text == "ok") }
        #expect(try gateway.ask("POST /length", body: Array("content".utf8)).text == "ok")
        let connection = try gateway.connect()
        try connection.send(requestHead("POST /chunked", ["Transfer-Encoding: chunked"]) + "3\r\nabc\r\n0\r\n\r\n")
        #expect(try connection.answer().text == "ok")
        try last.requests.wait(for: "five copies", until: { $0.count == 5 })
        let seen = last.requests.now.map { "\($0.startLine.split(separator: " ")[1]) \($0.text)" }.sorted()
        #expect(seen == ["/chunked abc", "/get0 ", "/get1 ", "/get2 ", "/length content"])
        try eventually("they are answered") {
            try gateway.metric("tollgate_mirrored_requests_total", #"outcome="answered""#) == 5
        }
        #expect(try gateway.metric("tollgate_upstream_connections", #"upstream="h2""#) <= 2)
    }

    /// A mirror that is away, never answers, or answers without end costs the client nothing.
    @Test func aBadMirrorTouchesNoClient() throws {
        let main = try Upstream()
        let silent = try Upstream { request, connection in
            guard request.startLine.contains("endless") else { return Thread.sleep(forTimeInterval: 60) }
            try connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while true { try connection.send("1000\r\n" + String(repeating: "x", count: 4_096) + "\r\n") }
        }
        let away = try Upstream()
        away.stop()
        for (mirror, outcome) in [(silent, "answered"), (away, "failed")] {
            let gateway = try Gateway(Self.settings(main, mirror, "mirror=next:100%", of: "timeout=300ms connect-timeout=300ms"))
            for path in ["/endless", "/x", "/y"] { #expect(try gateway.ask("GET \(path)").text == "ok") }
            try eventually("the copies are over") {
                try gateway.metric("tollgate_mirrored_requests_total", #"route="all""#, #"outcome="failed""#)
                    == (outcome == "failed" ? 3 : 2)
            }
            #expect(try gateway.accessLog(3).allSatisfy { $0["status"].number == 200 })
            #expect(try gateway.stop() == 0)
        }
    }

    /// Content beyond the bound, a request that is refused, and one that ends before it is whole have no copy.
    @Test func noCopyWithoutRoomOrAWholeRequest() throws {
        let (main, next) = (try Upstream(), try Upstream())
        let gateway = try Gateway(
            Self.settings(main, next, "mirror=next:100%", "TOLLGATE_ROUTE_CLOSED=\"/closed upstream=main mirror=next:100%\""))
        #expect(try gateway.ask("POST /large", body: [UInt8](repeating: 1, count: 65_537)).text == "ok")
        let chunked = try gateway.connect()
        try chunked.send(requestHead("POST /chunked", ["Transfer-Encoding: chunked"]))
        for _ in 0..<17 { try chunked.send("1000\r\n" + String(repeating: "x", count: 4_096) + "\r\n") }
        try chunked.send("0\r\n\r\n")
        #expect(try chunked.answer().text == "ok")
        #expect(try gateway.ask("GET /closed").status == 401)
        let half = try gateway.connect()
        try half.send(requestHead("POST /half", ["Content-Length: 10"]) + "12345")
        half.close()
        #expect(try gateway.ask("POST /exact", body: [UInt8](repeating: 1, count: 65_536)).text == "ok")
        try next.requests.wait(for: "one copy", until: { !$0.isEmpty })
        #expect(next.requests.now.map(\.startLine) == ["POST /exact HTTP/1.1"] && next.requests.now[0].body.count == 65_536)
    }

    // MARK: live shares

    /// By the admin API of any gateway and by the command; a gateway that starts has it, too.
    @Test func aShareChangesOnAllGatewaysWhileTheyRun() throws {
        let (main, next) = (try Upstream(), try Upstream())
        let fleet = try Fleet(
            2, .postgres, "TOLLGATE_UPSTREAM_MAIN=\"\(main.url)\"", "TOLLGATE_UPSTREAM_NEXT=\"\(next.url)\"",
            "TOLLGATE_ROUTE_FEED=\"/feed/* upstream=main auth=none split=0%:next split-by=address\"")
        func expect(_ upstream: Upstream, _ what: String) throws {
            for gateway in fleet.gateways {
                try eventually(what) {
                    let before = upstream.requests.now.count
                    return try gateway.ask("GET /feed/x").status == 200 && upstream.requests.now.count == before + 1
                }
            }
        }
        try expect(main, "the share of the line")
        let path = "/admin/api/routes/feed/split"
        let set = try fleet.admin(0, "PUT \(path)", #"{"percent":100}"#)
        #expect(set.text == #"{"route":"feed","upstream":"next","percent":100,"configured_percent":0,"set_by":"operator"}"#)
        try expect(next, "the share of the API")
        #expect(try fleet.admin(1, "GET \(path)").text == set.text)
        #expect(try fleet.admin(0, "PUT \(path)", #"{"percent":101}"#).status == 400)
        #expect(try fleet.admin(0, "PUT /admin/api/routes/none/split", #"{"percent":1}"#).status == 404)
        let command = try fleet[1].command(["split", "feed", "0%"])
        #expect(command.code == 0 && command.output.hasPrefix("0% of the requests of feed go to next: set by an operator"))
        try expect(main, "the share of the command")
        #expect(try fleet[1].command(["split", "feed", "100%"]).code == 0)
        try expect(next, "the command's other share")
        #expect(try fleet.admin(1, "DELETE \(path)").text.contains(#""percent":0,"configured_percent":0,"set_by":"configuration""#))
        try expect(main, "the share of the line again")
    }

    /// The clients of the new version get 500: its share is taken back, and an operator may try again.
    @Test func aGuardTakesTheShareBack() throws {
        let main = try Upstream()
        let broken = try Upstream(Upstream.saying("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"))
        let settings = Self.settings(
            main, broken, "split=50%:next split-guard=2x split-by=address", "\(Gateway.contracts)\nTOLLGATE_TRUSTED_PROXIES=127.0.0.1")
        let gateway = try Gateway(settings)
        func status(_ client: Int) throws -> Int { try gateway.ask("GET /x", ["X-Forwarded-For: 198.51.100.\(client)"]).status }
        let first = try (0..<120).map { try status($0) }
        #expect(first.contains(200) && first.contains(500))
        try gateway.waitForLog("a split fails too often and its share is 0 now")
        try eventually("no request fails") { try (0..<12).allSatisfy { try status($0) == 200 } }
        #expect(try gateway.metric("tollgate_split_guards_total", #"route="all""#) == 1)
        #expect(try gateway.command(["split", "all"]).output.hasPrefix("0% of the requests of all go to next: set by split-guard="))
        #expect(try gateway.command(["split", "all", "100%"]).code == 0)
        try eventually("the operator's share") { try status(0) == 500 }
        try gateway.reload(settings)
        #expect(try status(0) == 500, "the share outlives a reload")
        #expect(try gateway.command(["split", "all", "reset"]).output.hasPrefix("50% of the requests of all go to next: as the line says"))
        #expect(try gateway.command(["split", "none"]).code == 2)
    }
}
