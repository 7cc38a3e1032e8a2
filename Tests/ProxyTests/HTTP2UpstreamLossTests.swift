import Gate
import Glibc
import HTTP
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Upstreams over HTTP/2 that refuse, reset, go away or fall silent.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct HTTP2UpstreamLossTests {
    // MARK: retries

    @Test func aRequestRefusedWithREFUSED_STREAMIsSentAgainAlsoAPost() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.client(HTTP2UpstreamTests.post)
        let upstream = try bench.accept()
        let first = try upstream.request()
        #expect(try upstream.content(first.stream) == "hello")
        try upstream.sendReset(first.stream, .refusedStream)
        let second = try upstream.request()
        #expect(second.stream == 3 && second.head == first.head)
        #expect(try upstream.content(second.stream) == "hello")
        try upstream.answer(second.stream)
        #expect(try client.receiveMessage().status == 200)
        client.close()
        #expect(bench.isAtRest())
        #expect(bench.worker.samples("tollgate_upstream_retries_total").contains { $0.contains("refused") && $0.hasSuffix(" 1") })
    }

    @Test func anUpstreamThatRefusesAgainAndAgainIsUnavailable() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.ask("/")
        let upstream = try bench.accept()
        for _ in 0..<2 { try upstream.sendReset(upstream.request().stream, .refusedStream) }
        #expect(try client.receiveMessage().status == 503)
        client.close()
        #expect(bench.isAtRest())
    }

    /// Also within max-connections: the connection that goes away does not count any more.
    @Test(arguments: [Int.max, 1])
    func aStreamAboveGOAWAYsLastIsSentAgainAndTheOthersAreAnswered(_ maxConnections: Int) throws {
        let bench = try HTTP2Bench { $0.maxConnections = maxConnections }
        defer { bench.end() }
        let first = try bench.ask("/1")
        let old = try bench.accept()
        let one = try old.request()
        let second = try bench.client(HTTP2UpstreamTests.post)
        let two = try old.request()
        #expect(try old.content(two.stream) == "hello")
        try old.sendGoAway(last: one.stream)
        let new = try bench.accept()
        let again = try new.request()
        #expect(again.head == two.head)
        #expect(try new.content(again.stream) == "hello")
        try new.answer(again.stream, "new")
        #expect(try second.receiveMessage().body == "new")
        try old.answer(one.stream, "old")
        #expect(try first.receiveMessage().body == "old")
        #expect(try old.isClosed())
        for line in [first, second] { line.close() }
        #expect(bench.isAtRest())
    }

    @Test(arguments: ["GET", "POST"])
    func aConnectionThatClosesUnderARequestIsStaleIfItWasUsed(_ method: String) throws {
        let bench = try HTTP2Bench {
            $0.retries = 0
            $0.maxConnections = 1
        }
        defer { bench.end() }
        let client = try bench.ask("/1")
        let old = try bench.accept()
        try old.answer(old.request().stream)
        #expect(try client.receiveMessage().status == 200)
        try client.send("\(method) /2 HTTP/1.1\r\nHost: h\r\n\(method == "POST" ? "Content-Length: 0\r\n" : "")\r\n")
        _ = try old.request()
        old.line.close()
        if method == "GET" {
            let new = try bench.accept()
            try new.answer(new.request().stream)
            #expect(try client.receiveMessage().status == 200)
        } else {
            #expect(try client.receiveMessage().status == 502)
            #expect(bench.opensNoMore)
        }
        client.close()
        #expect(bench.isAtRest())
    }

    /// The request may be what breaks it: others' answers say that the connection was not closed before.
    @Test func aConnectionThatBreaksBehindOthersAnswersIsNotStale() throws {
        let bench = try HTTP2Bench { $0.retries = 0 }
        defer { bench.end() }
        let client = try bench.ask("/poison")
        let upstream = try bench.accept()
        _ = try upstream.request()
        let other = try bench.ask("/other")
        try upstream.answer(upstream.request().stream)
        #expect(try other.receiveMessage().status == 200)
        upstream.line.close()
        #expect(try client.receiveMessage().status == 502)
        #expect(bench.opensNoMore)
        for line in [client, other] { line.close() }
        #expect(bench.isAtRest())
    }

    @Test func anIdleConnectionThatGoesAwayIsReplaced() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.ask("/1")
        let old = try bench.accept()
        try old.answer(old.request().stream)
        #expect(try client.receiveMessage().status == 200)
        try old.sendGoAway(last: 1)
        #expect(try old.isClosed())
        try client.send(HTTP2UpstreamTests.post)
        let new = try bench.accept()
        try new.answer(new.request().stream)
        #expect(try client.receiveMessage().status == 200)
        client.close()
        #expect(bench.isAtRest())
    }

    // MARK: broken answers

    @Test(arguments: [nil, HTTP2ErrorCode.internalError, .refusedStream, .cancel])
    func anAnswerThatBreaksOffIsCutForItsClientAlone(_ code: HTTP2ErrorCode?) throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.ask("/1")
        let upstream = try bench.accept()
        let stream = try upstream.request().stream
        let other = code == nil ? nil : try bench.ask("/other")
        let second = try other.map { _ in try upstream.request().stream }
        try upstream.sendHead(stream, [(":status", "200")])
        try upstream.sendData(stream, "half")
        if let code { try upstream.sendReset(stream, code) } else { upstream.line.close() }
        let answer = try client.receiveAll().text
        #expect(answer.contains("4\r\nhalf\r\n") && !answer.hasSuffix("0\r\n\r\n"))
        if let other, let second {
            try upstream.answer(second)
            #expect(try other.receiveMessage().status == 200)
            other.close()
        }
        client.close()
        #expect(bench.isAtRest())
    }

    @Test func aCompleteAnswerOutlivesItsConnection() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let slow = try Line(to: bench.worker.address, receiveBuffer: 4_096)
        try slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        let stream = try upstream.request().stream
        try upstream.sendHead(stream, [(":status", "200")])
        // Until the client's socket is full, so that the rest is held.
        var window = 65_535
        var sent = 0
        while true {
            while window >= 8_192 {
                try upstream.send(HTTP2Upstream.data, 0, stream, [UInt8](repeating: 65, count: 8_192))
                window -= 8_192
                sent += 8_192
            }
            guard upstream.isReady(milliseconds: 200) else { break }
            let frame = try upstream.next()
            if frame.type == HTTP2Upstream.windowUpdate, frame.stream == stream { window += frame.word(0) }
        }
        try upstream.sendHead(stream, [("x-end", "yes")], ends: true)
        try upstream.sendGoAway(last: stream)
        upstream.line.close()
        #expect(try slow.receive(until: "0\r\nx-end: yes\r\n\r\n").utf8.count > sent)
        slow.close()
        #expect(bench.isAtRest())
    }

    @Test(
        arguments: [
            [("server", "x")], [(":status", "2000")], [(":status", "200"), ("Upper", "x")], [(":status", "200"), ("connection", "close")],
            [(":status", "101")], [(":status", "200"), ("content-length", "1"), ("content-length", "2")],
        ] as [[(String, String)]])
    func aMalformedAnswerIs502AndTheConnectionGoesOn(_ fields: [(String, String)]) throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.ask("/1")
        let upstream = try bench.accept()
        try upstream.sendHead(upstream.request().stream, fields)
        #expect(try client.receiveMessage().status == 502)
        try client.send("GET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
        try upstream.answer(upstream.request().stream)
        #expect(try client.receiveMessage().status == 200)
        client.close()
        #expect(bench.isAtRest())
    }

    @Test(arguments: ["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", ""])
    func aServerThatSpeaksNoHTTP2Is502(_ answer: String) throws {
        let bench = try HTTP2Bench { $0.retries = 0 }
        defer { bench.end() }
        let clients = try (0..<2).map { try bench.ask("/\($0)") }
        let upstream = try bench.accept(nil)
        #expect(bench.worker.census { $0.exchanges == 2 }.exchanges == 2)
        try upstream.line.send(answer)
        upstream.line.close()
        for client in clients {
            #expect(try client.receiveMessage().status == 502)
            client.close()
        }
        #expect(bench.isAtRest())
    }

    @Test func aServerThatNeverGreetsIsGivenUp() throws {
        let bench = try HTTP2Bench {
            $0.connectTimeout = 100
            $0.retries = 0
        }
        defer { bench.end() }
        // The system accepts the connection, and nothing reads from it.
        let client = try bench.ask("/")
        #expect(try client.receiveMessage().status == 504)
        client.close()
        #expect(bench.isAtRest())
    }

    // MARK: clients and time

    @Test func aClientThatLeavesCancelsItsStreamAlone() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.ask("/1")
        let upstream = try bench.accept()
        let stream = try upstream.request().stream
        let other = try bench.ask("/2")
        let second = try upstream.request().stream
        client.reset()
        #expect(try upstream.next(HTTP2Upstream.reset).description == "RST \(stream) 8")
        // Frames that were on their way to the stream are no fault.
        try upstream.answer(stream)
        try upstream.answer(second)
        #expect(try other.receiveMessage().status == 200)
        other.close()
        #expect(bench.isAtRest())
    }

    @Test func aStreamThatIsSilentTooLongIs504AndTheOthersGoOn() throws {
        let bench = try HTTP2Bench { $0.timeout = 3_000 }
        defer { bench.end() }
        let client = try bench.ask("/1")
        let upstream = try bench.accept()
        let stream = try upstream.request().stream
        #expect(try client.receiveMessage().status == 504)
        #expect(try upstream.next(HTTP2Upstream.reset).description == "RST \(stream) 8")
        try client.send("GET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
        try upstream.answer(upstream.request().stream)
        #expect(try client.receiveMessage().status == 200)
        client.close()
        #expect(bench.isAtRest())
    }

    @Test(arguments: [true, false])
    func aSilentConnectionIsPingedAndGivenUpWithoutAnAnswer(_ answersPing: Bool) throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        let back = HTTP2Bench.snapshot([try listener.localAddress()]) { $0.timeout = 600_000 }
        var worker = try SteppedWorker([HTTP2Bench.rule], upstreams: [back])
        let client = try Line(to: worker.address)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try worker.acceptHTTP2(listener)
        let stream = try upstream.request().stream
        worker.pass(milliseconds: 10_100)
        let ping = try upstream.next(HTTP2Upstream.ping)
        #expect(ping.flags == 0)
        if answersPing {
            try upstream.send(HTTP2Upstream.ping, 1, 0, ping.payload)
            worker.turn(waiting: 100)
        }
        worker.pass(milliseconds: 15_100)
        if answersPing {
            try upstream.answer(stream)
        } else {
            let new = try worker.acceptHTTP2(listener)
            try new.answer(new.request().stream)
        }
        try worker.turn(untilReadable: client)
        #expect(try client.receiveMessage().status == 200)
        worker.end()
    }

    @Test func theFirstRequestAfterASilenceGoesWithAPing() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        var worker = try SteppedWorker([HTTP2Bench.rule], upstreams: [HTTP2Bench.snapshot([try listener.localAddress()])])
        let client = try Line(to: worker.address)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try worker.acceptHTTP2(listener)
        try upstream.answer(upstream.request().stream)
        try worker.turn(untilReadable: client)
        _ = try client.receiveMessage()
        worker.pass(milliseconds: 20_000)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        worker.turn(waiting: 1_000)
        #expect(try upstream.next(HTTP2Upstream.headers).stream == 3)
        #expect(try upstream.next().type == HTTP2Upstream.ping)
        worker.end()
    }

    @Test func anIdleConnectionIsClosedInTime() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        var worker = try SteppedWorker([HTTP2Bench.rule], upstreams: [HTTP2Bench.snapshot([try listener.localAddress()])])
        let client = try Line(to: worker.address)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try worker.acceptHTTP2(listener)
        try upstream.answer(upstream.request().stream)
        try worker.turn(untilReadable: client)
        _ = try client.receiveMessage()
        for _ in 0..<5 { worker.pass(milliseconds: 10_000) }
        while upstream.isReady(milliseconds: 0) { #expect(try upstream.next().type != HTTP2Upstream.goAway) }
        worker.pass(milliseconds: 11_000)
        #expect(try upstream.next(HTTP2Upstream.goAway).word(4) == 0)
        worker.end()
    }
}
