import Foundation
import TestThreads
import Testing

/// One client address takes as much as it gets of a bound that all clients share: it gets its share, and another one is served.
@Suite(.serialized, .ownThread) struct ShareTests {
    /// The address of the client that takes, 127.0.0.2.
    private static let greedy: UInt8 = 2
    /// Four fifths of ten.
    private static let share = 8

    /// Whether each of `connections`, whose requests were sent, was refused or waits for its upstream.
    private static func areSettled(_ connections: [Connection], refused: Int) -> Bool { connections.count { !$0.isQuiet } == refused }

    /// Bounds of ten requests: what they are, and how the upstream's line says so.
    @Test(arguments: [("TOLLGATE_MAX_REQUESTS=10", ""), ("", "max-requests=10"), ("", "max-connections=10")])
    func slowRequestsOfOneAddressLeaveRoomForOthers(_ setting: String, _ key: String) throws {
        let held = try OverloadTests.Held()
        let gateway = try Gateway(
            """
            TOLLGATE_WORKERS=2
            \(setting)
            TOLLGATE_UPSTREAM_U="\(held.upstream.url) timeout=60s \(key)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            """)
        let flood = try (0..<20).map { _ in try gateway.connect(host: Self.greedy) }
        for connection in flood { try connection.send(requestHead("GET /slow")) }
        try held.waitForSlow(Self.share)
        try eventually("the rest is refused") { Self.areSettled(flood, refused: 20 - Self.share) }
        for connection in flood where !connection.isQuiet { #expect(try OverloadTests.isShed(connection.answer())) }
        #expect(try gateway.ask("GET /x").status == 200)
        let metric = setting.isEmpty ? "tollgate_upstream_refused_total" : "tollgate_overload_sheds_total"
        #expect(try gateway.metric(metric, #"="share""#) == Double(20 - Self.share))
        let lines = try gateway.accessLog(20 - Self.share + 1)
        #expect(lines.count { $0["error"].text == "share" && $0["client_ip"].text == "127.0.0.2" } == 20 - Self.share)
        held.release()
        try eventually("what was held is free") { try gateway.connect(host: Self.greedy).ask("GET /x").status == 200 }
    }

    /// Behind a trusted proxy the client that it names has the share, and the proxy's connections have none.
    @Test func aClientBehindAProxyHasItsShare() throws {
        let held = try OverloadTests.Held()
        let gateway = try Gateway(
            held.settings(Gateway.trustingProxies, "TOLLGATE_CLIENT_SHARE=80%", "TOLLGATE_MAX_REQUESTS=10", "TOLLGATE_MAX_CONNECTIONS=21"))
        let flood = try (0..<20).map { _ in try gateway.connect() }
        for connection in flood { try connection.send(requestHead("GET /slow", ["X-Forwarded-For: 2001:db8::\(Int.random(in: 1...9))"])) }
        try held.waitForSlow(Self.share)
        try eventually("the rest is refused") { Self.areSettled(flood, refused: 20 - Self.share) }
        #expect(try gateway.ask("GET /x", ["X-Forwarded-For: 2001:db8:0:1::1"]).status == 200)
        #expect(try OverloadTests.isShed(gateway.ask("GET /x", ["X-Forwarded-For: 2001:db8::99"])))
        held.release()
    }

    /// An internal caller whose address holds its share counts by its name.
    @Test func anInternalCallerHasAShareOfItsOwn() throws {
        let held = try OverloadTests.Held()
        let gateway = try Gateway(
            held.settings("TOLLGATE_CLIENT_SHARE=80%", "TOLLGATE_MAX_REQUESTS=10", "TOLLGATE_INTERNAL_JOBS=key-sha256=\(Self.digest)"))
        let flood = try (0..<20).map { _ in try gateway.connect() }
        for connection in flood { try connection.send(requestHead("GET /slow")) }
        try held.waitForSlow(Self.share)
        #expect(try OverloadTests.isShed(gateway.ask("GET /x")))
        #expect(try gateway.ask("GET /x", ["X-Internal-Key: \(Self.key)"]).status == 200)
        held.release()
    }

    private static let key = "0123456789abcdef0123456789abcdef"
    private static let digest = "3eb1bd439947eb762998e566ccc2e099c791118b2f40579cc4f7da2b5061b7f9"

    @Test func silentConnectionsOfOneAddressLeaveRoomForOthers() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            """
            TOLLGATE_HEADER_TIMEOUT=1h
            TOLLGATE_MAX_CONNECTIONS=10
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            """)
        let flood = try (0..<40).map { _ in try gateway.connect(host: Self.greedy) }
        try eventually("all beyond the share are closed") { flood.count { !$0.isQuiet } == 40 - Self.share }
        let other = try gateway.connect()
        #expect(try other.ask("GET /x").status == 200)
        // Idle ones of its own make room for a client at its share.
        let idle = flood.filter(\.isQuiet)
        for connection in idle { #expect(try connection.ask("GET /x").status == 200) }
        #expect(try gateway.connect(host: Self.greedy).ask("GET /x").status == 200)
        #expect(idle.count { !$0.isQuiet } == 1 && other.isQuiet, "no more of them than are needed, and no other's")
    }

