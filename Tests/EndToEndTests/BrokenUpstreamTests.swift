import Foundation
import TestThreads
import Testing

/// Upstreams of which an address fails, is slow or asks for time: it is passed over, the operator is told why, and it comes back.
@Suite(.ownThread) struct BrokenUpstreamTests {
    private static let token = "the-operator"

    private static func gateway(_ upstreams: [Upstream], _ options: String, _ more: String = "") throws -> Gateway {
        try Gateway(
            """
            TOLLGATE_UPSTREAM_U="\(upstreams.map(\.url).joined(separator: " ")) \(options)"
            TOLLGATE_ROUTE_ALL="/* upstream=u auth=none errors=problem"
            TOLLGATE_ADMIN_TOKEN=\(token)
            \(more)
            """)
    }

    /// An upstream that answers with what `answer` holds; nothing means that it closes the connection.
    private static func upstream(_ answer: Watched<String>) throws -> Upstream {
        try Upstream { (_: Message, connection) in
            guard !answer.now.isEmpty else { throw Fault("closed") }
            try connection.send(answer.now)
        }
    }

    private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    /// What the admin API says of each address, in the order of their ports.
    private static func addresses(_ gateway: Gateway, _ upstreams: [Upstream]) throws -> [JSON] {
        let answer = try Connection(port: gateway.adminPort).ask(
            "GET /admin/api/upstreams", ["Host: localhost", "Authorization: Bearer \(token)"])
        guard answer.status == 200 else { throw Fault("\(answer.status) \(answer.text)") }
        let addresses = try JSON(answer.text)["upstreams"][0]["addresses"].array
        return try upstreams.map { upstream in
            guard let found = addresses.first(where: { $0["address"].text == "127.0.0.1:\(upstream.port)" }) else {
                throw Fault("\(upstream.port) is not in \(answer.text)")
            }
            return found
        }
    }

    /// Whether the address that failed gets requests again.
    private static func getsRequests(_ upstream: Upstream, _ gateway: Gateway) throws -> Bool {
        let before = upstream.requests.now.count
        for _ in 0..<6 { _ = try gateway.ask("GET /x") }
        return upstream.requests.now.count > before
    }

    @Test(arguments: ["HTTP/1.1 503 Away\r\nContent-Length: 4\r\n\r\naway", ""])
    func anAddressThatFailsIsEjectedAndComesBackByItself(_ failure: String) throws {
        let answer = Watched(failure)
        let upstreams = [try Self.upstream(answer), try Upstream(), try Upstream()]
        let gateway = try Self.gateway(upstreams, "balance=round eject-after=20s retries=0")
        for _ in 0..<15 { _ = try gateway.ask("GET /x") }
        try gateway.waitForLog("ejected")
        let line = try #require(gateway.process.complaints.now.first { $0.contains("ejected") })
        #expect(line.contains("failures") && line.contains("5 failures in a row") && line.contains(":\(upstreams[0].port)"))
        let before = upstreams[0].requests.now.count
        #expect(before == 5)
        for _ in 0..<9 { #expect(try gateway.ask("GET /x").status == 200) }
        #expect(upstreams[0].requests.now.count == before)
        let found = try Self.addresses(gateway, upstreams)
        #expect(found.map { $0["state"].text } == ["ejected", "in", "in"])
        #expect(found[0]["reason"].text == "failures" && found[0]["detail"].text == "5 failures in a row")
        #expect(found[0]["since"].text != nil && found[0]["until"].text != nil && found[0]["ejections"].int == 1)
        #expect(try gateway.metric("tollgate_upstream_ejections_total", #"upstream="u""#, #"reason="failures""#) == 1)
        #expect(try gateway.metric("tollgate_upstream_ejected", #"upstream="u""#) == 1)
        #expect(try gateway.metric("tollgate_upstream_healthy", #"upstream="u""#) == 2)
        let ready = try JSON(gateway.askAdmin("/readyz").text)
        #expect(ready["status"].text == "degraded")
        let check = try #require(ready["checks"].array.first { $0["name"].text == "upstream u 127.0.0.1:\(upstreams[0].port)" })
        #expect(
            check["reason"].text?.hasPrefix("ejected until 20") == true && check["reason"].text?.hasSuffix("Z: 5 failures in a row") == true
        )
        answer.change { $0 = Self.ok }
        try gateway.waitForLog("no longer ejected")
        #expect(try JSON(gateway.askAdmin("/readyz").text)["status"].text == "ready")
        #expect(try Self.getsRequests(upstreams[0], gateway))
        #expect(try Self.addresses(gateway, upstreams).map { $0["state"].text } == ["in", "in", "in"])
        #expect(try gateway.metric("tollgate_upstream_ejected", #"upstream="u""#) == 0)
    }

