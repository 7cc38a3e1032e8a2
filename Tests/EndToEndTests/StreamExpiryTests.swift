import Foundation
import TestServers
import TestThreads
import Testing

/// Streams end with their token, their session or their tier, and a refresh of the session extends them.
@Suite(.ownThread) struct StreamExpiryTests {
    private static let secret = "TOLLGATE_JWT_SECRET=\"a secret of more than thirty-two bytes\""

    private static func routes(_ upstream: Upstream) -> String {
        """
        TOLLGATE_CLOCK_SKEW=0s
        TOLLGATE_UPSTREAM_S="\(upstream.url)"
        TOLLGATE_ROUTE_STREAMS="/s/* upstream=s"
        TOLLGATE_ROUTE_CLOSE="/close/* upstream=s stream-expiry=close"
        TOLLGATE_ROUTE_KEEP="/keep/* upstream=s stream-expiry=keep"
        TOLLGATE_ROUTE_PAID="/paid/* upstream=s tier=premium"
        TOLLGATE_ROUTE_LINES="/lines/* upstream=s filter=tier"
        TOLLGATE_ROUTE_WARNED="/warned/* upstream=s stream-warning=3s"
        TOLLGATE_ROUTE_OPEN="/open/* upstream=s auth=none sse-heartbeat=1s"
        """
    }

    private let upstream: Upstream
    private let gateway: Gateway

    init() throws {
        upstream = try Upstream.streaming()
        gateway = try Gateway(
            """
            \(Gateway.contracts)
            \(Self.secret)
            TOLLGATE_LISTEN=127.0.0.1:0;h2c
            TOLLGATE_ACCESS_LOG=json
            TOLLGATE_ADMIN_TOKEN=\(Fleet.adminToken)
            TOLLGATE_ACCESS_TTL_DLAUTH=16s
            \(Self.routes(upstream))
            """)
    }

    private func minted(_ ttl: String) throws -> String {
        String(try gateway.bearer("--sub", "ada", "--ttl", ttl).dropFirst("Authorization: Bearer ".count))
    }

    private func admin(_ methodAndTarget: String, _ json: String = "") throws {
        let fields = ["Host: localhost", "Authorization: Bearer \(Fleet.adminToken)"]
        #expect(try Connection(port: gateway.adminPort).ask(methodAndTarget, fields, body: Array(json.utf8)).status == 200)
    }

    private func logged(_ words: String...) throws {
        try gateway.process.output.wait(for: "\(words) in the access log") { lines in
            lines.contains { line in words.allSatisfy { line.contains($0) } }
        }
    }

    // MARK: tokens

    // Lives of tokens leave a busy machine some seconds to use them.