    /// Twice the memory that there is, from one address.
    @Test func bodiesOfOneAddressLeaveMemoryForOthers() throws {
        let held = try OverloadTests.Held()
        let gateway = try Gateway(
            held.settings(Gateway.contracts, "TOLLGATE_CLIENT_SHARE=80%", "TOLLGATE_MAX_BUFFERS=1MiB", "TOLLGATE_BODY_TIMEOUT=60s"))
        let flood = try (0..<40).map { _ in
            let connection = try gateway.connect(host: Self.greedy)
            let head = requestHead("POST /auth/signup", ["Content-Type: application/json"], length: 60_000)
            try connection.send(head + String(repeating: " ", count: 50_000))
            return connection
        }
        try eventually("some of them are ended") { try gateway.metric("tollgate_overload_sheds_total", #"reason="share""#) > 0 }
        try eventually("another is served") { try gateway.ask("GET /x").status == 200 }
        #expect(try gateway.ask("GET /x").status == 200)
        let ended = flood.filter { !$0.isQuiet }
        #expect(!ended.isEmpty && ended.count < 40)
        for connection in ended { #expect(try connection.answer().status == 503) }
    }

    // MARK: HTTP/2 upstreams

    /// A server of HTTP/2 that greets when it may, and answers everything with 200.
    private static func greeter(_ may: Watched<Bool>) throws -> Upstream {
        try Upstream.raw { connection, _ in
            _ = try connection.take(24)
            try may.wait(for: "the word", seconds: 60, until: { $0 })
            try connection.send(HTTP2Peer.frame(4, 0, 0, []))
            while true {
                let head = try connection.take(9)
                _ = try connection.take(Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2]))
                let stream = head[5..<9].reduce(0) { $0 << 8 | Int($1) }
                if head[3] == 1 { try connection.send(HTTP2Peer.frame(1, 5, stream, HTTP2Peer.block([(":status", "200")]))) }
            }
        }
    }

    /// Requests that wait for a connection.
    @Test func waitingRequestsOfOneAddressLeaveRoomForOthers() throws {
        let may = Watched(false)
        let upstream = try Self.greeter(may)
        let gateway = try Gateway(
            """
            TOLLGATE_UPSTREAM_U="\(upstream.url) http2=on connect-timeout=60s max-pending=10"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            """)
        let flood = try (0..<20).map { _ in try gateway.connect(host: Self.greedy) }
        for connection in flood { try connection.send(requestHead("GET /x")) }
        try eventually("the rest is refused") { Self.areSettled(flood, refused: 20 - Self.share) }
        for connection in flood where !connection.isQuiet { #expect(try OverloadTests.isShed(connection.answer())) }
        let other = try gateway.connect()
        try other.send(requestHead("GET /x"))
        try eventually("it waits, as there is room for it") {
            try gateway.metric("tollgate_http_requests_in_flight") == Double(Self.share + 1)
        }
        may.change { $0 = true }
        #expect(try other.answer().status == 200)
        #expect(try gateway.metric("tollgate_upstream_refused_total", #"="share""#) == Double(20 - Self.share))
    }

    /// Requests that are cancelled again and again, at the one connection to an upstream that takes 20 streams.
    @Test func cancelledRequestsOfOneAddressLeaveStreamsForOthers() throws {
        let held = try OverloadTests.Held()
        let back = try Gateway(held.settings("TOLLGATE_LISTEN=127.0.0.1:0;h2c", "TOLLGATE_HTTP2_STREAMS=20"))
        let gateway = try Gateway(
            """
            TOLLGATE_WORKERS=1
            TOLLGATE_UPSTREAM_U="http://127.0.0.1:\(back.port) http2=on connect-timeout=20s timeout=60s max-connections=1"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none"
            """)
        let running = try gateway.connect()
        try running.send(requestHead("GET /slow"))
        try held.waitForSlow(1)
        for round in 1...4 {
            let flood = try (0..<40).map { _ in try gateway.connect(host: Self.greedy) }
            for connection in flood { try connection.send(requestHead("GET /slow")) }
            try eventually("what is beyond the share is refused") {
                try gateway.metric("tollgate_http_requests_in_flight") == Double(1 + flood.count(where: \.isQuiet))
                    && flood.contains { !$0.isQuiet }
            }
            for connection in flood { connection.reset() }
            try eventually("they are gone") { try gateway.metric("tollgate_http_requests_in_flight") == 1 }
            #expect(try gateway.ask("GET /x").status == 200, "round \(round)")
        }
        held.release()
        #expect(try running.answer().status == 200)
        try eventually("what was held is free") { try gateway.connect(host: Self.greedy).ask("GET /x").status == 200 }
    }

    /// Requests that wait for the refresh of one token, of 4,096 in a worker.
    @Test func waitingRefreshesOfOneAddressLeaveRoomForOthers() throws {
        let (server, upstream) = (try AuthServer(), try Upstream())
        let gateway = try OutsideRefreshTests.gateway(server, upstream, "TOLLGATE_LISTEN=127.0.0.1:0;h2c", "TOLLGATE_WORKERS=1")
        server.mood.change { $0 = .late }
        let fields: [(String, String)] = [
            ("authorization", "Bearer \(try OutsideRefreshTests.old())"), ("x-refresh-token", server.signIn("u1")),
            ("x-internal-key", TransparentRefreshTests.key),
        ]
        let peers = try (0..<42).map { _ in try HTTP2Peer(port: gateway.port, host: Self.greedy) }
        for peer in peers {
            try peer.connection.send((0..<100).flatMap { HTTP2Peer.head(2 * $0 + 1, "GET", "/required/x", fields) })
        }
        try eventually("some are refused") { try gateway.metric("tollgate_overload_sheds_total", #"reason="share""#) > 0 }
        server.mood.change { $0 = .well }
        let own = TransparentRefreshTests.fields(try OutsideRefreshTests.old("u2"), server.signIn("u2"))
        #expect(try gateway.ask("GET /required/x", own).status == 200)
        #expect(upstream.requests.now.map { $0["X-User-Id"] } == ["u2"])
        withExtendedLifetime(peers) {}
    }

    // MARK: the gateway's own endpoints

    /// Requests whose content does not come hold none of the slots of handlers.
    @Test(arguments: [false, true]) func uploadsThatDoNotComeLeaveTheOwnEndpointsAlone(overHTTP2: Bool) throws {
        let held = try OverloadTests.Held()
        let gateway = try Gateway(
            held.settings(
                Gateway.contracts, "TOLLGATE_LISTEN=127.0.0.1:0;h2c", "TOLLGATE_CLIENT_SHARE=80%", "TOLLGATE_MAX_LOCAL_REQUESTS=8",
                "TOLLGATE_MAX_REQUESTS=1000"))
        let tokens = try gateway.signUp("ada@example.org")
        var (connections, peers): ([Connection], [HTTP2Peer]) = ([], [])
        if overHTTP2 {
            peers = try (0..<2).map { _ in try HTTP2Peer(port: gateway.port, host: Self.greedy) }
            for peer in peers {
                for stream in 0..<50 { try peer.ask(2 * stream + 1, "POST", "/auth/signin", [("content-length", "100")], ends: false) }
            }
        } else {
            connections = try (0..<100).map { _ in try gateway.connect(host: Self.greedy) }
            for connection in connections { try connection.send(requestHead("POST /auth/signin", length: 100)) }
        }
        try eventually("they are there") {
            try gateway.metric(overHTTP2 ? "tollgate_http2_streams" : "tollgate_connections", overHTTP2 ? "tollgate" : #"state="active""#)
                >= 100
        }
        #expect(try gateway.ask("GET /.well-known/jwks.json").status == 200)
        _ = try gateway.refreshed(tokens.refresh)
        #expect(try gateway.send("POST /auth/signin", credentials("ada@example.org")).status == 200)
        #expect(try gateway.metric("tollgate_overload_sheds_total") == 0)
        withExtendedLifetime((connections, peers)) {}
    }

    /// Passwords that are hashed take the slots of one address's share; those of another, refreshes and keys are served.
    @Test func aFloodOfSignInsLeavesRoomForOthers() throws {
        let held = try OverloadTests.Held()
        let gateway = try Gateway(
            held.settings(
                Gateway.contracts, "TOLLGATE_CLIENT_SHARE=80%", "TOLLGATE_MAX_LOCAL_REQUESTS=4", "TOLLGATE_SIGNUP_LIMIT=100000/h"))
        let tokens = try gateway.signUp("ada@example.org")
        let flood = try (0..<60).map { _ in try gateway.connect(host: Self.greedy) }
        for (number, connection) in flood.enumerated() {
            let body = credentials("user\(number)@example.org")
            try connection.send(requestHead("POST /auth/signup", ["Content-Type: application/json"], length: body.utf8.count) + body)
        }
        try eventually("some are refused") { try gateway.metric("tollgate_overload_sheds_total", #"reason="share""#) > 0 }
        #expect(try gateway.ask("GET /.well-known/jwks.json").status == 200)
        _ = try gateway.refreshed(tokens.refresh)
        #expect(try gateway.send("POST /auth/signin", credentials("ada@example.org")).status == 200)
        #expect(try gateway.metric("tollgate_overload_sheds_total", #"reason="local""#) == 0)
        for connection in flood { #expect([200, 503].contains(try connection.answer().status)) }
    }
}
