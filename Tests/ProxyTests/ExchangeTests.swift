import Gate
import Glibc
import TestServers
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// One request through a running worker, told from both of its ends.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct ExchangeTests {
    static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    @Test func aRequestGetsItsAnswerAndBothConnectionsAreKept() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        #expect(try upstream.receiveMessage().hasPrefix("GET /a?b=c HTTP/1.1\r\nHost: h\r\n"))
        try upstream.send(Self.ok)
        #expect(try client.receiveMessage().body == "ok")
        try client.send("GET /second HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try upstream.receiveMessage().hasPrefix("GET /second "))
        try upstream.send(Self.ok)
        #expect(try client.receiveMessage().status == 200)
        client.close()
        #expect(bench.worker.census { $0.isAtRest && $0.idle == 1 }.isAtRest)
        upstream.close()
    }

    @Test func aFailureOfTheUpstreamIsToldInTheRoutesOwnDialect() throws {
        let nobody = try HeldPort()
        let gone = try #require(SocketAddress(parsing: "127.0.0.1:\(nobody.number)"))
        var apple = RouteRule(name: "apple", path: "/apple", isPrefix: false, target: .upstream(0), auth: .none)
        apple.errors = RunningWorker.nested
        var dlauth = RouteRule(name: "dlauth", path: "/dlauth", isPrefix: false, target: .upstream(0), auth: .none)
        dlauth.errors = RunningWorker.flat
        let worker = try RunningWorker([apple, dlauth], upstreams: [RunningWorker.upstream("back", [gone])])
        defer { worker.stop() }
        let client = try Line(to: worker.address)
        var bodies: [String] = []
        for path in ["/nowhere", "/apple", "/dlauth", "/apple"] {
            try client.send("GET \(path) HTTP/1.1\r\nHost: h\r\n\r\n")
            bodies.append(try client.receiveMessage().body)
        }
        #expect(bodies[0].contains("\"status\":404"))
        #expect(bodies[1].contains("\"BAD_GATEWAY\"") && bodies[1].hasPrefix("{\"error\":{"))
        #expect(bodies[2].hasPrefix("{\"error\":\""))
        #expect(bodies[3].hasPrefix("{\"error\":{"))
        withExtendedLifetime(nobody) { client.close() }
    }

    @Test func whatComesBehindTheBodyOfARequestWhoseAnswerIsStillComingWaitsAtTheClient() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab")
        let upstream = try bench.accept()
        _ = try upstream.receive(until: "ab")
        try upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
        _ = try client.receive(until: "hi\r\n")
        try client.send("cd")
        _ = try upstream.receive(until: "cd")
        let flood = [UInt8](repeating: UInt8(ascii: "x"), count: 32 << 20)
        #expect(client.sendWhatGoes(flood, waiting: 300) < 16 << 20)
        #expect(bench.worker.census.bytes < 2 << 20)
        client.close()
        upstream.close()
    }

    @Test func aChunkedRequestThatIsSentAgainIsSentWhole() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("GET /first HTTP/1.1\r\nHost: h\r\n\r\n")
        let stale = try bench.accept()
        _ = try stale.receiveMessage()
        try stale.send(Self.ok)
        _ = try client.receiveMessage()
        try client.send("PUT /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        _ = try stale.receive(until: "3\r\nabc\r\n")
        try client.send("0\r\n\r\n")
        _ = try stale.receive(until: "0\r\n\r\n")
        stale.close()
        let fresh = try bench.accept()
        let again = try fresh.receive(until: "0\r\n\r\n")
        #expect(again.hasPrefix("PUT /p ") && again.hasSuffix("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
        try fresh.send(Self.ok)
        #expect(try client.receiveMessage().status == 200)
        client.close()
        fresh.close()
    }

    @Test(arguments: ["POST", "PATCH"])
    func aRequestThatMayHaveBeenWorkedOnIsNotSentTwice(_ method: String) throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("GET /first HTTP/1.1\r\nHost: h\r\n\r\n")
        let stale = try bench.accept()
        _ = try stale.receiveMessage()
        try stale.send(Self.ok)
        _ = try client.receiveMessage()
        try client.send("\(method) /p HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
        _ = try stale.receive(until: "abc")
        stale.close()
        #expect(try client.receiveMessage().status == 502)
        #expect(!Line(bench.upstream).isReady(milliseconds: 100))
        client.close()
    }

    @Test func aBodyThatDripsInAfterItsRefusalDoesNotHoldTheConnection() throws {
        var settings = WorkerSettings()
        settings.bodyTimeout = 400
        let bench = try Bench({ $0.path = "/only" }, settings: settings)
        defer { bench.end() }
        let client = try bench.client()
        try client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n")
        #expect(try client.receiveMessage().status == 404)
        var tenths = 0
        while tenths < 300, !client.isReady(milliseconds: 100) {
            do { try client.send("x") } catch { break }
            tenths += 1
        }
        #expect(tenths < 300)
        client.close()
    }

    @Test func aCutAnswerThatOnlyTheConnectionsEndWouldEndIsNotTakenForWhole() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("GET / HTTP/1.0\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        _ = try client.receive(until: "hello")
        upstream.close()
        #expect(try client.receiveAll().end == .reset)
        client.close()
    }

    @Test func hintsBeforeAnAnswerAreBounded() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        let hints = String(repeating: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", count: 1_000)
        _ = upstream.sendWhatGoes(Array(hints.utf8), waiting: 100)
        let all = try client.receive(until: "}")
        #expect(all.contains("HTTP/1.1 502 "))
        client.close()
        upstream.close()
    }

    @Test func anAnswerGivenBeforeTheUpstreamStoppedReadingReachesTheClient() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8000000\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receive(until: "\r\n\r\n")
        // Bytes that were not read make a reset of the close.
        try client.send([UInt8](repeating: 65, count: 100_000))
        try upstream.wait(POLLIN)
        try upstream.send("HTTP/1.1 413 Too Much\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch")
        upstream.close()
        _ = client.sendWhatGoes([UInt8](repeating: 65, count: 1_000_000), waiting: 100)
        #expect(try client.receiveMessage().status == 413)
        client.close()
    }

    @Test func anAnswerWithoutContentClaimsNoneAndALengthIsSaidOnce() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nx_new_access-token: forged\r\n\r\n")
        let answer = try client.receiveMessage()
        #expect(answer.status == 204)
        #expect(answer.value(of: "Content-Length") == nil)
        #expect(!answer.contains("forged"))
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        _ = try upstream.receiveMessage()
        try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok")
        #expect(try client.receiveMessage().headLines.filter { $0.hasPrefix("Content-Length") }.count == 1)
        client.close()
        upstream.close()
    }

    @Test func bytesBehindAnAnswerAreNobodysAnswer() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
        let first = try bench.accept()
        _ = try first.receiveMessage()
        try first.send(Self.ok + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
        #expect(try client.receiveMessage().body == "ok")
        let second = try bench.accept()
        #expect(try second.receiveMessage().hasPrefix("GET /2 "))
        try second.send(Self.ok)
        #expect(try client.receiveMessage().body == "ok")
        client.close()
        first.close()
        second.close()
    }

    /// Larger than what is kept while there is no connection.
    @Test func theEndOfABodyIsSeenWhenItComes() throws {
        var settings = WorkerSettings()
        settings.bodyTimeout = 3_000
        let bench = try Bench(settings: settings)
        defer { bench.end() }
        let client = try bench.client()
        let body = String(repeating: "b", count: 40_000)
        try client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n\(body)")
        client.finishSending()
        let upstream = try bench.accept()
        _ = try upstream.receive(until: body)
        // Longer than a body may take, which is no matter any more.
        #expect(!client.isReady(milliseconds: 3_500))
        try upstream.send(Self.ok)
        #expect(try client.receiveMessage().status == 200)
        #expect(bench.worker.census { $0.idle == 1 }.idle == 1)
        client.close()
        upstream.close()
    }

    @Test(arguments: [(10, 200), (11, 413)])
    func aChunkedBodyMayFillItsLimitAndNotPassIt(_ count: Int, _ status: Int) throws {
        let bench = try Bench({ $0.bodyLimit = 10 })
        defer { bench.end() }
        let client = try bench.client()
        try client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        let upstream = try bench.accept()
        try client.send("5\r\nxxxxx\r\n")
        // Nothing is sent behind what may be refused: that could be answered with a reset.
        try client.send("\(count - 5)\r\n\(String(repeating: "x", count: count - 5))\r\n0\r\n\r\n")
        if status == 200 {
            _ = try upstream.receive(until: "0\r\n\r\n")
            try upstream.send(Self.ok)
        }
        #expect(try client.receiveMessage().status == status)
        client.close()
        upstream.close()
    }

    @Test func anAnswerThatComesByteByByteIsPassedOnLikeAnyOther() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        for byte in "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8 {
            try upstream.send([byte])
        }
        #expect(try client.receiveMessage().status == 103)
        #expect(try client.receiveMessage().body == "ok")
        // The connection is kept, and its next answer begins anew.
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        _ = try upstream.receiveMessage()
        for byte in Self.ok.utf8 { try upstream.send([byte]) }
        #expect(try client.receiveMessage().body == "ok")
        client.close()
        upstream.close()
    }

    @Test func anEndlessHeadIsGivenUp() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send("HTTP/1.1 200 OK\r\n")
        for _ in 0..<100 where !client.isReady(milliseconds: 0) {
            _ = upstream.sendWhatGoes(Array("X-Line: \(String(repeating: "x", count: 1_000))\r\n".utf8), waiting: 100)
        }
        #expect(try client.receiveMessage().status == 502)
        client.close()
        upstream.close()
    }

    /// The bytes of one receive go on with one send, however many chunks they were: counted in the segments that arrive.
    @Test func theChunksOfOnePieceGoOnTogether() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receive(until: "1\r\na\r\n")
        let before = try upstream.segmentsReceived
        let chunks = String(repeating: "1\r\nb\r\n", count: 500)
        try client.send(chunks + "0\r\n\r\n")
        #expect(try upstream.receive(until: "0\r\n\r\n").hasSuffix(chunks + "0\r\n\r\n"))
        #expect(try upstream.segmentsReceived - before <= 5)
        try upstream.send(Self.ok)
        #expect(try client.receiveMessage().status == 200)
        client.close()
        upstream.close()
    }
}
