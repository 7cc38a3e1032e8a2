import Foundation
import TestThreads
import Testing

/// What a client gets when the service behind the gateway fails, and how the gateway helps itself.
@Suite(.ownThread) struct UpstreamFailureTests {
    private static func settings(_ addresses: String, _ options: String = "", route: String = "") -> String {
        "TOLLGATE_UPSTREAM_U=\"\(addresses) \(options)\"\nTOLLGATE_ROUTE_ALL=\"/* upstream=u auth=none errors=problem \(route)\""
    }

    private static func code(_ answer: Message) throws -> String? { try JSON(answer.text)["code"].text }

    @Test func aRefusedConnectionIs502() throws {
        let refusing = try Listening.refusing()
        let gateway = try Gateway(Self.settings("http://127.0.0.1:\(refusing.port)"))
        let connection = try gateway.connect()
        for _ in 0..<3 {
            let answer = try connection.ask("GET /x")
            #expect(answer.status == 502)
            #expect(try Self.code(answer) == "BAD_GATEWAY")
        }
        #expect(try gateway.accessLog(3)[0]["error"].text == "not_reached")
    }

    @Test func anUpstreamThatIsLateIs504() throws {
        let upstream = try Upstream { (_: Message, _) in }
        let gateway = try Gateway(Self.settings(upstream.url, "timeout=300ms"))
        let start = ProcessInfo.processInfo.systemUptime
        let answer = try gateway.ask("GET /x")
        let took = ProcessInfo.processInfo.systemUptime - start
        #expect(answer.status == 504)
        #expect(try Self.code(answer) == "TIMEOUT")
        // Without this setting it would be thirty seconds.
        #expect((0.25...20).contains(took), "\(took) s")
        try upstream.requests.wait(for: "the request", until: { !$0.isEmpty })
        #expect(
            upstream.requests.now.count == 1 && upstream.connections.now == 1,
            "what may have been worked on is not repeated after a timeout")
    }

    @Test func aRoutesTimeoutCountsBeforeTheUpstreams() throws {
        let upstream = try Upstream { (_: Message, _) in }
        let gateway = try Gateway(Self.settings(upstream.url, "timeout=60s", route: "timeout=200ms"))
        #expect(try gateway.ask("GET /x").status == 504)
    }

    @Test func aConnectionThatIsNotTakenIs504() throws {
        // A queue of one that is full: further connections hang in the kernel.
        let full = try Listening(backlog: 0)
        var queued: [Connection] = []
        try eventually("the queue is full") {
            guard let one = try? Connection(port: full.port, patience: 1) else { return true }
            queued.append(one)
            return false
        }
        let gateway = try Gateway(Self.settings("http://127.0.0.1:\(full.port)", "connect-timeout=300ms retries=0"))
        #expect(try withExtendedLifetime((full, queued)) { try gateway.ask("GET /x").status } == 504)
        #expect(try gateway.accessLog(1)[0]["error"].text == "connect_timeout")
    }

    @Test func anAnswerThatBreaksOffIsCutAndNotEnded() throws {
        let answers = [
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\nzzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\npart",
        ]
        for resets in [false, true] {
            let upstream = try Upstream { request, connection in
                try connection.send(answers[Int(request.target.dropFirst()) ?? 0])
                // The client has seen the beginning before the end comes.
                usleep(50_000)
                if resets { connection.reset() }
                throw Fault("ended")
            }
            let gateway = try Gateway(Self.settings(upstream.url))
            for index in answers.indices {
                let connection = try gateway.connect()
                try connection.send(requestHead("GET /\(index)"))
                let (bytes, end) = connection.takeRest()
                let seen = text(of: bytes)
                #expect(end != .silence)
                #expect(seen.hasPrefix("HTTP/1.1 200 OK"), "\(index)")
                #expect(!seen.hasSuffix("0\r\n\r\n"), "answer \(index) looks whole: \(seen)")
                if index == 0 { #expect(seen.contains("Content-Length: 100") && seen.hasSuffix("part")) }
            }
        }
    }

    @Test func anAnswerToAnOldClientThatBreaksOffIsReset() throws {
        let upstream = try Upstream { (_: Message, connection) in
            try connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n")
            usleep(50_000)
            connection.reset()
            throw Fault("ended")
        }
        let gateway = try Gateway(Self.settings(upstream.url))
        let connection = try gateway.connect()
        try connection.send("GET /x HTTP/1.0\r\n\r\n")
        #expect(connection.takeRest().end == .reset, "to a client of HTTP/1.0 an orderly end would look like a whole answer")
    }

    @Test func garbageIs502AndNeverReachesTheClient() throws {
        let answers = [
            "hello\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 OK\r\n\r\n", "HTTP/1.1 99 Low\r\n\r\n", "HTTP/1.1 2000 Long\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX-A\r\n\r\n", "HTTP/1.1 200 OK\r\nX A: b\r\n\r\n", "HTTP/1.1 200 OK\r\nX-A: b\r\n folded\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX-Long: " + String(repeating: "x", count: 70_000) + "\r\n\r\n", "",
        ]
        let upstream = try Upstream { request, connection in
            try connection.send(answers[Int(request.target.dropFirst()) ?? 0])
            throw Fault("ended")
        }
        let gateway = try Gateway(Self.settings(upstream.url, "retries=0"))
        let connection = try gateway.connect()
        for index in answers.indices {
            let answer = try connection.ask("GET /\(index)")
            #expect(answer.status == 502, "\(answers[index].prefix(80))")
            #expect(try Self.code(answer) == "BAD_GATEWAY")
        }
    }

    /// The retries that a route allows are for answers of which nothing came.
    @Test func garbageIsNotAskedForAgainAndSetsItsAddressAside() throws {
        let garbage = try Upstream(Upstream.saying("garbage\r\n\r\n"))
        let well = try Upstream()
        // It stays aside for as long as a busy machine takes for the rest.
        let gateway = try Gateway(Self.settings("\(garbage.url) \(well.url)", "balance=round retries=3 eject-after=300s"))
        var statuses: [Int] = []
        for _ in 0..<20 { statuses.append(try gateway.ask("GET /x").status) }
        #expect(statuses.count { $0 == 502 } == 5 && statuses.count { $0 == 200 } == 15)
        #expect(garbage.requests.now.count == 5 && well.requests.now.count == 15)
        #expect(try gateway.metric("tollgate_upstream_ejections_total", #"upstream="u""#) == 1)
        #expect(try gateway.metric("tollgate_upstream_retries_total") == 0)
    }

    @Test func whatComesBehindAnAnswerIsNotTakenForTheNext() throws {
        let upstream = try Upstream(
            Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"))
        let gateway = try Gateway(Self.settings(upstream.url))
        let connection = try gateway.connect()
        for _ in 0..<5 { #expect(try connection.ask("GET /x").text == "ok") }
    }

    @Test func aKeptConnectionThatHasGoneIsReplacedUnseen() throws {
        // Each connection answers once and then ends at the next request, before a byte of its answer.
        let upstream = try Upstream.raw({ connection, _ in
            _ = try connection.request()
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            _ = try connection.request()
        })
        let gateway = try Gateway(Self.settings(upstream.url, "retries=0"))
        let connection = try gateway.connect()
        for _ in 0..<5 { #expect(try connection.ask("GET /x").text == "ok") }
        #expect(try gateway.metric("tollgate_upstream_retries_total", #"upstream="u""#) == 4)
        // A request that may have been worked on is not sent twice.
        #expect(try connection.ask("POST /x", body: [1]).status == 502)
    }

    @Test func oneAddressOfTwoThatIsDownIsPassedOver() throws {
        let (refusing, upstream) = (try Listening.refusing(), try Upstream())
        let gateway = try Gateway(Self.settings("http://127.0.0.1:\(refusing.port) \(upstream.url)", "eject-after=300s"))
        let connection = try gateway.connect()
        for number in 0..<40 {
            let answer = number % 2 == 0 ? try connection.ask("GET /x") : try connection.ask("POST /x", body: [1])
            #expect(answer.status == 200)
        }
        // Five failures in a row set the address aside.
        #expect(try gateway.metric("tollgate_upstream_ejections_total", #"upstream="u""#) == 1)
        #expect(try gateway.metric("tollgate_upstream_retries_total", #"upstream="u""#) == 5)
    }

    @Test func bothAddressesAreUsed() throws {
        for balance in ["least", "round"] {
            let upstreams = [try Upstream(), try Upstream()]
            let gateway = try Gateway(Self.settings(upstreams.map(\.url).joined(separator: " "), "balance=\(balance)"))
            let connection = try gateway.connect()
            for _ in 0..<20 { #expect(try connection.ask("GET /x").status == 200) }
            #expect(upstreams.map { $0.requests.now.count } == [10, 10], "\(balance)")
        }
    }

    @Test func withLeastOutstandingASlowAddressGetsFewer() throws {
        let go = Watched(false)
        let slow = try Upstream { (_: Message, connection) in
            try go.wait(for: "the word", until: { $0 })
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        let fast = try Upstream()
        let gateway = try Gateway(Self.settings("\(slow.url) \(fast.url)"))
        let port = gateway.port
        let first = Background { try Connection(port: port).ask("GET /1").status }
        let second = Background { try Connection(port: port).ask("GET /2").status }
        try eventually("one of them hangs") { slow.requests.now.count == 1 && fast.requests.now.count >= 1 }
        let connection = try gateway.connect()
        for _ in 0..<20 { #expect(try connection.ask("GET /x").status == 200) }
        #expect(slow.requests.now.count == 1)
        go.change { $0 = true }
        #expect(try first.value() == 200)
        #expect(try second.value() == 200)
    }

    @Test func aHealthCheckTurnsAnAddressOffAndOn() throws {
        let isWell = Watched(true)
        let sick = try Upstream { request, connection in
            let status = request.target != "/healthz" || isWell.now ? "200 OK" : "503 Away"
            try connection.send("HTTP/1.1 \(status)\r\nContent-Length: 2\r\n\r\nok")
        }
        let gateway = try Gateway(Self.settings(sick.url, "health=/healthz"))
        try eventually("the first probe") { sick.requests.now.contains { $0.target == "/healthz" } }
        #expect(try gateway.ask("GET /x").status == 200)
        isWell.change { $0 = false }
        try gateway.waitForLog("unhealthy")
        let refused = try gateway.ask("GET /x")
        #expect(refused.status == 503)
        #expect(refused["Retry-After"] != nil)
        #expect(try Self.code(refused) == "UNAVAILABLE")
        let ready = try gateway.askAdmin("/readyz")
        #expect(ready.status == 200)
        #expect(try JSON(ready.text)["status"].text == "degraded")
        isWell.change { $0 = true }
        try gateway.waitForLog("healthy again")
        #expect(try gateway.ask("GET /x").status == 200)
        #expect(try JSON(gateway.askAdmin("/readyz").text)["status"].text == "ready")
    }

    /// An operator takes a wrong check away: no probe would find the address well again.
    @Test func aReloadWithoutAHealthCheckEndsItsVerdict() throws {
        let upstream = try Upstream { request, connection in
            let status = request.target == "/nowhere" ? "404 Not Found" : "200 OK"
            try connection.send("HTTP/1.1 \(status)\r\nContent-Length: 2\r\n\r\nok")
        }
        let gateway = try Gateway(Self.settings(upstream.url, "health=/nowhere"))
        try gateway.waitForLog("unhealthy")
        #expect(try gateway.ask("GET /x").status == 503)
        try gateway.reload(Self.settings(upstream.url))
        #expect(try gateway.ask("GET /x").status == 200)
        #expect(try JSON(gateway.askAdmin("/readyz").text)["status"].text == "ready")
    }

    @Test func tooManyConnectionsAre503() throws {
        let go = Watched(false)
        let upstream = try Upstream { (_: Message, connection) in
            try go.wait(for: "the word", until: { $0 })
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        let gateway = try Gateway("TOLLGATE_CLIENT_SHARE=100%\n" + Self.settings(upstream.url, "max-connections=2"))
        let port = gateway.port
        let busy = (0..<2).map { _ in Background { try Connection(port: port).ask("GET /x").status } }
        try upstream.requests.wait(for: "two requests", until: { $0.count == 2 })
        let answer = try gateway.ask("GET /x")
        #expect(answer.status == 503)
        #expect(answer["Retry-After"] != nil)
        go.change { $0 = true }
        for request in busy { #expect(try request.value() == 200) }
        #expect(try gateway.ask("GET /x").status == 200)
    }

    @Test func anUpstreamThatAnswersEarlyAndLeavesIsHeard() throws {
        let upstream = try Upstream.raw({ connection, _ in
            _ = try connection.take(through: "\r\n\r\n")
            try connection.send("HTTP/1.1 403 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
            connection.finishSending()
            _ = connection.takeRest()
        })
        let gateway = try Gateway(Self.settings(upstream.url, route: "body-limit=100MiB"))
        let connection = try gateway.connect()
        try connection.send(requestHead("POST /x", length: 1 << 20))
        let answer = try connection.answer()
        #expect(answer.status == 403)
        #expect(answer.text == "no")
    }

    @Test func whatTheGatewayItselfLacksIs503AndNotTheUpstreamsFault() throws {
        let upstream = try Upstream { (_: Message, connection) in
            try connection.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        }
        let gateway = try Gateway(
            Self.settings(upstream.url) + "\nTOLLGATE_HEADER_TIMEOUT=1h\nTOLLGATE_IDLE_TIMEOUT=1h",
            command: ["bash", "-c", "ulimit -n 60; exec \"$@\"", "limited"])
        let connection = try gateway.connect()
        var others: [Connection] = []
        while others.count < 100 { others.append(try gateway.connect()) }
        try gateway.waitForLog("out of resources")
        // A thread that has read a file gives its descriptor back, and then a request may get it.
        var refused = 0
        try eventually("eight refusals") {
            let answer = try connection.ask("GET /x")
            if answer.status == 200 { return false }
            #expect(answer.status == 503)
            #expect(answer["Retry-After"] == "1")
            #expect(try Self.code(answer) == "UNAVAILABLE")
            refused += 1
            return refused == 8
        }
        for other in others { other.close() }
        try eventually("a descriptor to spare") { try connection.ask("GET /x").status == 200 }
        #expect(try gateway.metric("tollgate_upstream_ejections_total") == 0)
        #expect(try gateway.metric("tollgate_upstream_retries_total") == 0)
        // Others may have passed in between.
        try gateway.process.output.wait(for: "eight refusals in the access log") { $0.count { $0.contains(#""status":503"#) } >= 8 }
        let lines = try gateway.accessLog(9).filter { $0["status"].int == 503 }
        #expect(lines.count >= 8 && lines.allSatisfy { $0["error"].text == "shortage" })
    }

    @Test func eachAddressIsAskedByItsOwnNameAndBelowItsOwnPath() throws {
        let upstreams = [try Upstream(), try Upstream()]
        let addresses = "\(upstreams[0].url)/one \(upstreams[1].url)/two/deep"
        let gateway = try Gateway(Self.settings(addresses, "balance=round host=upstream health=/up"))
        let connection = try gateway.connect()
        for _ in 0..<4 { #expect(try connection.ask("GET /x?y").status == 200) }
        for (upstream, base) in zip(upstreams, ["/one", "/two/deep"]) {
            let requests = upstream.requests.now
            #expect(requests.filter { $0.target == base + "/x?y" }.count == 2)
            try eventually("a health check") { upstream.requests.now.contains { $0.target == base + "/up" } }
            #expect(upstream.requests.now.allSatisfy { $0["Host"] == "127.0.0.1:\(upstream.port)" })
        }
    }

    @Test func allWorkersTogetherKeepToTheBoundOfAnUpstreamsConnections() throws {
        let go = Watched(false)
        let upstream = try Upstream { (_: Message, connection) in
            try go.wait(for: "the word", until: { $0 })
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        let gateway = try Gateway("TOLLGATE_WORKERS=2\nTOLLGATE_CLIENT_SHARE=100%\n" + Self.settings(upstream.url, "max-connections=4"))
        let clients = try (0..<60).map { _ in try gateway.connect() }
        for client in clients { try client.send(requestHead("GET /x")) }
        try upstream.requests.wait(for: "four requests", until: { $0.count == 4 })
        try eventually("refusals") { clients.count { !$0.isQuiet } == 56 }
        go.change { $0 = true }
        #expect(try clients.map { try $0.answer().status }.sorted() == Array(repeating: 200, count: 4) + Array(repeating: 503, count: 56))
        #expect(upstream.connections.now == 4)
    }

    /// More workers than connections: a share of each could only be none or too much.
    @Test func aBoundBelowTheNumberOfWorkersHoldsForAllOfThem() throws {
        let go = Watched(false)
        let upstream = try Upstream { (_: Message, connection) in
            try go.wait(for: "the word", until: { $0 })
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        let gateway = try Gateway("TOLLGATE_WORKERS=8\nTOLLGATE_CLIENT_SHARE=100%\n" + Self.settings(upstream.url, "max-connections=3"))
        let clients = try (0..<60).map { _ in try gateway.connect() }
        for client in clients { try client.send(requestHead("GET /x")) }
        try upstream.requests.wait(for: "three requests", until: { $0.count == 3 })
        try eventually("refusals") { clients.count { !$0.isQuiet } == 57 }
        go.change { $0 = true }
        #expect(try clients.map { try $0.answer().status }.sorted() == Array(repeating: 200, count: 3) + Array(repeating: 503, count: 57))
        #expect(upstream.connections.now == 3)
        // Every worker gets its turn, whichever of them keeps a connection for later.
        for _ in 0..<40 {
            let start = ProcessInfo.processInfo.systemUptime
            let status = try gateway.ask("GET /x").status
            // For a worker that a busy machine holds up, another waits for a second.
            #expect(status == 200 || status == 503 && ProcessInfo.processInfo.systemUptime - start >= 1)
        }
    }

    @Test func aConnectionKeptForLaterGivesWayToAnotherAddress() throws {
        let upstreams = [try Upstream(), try Upstream()]
        let gateway = try Gateway(Self.settings("\(upstreams[0].url) \(upstreams[1].url)", "balance=round max-connections=1"))
        for _ in 0..<6 { #expect(try gateway.ask("GET /x").status == 200) }
        #expect(upstreams.map { $0.requests.now.count } == [3, 3])
    }

    @Test func anUpstreamWhoseClockDiffersIsTold() throws {
        let upstream = try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n\r\n"))
        let gateway = try Gateway(Self.settings(upstream.url, "health=/healthz"))
        try gateway.waitForLog("clocks differ")
        #expect(try gateway.metric("tollgate_clock_skew_seconds", #"source="upstream:u""#) > 900_000_000)
    }
}
