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
}
