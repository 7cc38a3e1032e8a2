import Foundation
import TestThreads
import Testing

/// More load than the bounds allow: clear answers at once, and back to normal when it ends. The clients have one address here, which may
/// hold all; for shares see `ShareTests`.
@Suite(.serialized, .ownThread) struct OverloadTests {
    /// An upstream that answers `/slow` when the test says so, and all else at once.
    final class Held: Sendable {
        let go = Watched(false)
        let upstream: Upstream

        init() throws {
            let go = go
            upstream = try Upstream { request, connection in
                if request.target == "/slow" { try go.wait(for: "the word", seconds: 60, until: { $0 }) }
                try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }

        func release() { go.change { $0 = true } }

        func waitForSlow(_ count: Int) throws {
            try upstream.requests.wait(for: "\(count) requests") { $0.count { $0.target == "/slow" } == count }
        }

        func settings(_ more: String...) -> String {
            """
            TOLLGATE_UPSTREAM_U="\(upstream.url) timeout=60s"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            \(more.contains { $0.contains("TOLLGATE_CLIENT_SHARE=") } ? "" : "TOLLGATE_CLIENT_SHARE=100%")
            \(more.joined(separator: "\n"))
            """
        }
    }

    /// Whether the answer is the refusal of an overloaded gateway.
    static func isShed(_ answer: Message) throws -> Bool {
        guard answer.status == 503, answer["Retry-After"] == "1" else { return false }
        return try JSON(answer.text)["error"]["code"].text == "UNAVAILABLE"
    }

    // MARK: requests