    @Test func explainSaysWhichAddressIsOut() throws {
        let upstreams = [try Self.upstream(Watched("HTTP/1.1 502 Oops\r\nContent-Length: 0\r\n\r\n")), try Upstream()]
        let gateway = try Self.gateway(upstreams, "balance=round eject-after=5m")
        func explained() throws -> String {
            let settings = try String(contentsOfFile: gateway.envFile, encoding: .utf8)
            try gateway.folder.write(
                "explain.env",
                settings.replacing("TOLLGATE_ADMIN_LISTEN=127.0.0.1:0", with: "TOLLGATE_ADMIN_LISTEN=127.0.0.1:\(gateway.adminPort)"))
            return try Tollgate.run(["explain", "GET", "/x", "--env-file", gateway.folder.file("explain.env")], input: "").output
        }
        #expect(try !explained().contains("ejected"))
        for _ in 0..<10 { _ = try gateway.ask("GET /x") }
        try gateway.waitForLog("ejected")
        let line = try #require(try explained().split(separator: "\n").first { $0.hasPrefix("address") })
        #expect(line.contains("127.0.0.1:\(upstreams[0].port): ejected until 20") && line.hasSuffix(": 5 failures in a row"))
    }

    @Test func aServerThatIsStartedAgainIsUsedAgain() throws {
        // Kept connections would outlive its listener.
        let first = try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"))
        let stays = try Upstream()
        let gateway = try Self.gateway([first, stays], "balance=round eject-after=1s")
        #expect(try Self.getsRequests(first, gateway))
        first.stop()
        for _ in 0..<20 { #expect(try gateway.ask("GET /x").status == 200, "what cannot be delivered is sent elsewhere") }
        try gateway.waitForLog("ejected")
        let again = try eventuallyListening(first.port)
        try eventually("the server is asked again") { try Self.getsRequests(again, gateway) }
    }

    /// The port of a listener that has stopped, as soon as it can be had again.
    private func eventuallyListening(_ port: Int) throws -> Upstream {
        var found: Upstream?
        try eventually("the port is free") {
            do { found = try Upstream(port: port) } catch is Fault { return false }
            return true
        }
        return try #require(found)
    }

    @Test func aTimeToWaitIsKept() throws {
        let answer = Watched("HTTP/1.1 503 Busy\r\nRetry-After: 20\r\nContent-Length: 4\r\n\r\nbusy")
        let upstreams = [try Self.upstream(answer), try Upstream()]
        let gateway = try Self.gateway(upstreams, "balance=round")
        var statuses: [Int] = []
        for _ in 0..<12 { statuses.append(try gateway.ask("GET /x").status) }
        #expect(statuses.count { $0 == 503 } == 1, "its own answer goes to the client as it is")
        #expect(try Self.addresses(gateway, upstreams)[0]["detail"].text == "503 with Retry-After")
        answer.change { $0 = Self.ok }
        try gateway.waitForLog("no longer ejected")
        #expect(try Self.getsRequests(upstreams[0], gateway))
    }

    /// Requests of some clients at a time, until the log says that an address is out: so many that on a busy machine, too, each address
    /// has the fifty answers in a window by which it is judged.
    private func load(_ gateway: Gateway, until text: String) throws {
        let port = gateway.port
        let isOver = Watched(false)
        let clients = (0..<24).map { _ in
            Background {
                let connection = try Connection(port: port)
                var count = 0
                while !isOver.now {
                    _ = try connection.ask("GET /x")
                    count += 1
                }
                return count
            }
        }
        defer { isOver.change { $0 = true } }
        try gateway.waitForLog(text)
        isOver.change { $0 = true }
        for client in clients { #expect(try client.value() > 0) }
    }

    @Test func anAddressThatIsSlowIsEjected() throws {
        let slow = try Upstream { (_: Message, connection) in
            usleep(100_000)
            try connection.send(Self.ok)
        }
        let upstreams = [slow, try Upstream(), try Upstream()]
        let gateway = try Self.gateway(upstreams, "balance=round eject-after=5s eject-latency=3x", "TOLLGATE_WORKERS=2")
        try load(gateway, until: "latency")
        let line = try #require(gateway.process.complaints.now.first { $0.contains("latency") })
        #expect(line.contains("ejected") && line.contains(":\(slow.port)"))
        #expect(try gateway.metric("tollgate_upstream_ejections_total", #"reason="latency""#) == 1)
    }

    @Test func anAddressThatOftenFailsIsEjected() throws {
        let numbers = Watched(0)
        let flaky = try Upstream { (_: Message, connection) in
            // Its own number: of two that came at once, each would else see the later one.
            var number = 0
            numbers.change {
                $0 += 1
                number = $0
            }
            try connection.send(number % 2 == 0 ? Self.ok : "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops")
        }
        let upstreams = [try Upstream(), flaky, try Upstream()]
        let gateway = try Self.gateway(upstreams, "balance=round eject-after=5s", "TOLLGATE_WORKERS=2")
        try load(gateway, until: "success")
        let line = try #require(gateway.process.complaints.now.first { $0.contains("answers were successes") })
        #expect(line.contains("ejected") && line.contains(":\(flaky.port)"))
    }

    /// Each worker watches for itself, one of them judges: all pass the address over.
    @Test func allWorkersPassAnEjectedAddressOver() throws {
        let answer = Watched("HTTP/1.1 503 Away\r\nContent-Length: 4\r\n\r\naway")
        let upstreams = [try Self.upstream(answer), try Upstream(), try Upstream()]
        let gateway = try Self.gateway(upstreams, "balance=round eject-after=5m", "TOLLGATE_WORKERS=4")
        for _ in 0..<100 where try gateway.metric("tollgate_upstream_ejections_total", #"reason="failures""#) == 0 {
            for _ in 0..<8 { _ = try gateway.ask("GET /x") }
        }
        // All workers have taken the verdict over when they have answered a later message.
        _ = try Self.addresses(gateway, upstreams)
        let before = upstreams[0].requests.now.count
        #expect((5...20).contains(before), "five of one worker, at most four of each other and those on the way")
        for _ in 0..<60 { #expect(try gateway.ask("GET /x").status == 200) }
        #expect(upstreams[0].requests.now.count == before)
        #expect(try gateway.metric("tollgate_upstream_ejections_total", #"reason="failures""#) == 1)
    }

    @Test func moreRequestsThanAllowedAre503AtOnce() throws {
        let go = Watched(false)
        let upstream = try Upstream { (_: Message, connection) in
            try go.wait(for: "the word", until: { $0 })
            try connection.send(Self.ok)
        }
        let gateway = try Self.gateway([upstream], "max-requests=3", "TOLLGATE_WORKERS=2\nTOLLGATE_CLIENT_SHARE=100%")
        let clients = try (0..<40).map { _ in try gateway.connect() }
        for client in clients { try client.send(requestHead("GET /x")) }
        try upstream.requests.wait(for: "three requests", until: { $0.count == 3 })
        try eventually("refusals") { clients.count { !$0.isQuiet } == 37 }
        let refused = try gateway.ask("GET /x")
        #expect(refused.status == 503 && refused["Retry-After"] == "1")
        #expect(try JSON(refused.text)["code"].text == "UNAVAILABLE")
        #expect(try gateway.metric("tollgate_upstream_refused_total", #"reason="max_requests""#) == 38)
        #expect(try gateway.metric("tollgate_upstream_requests_in_flight", #"upstream="u""#) == 3)
        go.change { $0 = true }
        #expect(try clients.map { try $0.answer().status }.count { $0 == 200 } == 3)
        for client in clients { #expect(try client.ask("GET /x").status == 200) }
        #expect(try gateway.metric("tollgate_upstream_ejections_total") == 0)
    }
}