    @Test func anEventStreamEndsWithItsTokenAndSaysSo() throws {
        let token = try minted("10s")
        let (closing, keeping) = (try gateway.stream("/s/x", bearer: token), try gateway.stream("/keep/x", bearer: token))
        #expect(try closing.takeChunks().hasSuffix("\n\n\r\n11\r\n: token_expired\n\n\r\n0\r\n\r\n"))
        try logged(#""stream":"sse""#, #""stream_end":"token_expired""#)
        // The other one is still fed.
        #expect(try keeping.take(forSeconds: 2).contains("data: "))
        #expect(try gateway.ask("GET /s/x", ["Authorization: Bearer \(token)"]).status == 401)
    }

    @Test func aRefreshExtendsAndWithoutOneItEnds() throws {
        let tokens = try gateway.signUp("ada@example.org")
        let (extended, closed) = (try gateway.stream("/s/x", bearer: tokens.access), try gateway.stream("/close/x", bearer: tokens.access))
        _ = try extended.take(forSeconds: 8)
        _ = try gateway.refreshed(tokens.refresh)
        #expect(try closed.takeChunks().hasSuffix(": token_expired\n\n\r\n0\r\n\r\n"))
        // The first token is over, and the second is not.
        #expect(try extended.take(forSeconds: 0.5).contains("data: "))
        #expect(try extended.takeChunks().hasSuffix(": token_expired\n\n\r\n0\r\n\r\n"))
    }

    @Test func aClientIsWarned() throws {
        let token = try minted("10s")
        let end = try #require(try claims(of: token)["exp"].number)
        let stream = try gateway.stream("/warned/x", bearer: token)
        let begun = text(of: try stream.take(through: "event: token-expiring\ndata: {\"expires_in\":"))
        let said = begun + text(of: try stream.take(through: "}\n\n"))
        // What was left when it was sent, before it came here.
        let left = Int((end - Date().timeIntervalSince1970).rounded(.up))
        let told = try #require(Int(said.components(separatedBy: "expires_in\":")[1].prefix { $0.isNumber }))
        #expect((min(max(left, 1), 3)...3).contains(told) && said.hasSuffix("data: {\"expires_in\":\(told)}\n\n"), "\(said)")
        #expect(try !stream.takeChunks().contains("token-expiring"))
    }

    @Test func aShortAnswerComesToItsEnd() throws {
        let short = try Upstream()
        let gateway = try Gateway(
            """
            \(Self.secret)
            TOLLGATE_CLOCK_SKEW=0s
            TOLLGATE_UPSTREAM_U="\(short.url)"
            TOLLGATE_ROUTE_R="/* upstream=u"
            """)
        // Longer and longer, should the machine be too slow for the shorter ones.
        var answers: [Int] = []
        for life in ["3s", "10s", "40s"] where answers.count < 2 {
            let bearer = try gateway.bearer("--sub", "ada", "--ttl", life)
            answers = []
            repeat { answers.append(try gateway.ask("GET /", [bearer]).status) } while answers.last == 200
        }
        #expect(answers.count > 1 && answers.dropLast().allSatisfy { $0 == 200 } && answers.last == 401)
    }

    // MARK: sessions

    @Test func aStreamEndsWithItsSession() throws {
        let (ada, bob) = (try gateway.register("ada@example.org"), try gateway.register("bob@example.org"))
        let events = try gateway.stream("/s/x", bearer: ada.access)
        let (kept, other) = (try gateway.stream("/keep/x", bearer: ada.access), try gateway.stream("/s/x", bearer: bob.access))
        let (download, old) = (
            try gateway.stream("/s/download", bearer: ada.access), try gateway.stream("/s/download", bearer: ada.access, version: "1.0")
        )
        // Young streams end as fast as old ones.
        let began = Date()
        try admin("POST /admin/api/users/\(ada.user)/revoke")
        #expect(try events.takeChunks().hasSuffix(": session_ended\n\n\r\n0\r\n\r\n"))
        // A download that was cut does not look whole: no last chunk, and a reset where the end of the connection is the end.
        #expect(!text(of: download.takeRest().bytes).contains("\r\n0\r\n"))
        #expect(old.takeRest().end == .reset)
        let took = Date().timeIntervalSince(began)
        #expect(took < 25)
        print("streams ended \(took) s after the revocation began")
        for connection in [kept, other] { #expect(try connection.take(forSeconds: 2).contains("data: ")) }
        try logged(#""stream":"sse""#, #""stream_event":"open""#, #""status":200"#)
        try logged(#""stream":"sse""#, #""stream_event":"end""#, #""stream_end":"session_ended""#, #""bytes_in":0"#)
        try logged(#""stream":"http""#, #""stream_end":"session_ended""#)
        #expect(try gateway.metric("tollgate_streams_open", #"route="streams",kind="sse""#) == 1)
        #expect(try gateway.metric("tollgate_streams_open", #"kind="http""#) == 0)
        #expect(try gateway.metric("tollgate_streams_ended_total", #"kind="sse",reason="session_ended""#) == 1)
        #expect(try gateway.metric("tollgate_streams_ended_total", #"kind="http",reason="session_ended""#) == 2)
        other.close()
        try eventually("the client is seen to have gone") {
            try gateway.metric("tollgate_streams_ended_total", #"kind="sse",reason="client""#) == 1
        }
    }

    @Test func aStreamEndsWithItsTier() throws {
        let ada = try gateway.register("ada@example.org")
        func set(_ tier: String) throws {
            try admin("PUT /admin/api/users/\(ada.user)/tier", #"{"tier":"\#(tier)"}"#)
        }
        try set("premium")
        let (paid, free) = (try gateway.stream("/paid/x", bearer: ada.access), try gateway.stream("/s/x", bearer: ada.access))
        _ = try paid.take(forSeconds: 0.5)
        try set("free")
        #expect(try paid.takeChunks().hasSuffix(": tier\n\n\r\n0\r\n\r\n"))
        #expect(try free.take(forSeconds: 1).contains("data: "))
        #expect(try gateway.metric("tollgate_streams_ended_total", #"route="paid""#, #"reason="tier""#) == 1)
    }

    @Test func aFilteredStreamEndsWithTheTierThatItShows() throws {
        let (ada, bob) = (try gateway.register("ada@example.org"), try gateway.register("bob@example.org"))
        func set(_ tier: String) throws {
            try admin("PUT /admin/api/users/\(ada.user)/tier", #"{"tier":"\#(tier)"}"#)
        }
        try set("premium")
        let (paid, free) = (try gateway.stream("/lines/x", bearer: ada.access), try gateway.stream("/lines/x", bearer: bob.access))
        #expect(try paid.take(forSeconds: 0.5).contains("secret"))
        try set("free")
        let rest = paid.takeRest()
        #expect(rest.end != .silence && !text(of: rest.bytes).contains("\r\n0\r\n"))
        let shown = try free.take(forSeconds: 1)
        #expect(shown.contains("public") && !shown.contains("secret"))
        try eventually("the end is counted") {
            try gateway.metric("tollgate_streams_ended_total", #"route="lines""#, #"reason="tier""#) == 1
        }
    }

    @Test func aDrainEndsEventStreamsAndDoesNotWaitForThem() throws {
        let stream = try gateway.stream("/open/x")
        gateway.process.signal(SIGTERM)
        #expect(try stream.takeChunks().hasSuffix(": drain\n\n\r\n0\r\n\r\n"))
        #expect(try gateway.process.exitCode(seconds: 20) == 0)
    }

    // MARK: several gateways

    @Test(arguments: Bus.allCases) func aRefreshAtOneGatewayExtendsTheStreamsOfAnother(_ bus: Bus) throws {
        let upstream = try Upstream.streaming()
        let fleet = try Fleet(2, bus, "TOLLGATE_ACCESS_TTL_DLAUTH=20s", Self.routes(upstream))
        try fleet.waitForTheBus()
        let tokens = try fleet[0].signUp("ada@example.org")
        let stream = try fleet[0].stream("/s/x", bearer: tokens.access)
        _ = try stream.take(forSeconds: 11)
        let next = try fleet[1].refreshed(tokens.refresh)
        // Beyond the first token's end.
        #expect(try stream.take(forSeconds: 10).contains("data: "))
        let began = Date()
        #expect(try fleet[1].send("POST /auth/signout", bearer: next.access).status == 200)
        #expect(try stream.takeChunks().hasSuffix(": session_ended\n\n\r\n0\r\n\r\n"))
        let took = Date().timeIntervalSince(began)
        #expect(took < 20)
        print("\(bus): a stream ended \(took) s after the sign-out at another gateway began")
    }

    @Test func withoutItsDatabaseNoStreamIsExtended() throws {
        let upstream = try Upstream.streaming()
        let cluster = try PostgresCluster.shared.get()
        let fleet = try Fleet(1, .postgres, "TOLLGATE_ACCESS_TTL_DLAUTH=10s", Self.routes(upstream), database: try cluster.newDatabase())
        let tokens = try fleet[0].signUp("ada@example.org")
        let stream = try fleet[0].stream("/s/x", bearer: tokens.access)
        _ = try fleet[0].refreshed(tokens.refresh)
        let name = try #require(fleet.database.split(separator: "/").last.map(String.init))
        try cluster.run("ALTER TABLE sessions RENAME TO hidden", in: name)
        #expect(try stream.takeChunks().hasSuffix(": token_expired\n\n\r\n0\r\n\r\n"))
    }

    // MARK: HTTP/2

    @Test func overHTTP2StreamsEndBetweenFrames() throws {
        let ada = try gateway.register("ada@example.org")
        let peer = try HTTP2Peer(gateway, settings: [(4, 1 << 20)])
        peer.connection.setTimeout(seconds: 30)
        let field = [("authorization", "Bearer \(ada.access)")]
        try peer.ask(1, "GET", "/s/x", field)
        try peer.ask(3, "GET", "/s/download", field)
        try peer.ask(5, "POST", "/s/grpc", field + [("content-type", "application/grpc"), ("te", "trailers")])
        var begun: Set<Int> = []
        try peer.take { frame in
            if frame.type == 0 { begun.insert(frame.stream) }
            return begun == [1, 3, 5]
        }
        try admin("POST /admin/api/users/\(ada.user)/revoke")
        var ended: [Int: HTTP2Peer.Frame] = [:]
        var events = ""
        try peer.take { frame in
            if frame.stream == 1, frame.type == 0 { events += text(of: frame.payload) }
            if frame.endsStream || frame.type == 3, ended[frame.stream] == nil { ended[frame.stream] = frame }
            return ended.count == 3
        }
        #expect(events.hasSuffix(": session_ended\n\n") && ended[1]?.type == 0)
        #expect(ended[3]?.type == 3)
        #expect(ended[5]?.type == 1 && ended[5]?.endsStream == true, "\(ended)")
        #expect(try gateway.metric("tollgate_streams_ended_total", #"kind="grpc",reason="session_ended""#) == 1)
    }

    @Test func curlSeesTheStatusOfACallThatExpires() throws {
        let token = try minted("10s")
        let outcome = try run(
            "curl",
            [
                "-sSv", "--max-time", "40", "--http2-prior-knowledge", "-o", "/dev/null", "-H", "Authorization: Bearer \(token)",
                "http://127.0.0.1:\(gateway.port)/s/grpc",
            ])
        #expect(outcome.complaints.contains("grpc-status: 16") && outcome.code == 0, "\(outcome.complaints)")
        let events = try run(
            "curl",
            ["-sSN", "--max-time", "40", "-H", "Authorization: Bearer \(try minted("10s"))", "http://127.0.0.1:\(gateway.port)/s/x"])
        #expect(events.code == 0 && events.output.contains("\n\n: token_expired"))
    }
}
