import Gate
import HTTP
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Requests whose content comes slowly, and clients that end their side.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct SlowRequestTests {
    private static func settings(_ change: (inout WorkerSettings) -> Void) -> WorkerSettings {
        var settings = WorkerSettings()
        change(&settings)
        return settings
    }

    /// Bytes of each second, and in which second the client is told that it is late; none if it is not in 60.
    static let drips: [(rate: UInt64, bytes: Int, late: Int?)] = [
        (240, 0, 10), (240, 120, 20), (240, 239, nil), (240, 240, nil), (1_000, 500, 20), (0, 0, 30), (0, 240, 40),
    ]

    @Test(arguments: drips) func aBodyHasALeastRate(_ rate: UInt64, _ bytes: Int, _ late: Int?) throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var worker = try SteppedWorker(forwardingTo: listener, settings: Self.settings { $0.bodyRate = rate })
        defer {
            worker.end()
            listener.close()
        }
        let client = try Line(to: worker.address)
        try client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
        let upstream = try worker.accept(listener)
        try worker.turn(untilReadable: upstream)
        var second = 0
        while second < 39, !client.isReady(milliseconds: 0) {
            worker.pass(milliseconds: 1_000)
            second += 1
            guard !client.isReady(milliseconds: 0), bytes > 0 else { continue }
            try client.send(String(repeating: "x", count: bytes))
            try worker.turn(untilReadable: upstream)
            _ = try upstream.receive()
        }
        #expect(client.isReady(milliseconds: 0) == (late.map { $0 < 40 } ?? false))
        if let late, late < 40 {
            #expect(abs(second - late) <= 1)
            #expect(try client.receiveMessage().status == 408)
        }
        upstream.close()
        client.close()
    }

    @Test func timeInWhichTheUpstreamTakesNothingDoesNotCount() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var rule = HTTP2Bench.rule
        rule.bodyLimit = 1 << 30
        rule.timeoutMilliseconds = 60_000
        var worker = try SteppedWorker(
            [rule], upstreams: [RunningWorker.upstream("back", [listener.localAddress()])], settings: Self.settings { $0.bodyRate = 240 })
        defer {
            worker.end()
            listener.close()
        }
        let client = try Line(to: worker.address)
        let length = 64 << 20
        try client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \(length)\r\n\r\n")
        let upstream = try worker.accept(listener)
        try worker.turn(untilReadable: upstream)
        // Until all buffers on the way are full.
        var sent = 0
        var idle = 0
        while idle < 20 {
            let count = client.sendWhatGoes([UInt8](repeating: 120, count: 65_536), waiting: 0)
            sent += count
            idle = count == 0 ? idle + 1 : 0
            worker.turn(waiting: 1)
        }
        #expect(sent < length)
        for _ in 0..<20 { worker.pass(milliseconds: 1_000) }
        #expect(!client.isReady(milliseconds: 0))
        upstream.close()
        client.close()
    }

    @Test(arguments: [false, true]) func aClientThatEndsItsSideWaitsOrCancels(_ cancels: Bool) throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var worker = try SteppedWorker(forwardingTo: listener, settings: Self.settings { $0.cancelsOnHalfClose = cancels })
        defer {
            worker.end()
            listener.close()
        }
        let client = try Line(to: worker.address)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try worker.accept(listener)
        try worker.turn(untilReadable: upstream)
        _ = try upstream.receiveMessage()
        client.finishSending()
        for _ in 0..<5 { worker.turn(waiting: 10) }
        #expect(upstream.isReady(milliseconds: 0) == cancels)
        if !cancels {
            try upstream.send(ExchangeTests.ok)
            try worker.turn(untilReadable: client)
            #expect(try client.receiveMessage().body == "ok")
        }
        upstream.close()
        client.close()
    }

    @Test func anEndpointOfTheGatewayAnswersAClientThatHasEndedItsSide() throws {
        let rule = RouteRule(name: "own", path: "/own", isPrefix: false, target: .local(0), auth: .none)
        let handler: LocalHandler = { request in LocalResponse(status: 200, contentType: "text/plain", body: request.body) }
        var worker = try SteppedWorker([rule], upstreams: [], settings: Self.settings { $0.cancelsOnHalfClose = true }, local: [handler])
        let client = try Line(to: worker.address)
        try client.send("POST /own HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok")
        client.finishSending()
        try worker.turn(untilReadable: client)
        #expect(try client.receiveMessage().body == "ok")
        worker.end()
        client.close()
    }

    /// An answer that has begun goes on in either case.
    @Test func anAnswerThatHasBegunGoesOn() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var worker = try SteppedWorker(forwardingTo: listener, settings: Self.settings { $0.cancelsOnHalfClose = true })
        defer {
            worker.end()
            listener.close()
        }
        let client = try Line(to: worker.address)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try worker.accept(listener)
        try worker.turn(untilReadable: upstream)
        _ = try upstream.receiveMessage()
        try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha")
        try worker.turn(untilReadable: client)
        _ = try client.receive(until: "ha")
        client.finishSending()
        for _ in 0..<5 { worker.turn(waiting: 10) }
        try upstream.send("lf")
        #expect(try String(decoding: worker.takeAll(client), as: UTF8.self) == "lf")
        upstream.close()
    }

    /// Then the body timeout alone holds: both sides talk, and the client listens.
    @Test func theLeastRateEndsWhereTheAnswerBegins() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var worker = try SteppedWorker(forwardingTo: listener, settings: Self.settings { $0.bodyRate = 240 })
        defer {
            worker.end()
            listener.close()
        }
        let client = try Line(to: worker.address)
        try client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
        let upstream = try worker.accept(listener)
        try worker.turn(untilReadable: upstream)
        try upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        try worker.turn(untilReadable: client)
        _ = try client.receive(until: "1\r\na\r\n")
        for _ in 0..<25 { worker.pass(milliseconds: 1_000) }
        #expect(!client.isReady(milliseconds: 0))
        try upstream.send("1\r\nb\r\n")
        try worker.turn(untilReadable: client)
        #expect(try client.receive(until: "b\r\n") == "1\r\nb\r\n")
        for _ in 0..<10 { worker.pass(milliseconds: 1_000) }
        #expect(try worker.takeAll(client).isEmpty)
        upstream.close()
        client.close()
    }

    /// Whole frames in what has come: type, stream and the first word of the payload.
    private static func frames(_ bytes: [UInt8]) -> [(type: UInt8, stream: UInt8, word: Int)] {
        var (frames, rest): ([(type: UInt8, stream: UInt8, word: Int)], ArraySlice<UInt8>) = ([], bytes[...])
        while rest.count >= 9 {
            let count = rest.prefix(3).reduce(0) { $0 << 8 | Int($1) }
            let at = rest.startIndex
            frames.append((rest[at + 3], rest[at + 8], rest.dropFirst(9).prefix(min(count, 4)).reduce(0) { $0 << 8 | Int($1) }))
            rest = rest.dropFirst(9 + count)
        }
        return frames
    }

    /// Uploads that the upstream does not take have used up the connection's window, so that another cannot send.
    @Test func aClientWhoseConnectionHasNoWindowIsNotLate() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var rule = HTTP2Bench.rule
        rule.timeoutMilliseconds = 100_000
        let settings = Self.settings {
            $0.bodyRate = 240
            $0.http2 = HTTP2Bounds(connectionWindow: 65_536)
        }
        var worker = try SteppedWorker(
            [rule], upstreams: [HTTP2Bench.snapshot([listener.localAddress()])], settings: settings, allowsHTTP2: true)
        defer {
            worker.end()
            listener.close()
        }
        // POST / of http://a
        let head: [UInt8] = [0x83, 0x84, 0x86, 0x01, 0x01, UInt8(ascii: "a")]
        let client = try Line(to: worker.address)
        try client.send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + HTTP2Upstream.frame(4, 0, 0) + HTTP2Upstream.frame(1, 4, 1, head))
        let upstream = try worker.acceptHTTP2(listener, settings: [(4, 0)])
        var seen: [UInt8] = []
        var (window, stream, left) = (65_535, UInt8(1), 0)
        repeat {
            if left == 0 {
                stream += 2
                left = 65_535
                try client.send(HTTP2Upstream.frame(1, 4, Int(stream), head))
            }
            let count = min(window, left, 16_384)
            try client.send(
                HTTP2Upstream.frame(0, 0, Int(stream), [UInt8](repeating: 120, count: count))
                    + HTTP2Upstream.frame(6, 0, 0, [UInt8](repeating: stream, count: 8)))
            (window, left) = (window - count, left - count)
            var new: [UInt8] = []
            repeat {
                try worker.turn(untilReadable: client)
                new += try #require(try client.receive())
            } while Self.frames(new).last?.type != 6
            for frame in Self.frames(new) where frame.type == 8 && frame.stream == 0 { window += frame.word }
        } while window > 0
        func heads() throws -> [UInt8] {
            while client.isReady(milliseconds: 0) { seen += try #require(try client.receive()) }
            return Self.frames(seen).filter { $0.type == 1 }.map(\.stream)
        }
        for _ in 0..<15 { worker.pass(milliseconds: 1_000) }
        #expect(try heads() == [])
        // With the window it has to send.
        try upstream.greet([(4, 1 << 20)])
        for _ in 0..<30 { worker.pass(milliseconds: 1_000) }
        #expect(try heads().contains(1))
        client.close()
    }
}