    @Test func tenTimesTheLimitIsAnsweredAtOnceAndThenAllIsWell() throws {
        let held = try Held()
        let gateway = try Gateway(held.settings("TOLLGATE_WORKERS=2", "TOLLGATE_MAX_REQUESTS=20"))
        let busy = try (0..<20).map { _ in try gateway.connect() }
        for connection in busy { try connection.send(requestHead("GET /slow")) }
        try held.waitForSlow(20)
        let others = try (0..<180).map { _ in try gateway.connect() }
        for connection in others { try connection.send(requestHead("GET /slow")) }
        for connection in others { #expect(try Self.isShed(connection.answer())) }

        #expect(held.upstream.requests.now.count == 20, "no upstream hears of a request that is shed")
        #expect(try gateway.askAdmin("/livez").status == 200)
        #expect(try gateway.metric("tollgate_overload_sheds_total", #"reason="requests""#) == 180)
        #expect(try gateway.metric("tollgate_overload_limit", #"reason="requests""#) == 20)
        // An overload is over after five seconds without a shed, so each look follows one.
        var more = 0
        try eventually("it says so") {
            more += 1
            #expect(try Self.isShed(gateway.ask("GET /x")))
            let ready = try gateway.askAdmin("/readyz")
            return try ready.status == 200 && ready.text.contains("degraded") && ready.text.contains("at its bound: requests")
                && gateway.metric("tollgate_overload_active", #"reason="requests""#) == 1
        }

        held.release()
        for connection in busy { #expect(try connection.answer().status == 200) }
        // The same connections serve on: what was shed has cost them nothing.
        for connection in others + busy { #expect(try connection.ask("GET /x").status == 200) }
        try eventually("the overload ends") { try gateway.metric("tollgate_overload_active") == 0 }
        #expect(try gateway.askAdmin("/readyz").text.contains("at its bound") == false)
        let told = { (word: String) in gateway.process.complaints.now.count { $0.contains(word) } }
        try eventually("each end is told") { told("overload ends") == told("overload begins") }
        // Two where a machine is held up for five seconds between the sheds.
        #expect((1...2).contains(told("overload begins")), "one line, not one for each request")
        let lines = try gateway.accessLog(400 + more).filter { $0["status"].number == 503 }
        #expect(lines.count == 180 + more && lines.allSatisfy { $0["error"].text == "overload_requests" && $0["route"].text == "all" })
    }

    @Test func requestsThatEndInAnyWayMakeRoom() throws {
        let held = try Held()
        let gateway = try Gateway(held.settings("TOLLGATE_MAX_REQUESTS=2"))
        for turn in 1...3 {
            let busy = try (0..<2).map { _ in try gateway.connect() }
            for connection in busy { try connection.send(requestHead("GET /slow")) }
            try held.waitForSlow(2 * turn)
            #expect(try Self.isShed(gateway.ask("GET /x")))
            // The clients go away in the middle.
            for connection in busy { connection.reset() }
            try eventually("room") { try gateway.ask("GET /x").status == 200 }
        }
        // Requests that are malformed, without a route or refused take none for good.
        for target in ["GET /a%zz", "GET /x", "POST /x"] { for _ in 0..<5 { try gateway.ask(target) } }
        let pair = try (0..<2).map { _ in try gateway.connect() }
        for connection in pair { try connection.send(requestHead("POST /x", length: 5) + "he") }
        try eventually("both are under way") { try Self.isShed(gateway.ask("GET /x")) }
        for connection in pair {
            try connection.send("llo")
            #expect(try connection.answer().status == 200)
        }
        #expect(try gateway.ask("GET /x").status == 200)
    }

    @Test func http2AndGRPCAreToldInTheirOwnWay() throws {
        let held = try Held()
        let gateway = try Gateway(held.settings("TOLLGATE_LISTEN=127.0.0.1:0;h2c", "TOLLGATE_MAX_REQUESTS=5"))
        let port = gateway.port
        let load = Background {
            try run("h2load", ["-n", "50", "-c", "1", "-m", "50", "http://127.0.0.1:\(port)/slow"]).output
        }
        try held.waitForSlow(5)
        try eventually("45 requests are shed") { try gateway.metric("tollgate_overload_sheds_total") == 45 }
        let call = try GRPCCall(port: gateway.port, "Unary")
        #expect(call.code == "UNAVAILABLE", "\(call)")
        held.release()
        let output = try load.value(seconds: 60)
        #expect(output.contains("5 2xx, 0 3xx, 0 4xx, 45 5xx"), "\(output)")
    }

    @Test func aRefusalSpeaksTheRoutesDialectAndItsTokenIsNotLookedAt() throws {
        let held = try Held()
        let gateway = try Gateway(
            held.settings(
                "TOLLGATE_MAX_REQUESTS=1", #"TOLLGATE_ROUTE_P="/p/* upstream=u errors=dlauth auth=required cors=https://app.example.org""#))
        let busy = try gateway.connect()
        try busy.send(requestHead("GET /slow"))
        try held.waitForSlow(1)
        let answer = try gateway.ask("GET /p/x", ["Origin: https://app.example.org", "Authorization: Bearer nonsense"])
        #expect(answer.status == 503 && answer["Retry-After"] == "1")
        #expect(answer.text.contains(#""unavailable""#), "\(answer.text)")
        #expect(answer["Access-Control-Allow-Origin"] == "https://app.example.org")
        #expect(try gateway.ask("GET /p/x").status == 503)
        held.release()
        #expect(try busy.answer().status == 200)
        #expect(try gateway.ask("GET /p/x").status == 401)
    }

    /// A proxy in front asks about each request, so its checks are load like any other.
    @Test func checksAreShedLikeRequests() throws {
        let held = try Held()
        let gateway = try Gateway(held.settings("TOLLGATE_MAX_REQUESTS=1", "TOLLGATE_CHECK_LISTEN=127.0.0.1:0"))
        let proxy = try Connection(port: gateway.checkPort)
        let described = ["X-Forwarded-Method: GET", "X-Forwarded-Uri: /x"]
        #expect(try proxy.ask("GET /auth/check", described).status == 200)
        let busy = try gateway.connect()
        try busy.send(requestHead("GET /slow"))
        try held.waitForSlow(1)
        #expect(try Self.isShed(proxy.ask("GET /auth/check", described)))
        #expect(try Self.isShed(proxy.ask("GET /auth/check/envoy/x")))
        let nginx = try proxy.ask("GET /auth/check/nginx", described)
        #expect(nginx.status == 403 && nginx["X-Tollgate-Status"] == "503" && nginx["Retry-After"] == "1", "\(nginx)")
        #expect(try gateway.metric("tollgate_overload_sheds_total", #"reason="requests""#) == 3)
        held.release()
        #expect(try busy.answer().status == 200)
        // Those that end in any way give back what they took.
        for _ in 0..<3 {
            #expect(try proxy.ask("GET /auth/check", described).status == 200)
            #expect(try proxy.ask("GET /auth/check").status == 400)
            #expect(try proxy.ask("GET /elsewhere").status == 404)
        }
        #expect(try gateway.ask("GET /x").status == 200)
    }

    @Test func streamsDoNotCount() throws {
        let go = Watched(false)
        let upstream = try Upstream { request, connection in
            guard request.target == "/events" else {
                return try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
            try connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            try go.wait(for: "the word", seconds: 60, until: { $0 })
        }
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            TOLLGATE_MAX_REQUESTS=1
            TOLLGATE_CLIENT_SHARE=100%
            """)
        let streams = try (0..<6).map { _ in
            let stream = try gateway.connect()
            try stream.send(requestHead("GET /events"))
            _ = try stream.take(through: "data: 1\n\n")
            return stream
        }
        #expect(try gateway.ask("GET /x").status == 200)
        for stream in streams { stream.reset() }
        try eventually("the streams are over") { try gateway.metric("tollgate_streams_open") == 0 }
        #expect(try gateway.ask("GET /x").status == 200, "a stream that ends gives back no slot that it does not have")
        #expect(try gateway.metric("tollgate_overload_sheds_total") == 0)
        go.change { $0 = true }
    }

    @Test func aReloadChangesTheLimit() throws {
        let held = try Held()
        let gateway = try Gateway(held.settings("TOLLGATE_MAX_REQUESTS=1"))
        let busy = try (0..<3).map { _ in try gateway.connect() }
        try busy[0].send(requestHead("GET /slow"))
        try held.waitForSlow(1)
        #expect(try Self.isShed(gateway.ask("GET /x")))
        try gateway.reload(held.settings("TOLLGATE_MAX_REQUESTS=3"))
        for connection in busy.dropFirst() { try connection.send(requestHead("GET /slow")) }
        try held.waitForSlow(3)
        #expect(try Self.isShed(gateway.ask("GET /x")))
        try gateway.reload(held.settings("TOLLGATE_MAX_REQUESTS=2"))
        held.release()
        for connection in busy { #expect(try connection.answer().status == 200) }
        #expect(try gateway.ask("GET /x").status == 200)
    }

    // MARK: connections

    @Test func clientsPastTheBoundOfAllWorkersWaitForTheirTurn() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_WORKERS=2
            TOLLGATE_HEADER_TIMEOUT=1h
            TOLLGATE_MAX_CONNECTIONS=4
            TOLLGATE_CLIENT_SHARE=100%
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            """)
        // The kernel spreads connections over the workers, each of which serves half of the bound.
        let connections = try (0..<60).map { _ in try gateway.connect() }
        try gateway.waitForLog("overload begins")
        #expect(try gateway.metric("tollgate_connections_accepted_total") <= 4 + 1, "4, and the admin's own")
        #expect(try gateway.askAdmin("/livez").status == 200, "operators still get in")
        for connection in connections {
            // The connection of an answer makes room for the next.
            #expect(try connection.ask("GET /x").status == 200)
        }
        try gateway.waitForLog("overload ends")
        let kept = try gateway.connect()
        for _ in 0..<3 { #expect(try kept.ask("GET /x").status == 200) }
    }

    @Test func idleConnectionsGiveWay() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_MAX_CONNECTIONS=4
            TOLLGATE_CLIENT_SHARE=100%
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            """)
        let idle = try (0..<4).map { _ in
            let connection = try gateway.connect()
            #expect(try connection.ask("GET /x").status == 200)
            return connection
        }
        #expect(try gateway.ask("GET /x").status == 200)
        #expect(idle.count { !$0.isQuiet } == 1, "no more of them than are needed")
        for _ in 0..<8 { #expect(try gateway.ask("GET /x").status == 200) }
    }

    /// Few descriptors, and a client for each of them and more.
    @Test func descriptorsAreNotUsedUpByClients() throws {
        let held = try Held()
        let gateway = try Gateway(
            held.settings("TOLLGATE_IDLE_TIMEOUT=60s"), command: ["bash", "-c", "ulimit -n 300; exec \"$@\"", "limited"])
        let bound = Int(try gateway.metric("tollgate_overload_limit", #"reason="connections""#))
        #expect((64..<150).contains(bound))
        let connections = try (0..<400).map { _ in try gateway.connect() }
        for connection in connections { try connection.send(requestHead("GET /slow")) }
        try held.waitForSlow(bound)
        try gateway.waitForLog("overload begins")
        let before = try gateway.processorTicks
        Thread.sleep(forTimeInterval: 2)
        #expect(try gateway.processorTicks - before < 60, "clients that wait cost no processor time")
        #expect(try gateway.askAdmin("/readyz").status == 200)
        held.release()
        for connection in connections { #expect(try connection.answer().status == 200) }
        #expect(try gateway.ask("GET /x").status == 200)
        #expect(!gateway.process.complaints.now.contains { $0.contains("out of resources") })
    }

    // MARK: local endpoints

    @Test func aStormOfSignInsLeavesProxyingAlone() throws {
        let held = try Held()
        let gateway = try Gateway(
            held.settings(
                Gateway.contracts, Gateway.trustingProxies, "TOLLGATE_WORKERS=2", "TOLLGATE_MAX_LOCAL_REQUESTS=8",
                "TOLLGATE_SIGNUP_LIMIT=100000/h"))
        let storm = try (0..<200).map { _ in try gateway.connect() }
        for (number, connection) in storm.enumerated() {
            let body = #"{"email":"user\#(number)@example.org","password":"correct horse battery"}"#
            let head = requestHead(
                "POST /auth/signup", ["Content-Type: application/json", "X-Forwarded-For: 10.0.\(number).1"], length: body.utf8.count)
            try connection.send(head + body)
        }
        let app = try gateway.connect()
        for _ in 0..<50 { #expect(try app.ask("GET /x").status == 200) }
        var counts: [Int: Int] = [:]
        for connection in storm {
            connection.setTimeout(seconds: 60)
            let answer = try connection.answer()
            counts[answer.status, default: 0] += 1
            if answer.status == 503 { #expect(answer["Retry-After"] == "1") }
        }
        #expect(counts[200, default: 0] > 0 && counts[200, default: 0] + counts[503, default: 0] == 200, "\(counts)")
        let shed = try gateway.metric("tollgate_overload_sheds_total", #"reason="local""#)
        #expect(shed > 0 && shed <= Double(counts[503, default: 0]), "a password that waited too long is refused as well")
        #expect(try gateway.signUp("later@example.org", from: "10.1.1.1").access.isEmpty == false)
    }

    /// The last tenth of the requests is for upstreams.
    @Test func localEndpointsGiveWayToProxying() throws {
        let held = try Held()
        let gateway = try Gateway(held.settings(Gateway.contracts, "TOLLGATE_MAX_REQUESTS=4"))
        let busy = try (0..<3).map { _ in try gateway.connect() }
        for (index, connection) in busy.enumerated() {
            #expect(try gateway.signUp("user\(index)@example.org").access.isEmpty == false)
            try connection.send(requestHead("GET /slow"))
            try held.waitForSlow(index + 1)
        }
        let refused = try gateway.send("POST /auth/signup", credentials("late@example.org"))
        #expect(refused.status == 503 && refused["Retry-After"] == "1")
        #expect(try gateway.ask("GET /x").status == 200)
        held.release()
        for connection in busy { #expect(try connection.answer().status == 200) }
        #expect(try gateway.signUp("late@example.org").access.isEmpty == false)
    }

    // MARK: memory

    @Test func bodiesThatFillTheMemoryHoldBackNewRequests() throws {
        let held = try Held()
        let gateway = try Gateway(held.settings(Gateway.contracts, "TOLLGATE_MAX_BUFFERS=1MiB", "TOLLGATE_BODY_TIMEOUT=60s"))
        let hoarders = try (0..<40).map { _ in
            let connection = try gateway.connect()
            let head = requestHead("POST /auth/signup", ["Content-Type: application/json"], length: 60_000)
            try connection.send(head + String(repeating: " ", count: 50_000))
            return connection
        }
        try eventually("new requests are shed, and it says why") {
            try Self.isShed(gateway.ask("GET /x")) && gateway.metric("tollgate_overload_active", #"reason="buffers""#) == 1
        }
        for connection in hoarders { connection.close() }
        try eventually("all is well") { try gateway.ask("GET /x").status == 200 }
        try gateway.waitForLog("overload ends")
    }
}
