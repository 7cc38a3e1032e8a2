import Gate
import HTTP
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// WebSockets through a worker, with every byte in the hands of the test.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct WebSocketTests {
    static let handshake =
        "GET /chat HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    static let acceptance =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"

    private func bench(settings: WorkerSettings = WorkerSettings(), _ change: (inout RouteRule) -> Void = { _ in }) throws -> Bench {
        try Bench(
            {
                $0.takesWebSockets = true; change(&$0)
            }, settings: settings)
    }

    /// An open WebSocket: the client's end and the upstream's.
    private func open(_ bench: Bench, client given: Line? = nil) throws -> (client: Line, upstream: Line) {
        let client = try given ?? bench.client()
        try client.send(Self.handshake + "\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receive(until: "\r\n\r\n")
        try upstream.send(Self.acceptance + "\r\n")
        #expect(try client.receiveHead().status == 101)
        return (client, upstream)
    }

    private func finish(_ bench: Bench, _ lines: Line...) {
        for line in lines { line.close() }
        #expect(bench.worker.census { $0.isAtRest }.isAtRest)
        bench.end()
    }

    func frame(_ first: UInt8, _ payload: [UInt8], masked: Bool) -> [UInt8] {
        let length: [UInt8] = payload.count < 126 ? [UInt8(payload.count)] : [126, UInt8(payload.count >> 8), UInt8(payload.count & 255)]
        return [first, length[0] | (masked ? 128 : 0)] + length.dropFirst() + (masked ? [1, 2, 3, 4] : []) + payload
    }

    /// The close frame of the gateway.
    func close(_ code: UInt16, _ reason: String, masked: Bool) -> [UInt8] {
        let payload = [UInt8(code >> 8), UInt8(code & 255)] + Array(reason.utf8)
        return [0x88, UInt8(payload.count) | (masked ? 128 : 0)] + (masked ? [0, 0, 0, 0] : []) + payload
    }

    // MARK: the handshake

    @Test func theHandshakeGoesOnWithoutTheTokenAndIsAnsweredBearer() throws {
        let bench = try bench { $0.auth = .none }
        let client = try bench.client()
        try client.send(Self.handshake + "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Extensions: x\r\nCookie: a=b\r\n\r\n")
        let upstream = try bench.accept()
        let head = try upstream.receive(until: "\r\n\r\n")
        for (name, value) in [
            ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Protocol", "chat"), ("Sec-WebSocket-Extensions", "x"),
            ("Cookie", "a=b"),
        ] { #expect(head.value(of: name) == value) }
        #expect(head.headLines.count { $0.lowercased().hasPrefix("sec-websocket-key") } == 1)
        try upstream.send(Self.acceptance + "Sec-WebSocket-Protocol: chat\r\nSet-Cookie: c=d\r\n\r\n")
        let answer = try client.receiveHead()
        #expect(answer.status == 101 && answer.value(of: "Sec-WebSocket-Accept") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        #expect(answer.value(of: "Upgrade") == "websocket" && answer.value(of: "Connection") == "Upgrade")
        #expect(answer.value(of: "Sec-WebSocket-Protocol") == "chat" && answer.value(of: "Set-Cookie") == "c=d")
        finish(bench, client, upstream)
    }

    @Test(arguments: [
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        acceptance + "Sec-WebSocket-Protocol: unasked\r\n\r\n",
        acceptance + "Sec-WebSocket-Extensions: unasked\r\n\r\n",
    ])
    func anAnswerThatDoesNotAcceptTheHandshakeIsABadOne(_ answer: String) throws {
        let bench = try bench()
        let client = try bench.client()
        try client.send(Self.handshake + "Sec-WebSocket-Protocol: chat\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receive(until: "\r\n\r\n")
        try upstream.send(answer)
        #expect(try client.receiveMessage().status == 502)
        #expect(try upstream.receiveAll().text == "")
        finish(bench, client, upstream)
    }

    @Test func a101WithoutAHandshakeIsABadAnswer() throws {
        let bench = try bench()
        let client = try bench.client()
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receive(until: "\r\n\r\n")
        try upstream.send(Self.acceptance + "\r\n")
        #expect(try client.receiveMessage().status == 502)
        finish(bench, client, upstream)
    }

    @Test func aRefusedHandshakeLeavesTheConnectionToHTTP() throws {
        let bench = try bench()
        let client = try bench.client()
        // The bytes behind the handshake are a request of its own, never for the upstream.
        try client.send(Self.handshake + "\r\nGET /second HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        let first = try upstream.receive(until: "\r\n\r\n")
        #expect(first.hasPrefix("GET /chat ") && !first.contains("/second"))
        try upstream.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nno")
        #expect(try client.receiveMessage().status == 403)
        #expect(try upstream.receive(until: "\r\n\r\n").hasPrefix("GET /second "))
        try upstream.send(ExchangeTests.ok)
        #expect(try client.receiveMessage().body == "ok")
        finish(bench, client, upstream)
    }

    @Test(arguments: [
        (handshake + "Content-Length: 5\r\n\r\nhello", 400), (handshake + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (handshake.replacing("13", with: "12") + "\r\n", 426), (handshake.replacing("GET", with: "POST") + "\r\n", 400),
        (handshake.replacing("Connection: Upgrade\r\n", with: "") + "\r\n", 400),
        (handshake.replacing("HTTP/1.1", with: "HTTP/1.0") + "\r\n", 400),
    ])
    func aBrokenHandshakeReachesNoUpstream(_ head: String, _ status: Int) throws {
        let bench = try bench()
        let client = try bench.client()
        try client.send(head)
        let answer = try client.receiveMessage()
        #expect(answer.status == status)
        if status == 426 { #expect(answer.value(of: "Sec-WebSocket-Version") == "13" && answer.value(of: "Upgrade") == "websocket") }
        #expect(!Line(bench.upstream).isReady(milliseconds: 50))
        finish(bench, client)
    }

    @Test func elsewhereTheUpgradeIsRemovedAndTheListThatMayHoldTheToken() throws {
        let bench = try Bench()
        let client = try bench.client()
        try client.send(Self.handshake + "Sec-WebSocket-Protocol: bearer, secret\r\n\r\n")
        let upstream = try bench.accept()
        let head = try upstream.receive(until: "\r\n\r\n")
        #expect(head.value(of: "Upgrade") == nil && head.value(of: "Connection") == nil && head.value(of: "Sec-WebSocket-Protocol") == nil)
        try upstream.send(ExchangeTests.ok)
        #expect(try client.receiveMessage().status == 200)
        finish(bench, client, upstream)
    }

    // MARK: frames

    @Test func framesPassUnchangedByteByByte() throws {
        let bench = try bench()
        let (client, upstream) = try open(bench)
        let large = (0..<1_000).map { UInt8(truncatingIfNeeded: $0) }
        let payloads: [(UInt8, [UInt8])] = [(0x81, []), (0x01, [1]), (0x89, [9]), (0x80, large), (0x8A, []), (0x82, large)]
        let fromClient = payloads.flatMap { frame($0, $1, masked: true) }
        let fromServer = payloads.flatMap { frame($0, $1, masked: false) }
        for byte in fromClient { try client.send([byte]) }
        #expect(try upstream.take(fromClient.count) == fromClient)
        for byte in fromServer { try upstream.send([byte]) }
        #expect(try client.take(fromServer.count) == fromServer)
        finish(bench, client, upstream)
    }

    @Test func framesThatCameWithTheHandshakeWaitForItsEnd() throws {
        let bench = try bench()
        let client = try bench.client()
        let early = frame(0x81, Array("early".utf8), masked: true)
        try client.send(Array((Self.handshake + "\r\n").utf8) + early)
        let upstream = try bench.accept()
        #expect(try upstream.receive(until: "\r\n\r\n").contains("Upgrade"))
        let greeting = frame(0x81, Array("hello".utf8), masked: false)
        try upstream.send(Array((Self.acceptance + "\r\n").utf8) + greeting)
        #expect(try upstream.take(early.count) == early)
        #expect(try client.receiveHead().status == 101)
        #expect(try client.take(greeting.count) == greeting)
        finish(bench, client, upstream)
    }

    @Test func aClientThatReadsSlowlyHoldsItsUpstreamBack() throws {
        let bench = try bench()
        let slow = try Line(to: bench.worker.address, receiveBuffer: 4_096)
        let (client, upstream) = try open(bench, client: slow)
        let count = 32 << 20
        let length = withUnsafeBytes(of: UInt64(count).bigEndian) { [UInt8]($0) }
        let piece = [UInt8](repeating: 7, count: 1 << 16)
        try upstream.send([0x82, 127] + length)
        var sent = 0
        while true {
            let more = upstream.sendWhatGoes(piece, waiting: 200)
            sent += more
            guard more == piece.count else { break }
        }
        #expect(sent < count)
        let census = bench.worker.census { $0.bytes > 0 }
        #expect(census.bytes > 0 && census.bytes < 1 << 20)
        finish(bench, client, upstream)
    }

    @Test func anUpstreamThatReadsSlowlyHoldsItsClientBack() throws {
        let bench = try bench()
        let (client, upstream) = try open(bench)
        let count = 64 << 20
        let length = withUnsafeBytes(of: UInt64(count).bigEndian) { [UInt8]($0) }
        try client.send([0x82, 255] + length + [0, 0, 0, 0])
        let piece = [UInt8](repeating: 7, count: 1 << 16)
        var sent = 0
        while sent < count {
            let more = client.sendWhatGoes(piece, waiting: 200)
            sent += more
            guard more == piece.count else { break }
        }
        #expect(sent < count)
        // Meanwhile frames of the upstream pass.
        try upstream.send(frame(0x89, [], masked: false))
        #expect(try client.take(2) == [0x89, 0])
        finish(bench, client, upstream)
    }

    // MARK: faults

    @Test(
        arguments: [
            [0x81, 0x01, 0x41], [0x89, 0xFE, 0, 126, 0, 0, 0, 0], [0x09, 0x80, 0, 0, 0, 0], [0xC1, 0x80, 0, 0, 0, 0],
            [0x83, 0x80, 0, 0, 0, 0],
            [0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] as [[UInt8]])
    func aClientThatBreaksTheRulesIsClosedWith1002(_ bad: [UInt8]) throws {
        let bench = try bench()
        let (client, upstream) = try open(bench)
        let good = frame(0x81, [1, 2, 3], masked: true)
        try client.send(good + bad)
        #expect(try client.takeAll() == close(1002, "protocol error", masked: false))
        #expect(try upstream.takeAll() == good + close(1001, "going away", masked: true))
        finish(bench, client, upstream)
    }

    @Test func anUpstreamThatMasksIsClosedWith1002AndItsClientWith1014() throws {
        let bench = try bench()
        let (client, upstream) = try open(bench)
        try upstream.send(frame(0x81, [1], masked: true))
        #expect(try client.takeAll() == close(1014, "bad gateway", masked: false))
        #expect(try upstream.takeAll() == close(1002, "protocol error", masked: true))
        finish(bench, client, upstream)
    }

    @Test func aFloodOfPingsIsClosedWith1008() throws {
        let bench = try bench()
        let (client, upstream) = try open(bench)
        let ping = frame(0x89, [], masked: true)
        let pings = Array(repeating: ping, count: 1_000).flatMap(\.self)
        try client.send(pings)
        #expect(try upstream.take(pings.count) == pings)
        // However long ago the first were: more than may come at once, and in one piece, as bytes after the end would be a reset.
        try client.send(pings + pings)
        #expect(try client.takeAll() == close(1008, "abuse", masked: false))
        #expect(try upstream.takeAll().suffix(18).elementsEqual(close(1001, "going away", masked: true)))
        finish(bench, client, upstream)
    }

    @Test func reservedBitsPassOnceTheyAreNegotiated() throws {
        let bench = try bench()
        let client = try bench.client()
        try client.send(Self.handshake + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receive(until: "\r\n\r\n")
        try upstream.send(Self.acceptance + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
        _ = try client.receiveHead()
        let compressed = frame(0xC1, [1, 2], masked: true)
        try client.send(compressed)
        #expect(try upstream.take(compressed.count) == compressed)
        finish(bench, client, upstream)
    }

    // MARK: the end

    @Test func aCloseHandshakePassesAndEndsBothConnections() throws {
        let bench = try bench()
        let (client, upstream) = try open(bench)
        let asked = close(4000, "enough", masked: true), answered = close(4000, "enough", masked: false)
        try client.send(asked)
        #expect(try upstream.take(asked.count) == asked)
        try upstream.send(answered)
        #expect(try client.takeAll() == answered)
        #expect(try upstream.takeAll() == [])
        finish(bench, client, upstream)
    }

    @Test func theEndOfOneSideEndsTheOther() throws {
        let bench = try bench()
        let (client, upstream) = try open(bench)
        let last = frame(0x81, [1, 2, 3], masked: true)
        try client.send(last)
        client.close()
        #expect(try upstream.takeAll() == last)
        let (other, service) = try open(bench)
        let news = frame(0x81, [4, 5], masked: false)
        try service.send(news)
        service.close()
        #expect(try other.takeAll() == news)
        finish(bench, upstream, other)
    }

    @Test func theUpstreamsConnectionIsNotUsedAgain() throws {
        let bench = try bench()
        let (client, upstream) = try open(bench)
        client.close()
        let next = try bench.client()
        try next.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let fresh = try bench.accept()
        #expect(try fresh.receive(until: "\r\n\r\n").hasPrefix("GET / "))
        try fresh.send(ExchangeTests.ok)
        #expect(try next.receiveMessage().status == 200)
        finish(bench, upstream, next, fresh)
    }

    /// A peer that never answers the close frame does not hold the other side.
    @Test func aDrainEndsWhatOneSideHasClosed() throws {
        let bench = try bench()
        let (client, upstream) = try open(bench)
        let asked = close(1000, "", masked: true)
        try client.send(asked)
        #expect(try upstream.take(asked.count) == asked)
        bench.worker.mailbox.post(.drain(within: 60_000))
        #expect(try client.takeAll() == close(1001, "going away", masked: false))
        #expect(try upstream.takeAll() == [])
        for line in [client, upstream] { line.close() }
        bench.worker.join()
        bench.upstream.close()
    }

    @Test func aFrameThatDoesNotEndIsCutOff() throws {
        let bench = try bench()
        let (client, upstream) = try open(bench)
        try upstream.send([0x82, 100, 1])
        #expect(try client.take(3) == [0x82, 100, 1])
        bench.worker.mailbox.post(.drain(within: 60_000))
        #expect(try client.receiveAll().text == "")
        for line in [client, upstream] { line.close() }
        bench.worker.join()
        bench.upstream.close()
    }
}

extension Line {
    /// Exactly so many bytes.
    func take(_ count: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            guard let more = try receive(count - bytes.count) else { throw TestFault("ended after \(bytes)") }
            bytes += more
        }
        return bytes
    }

    /// All until the peer ends.
    func takeAll() throws -> [UInt8] {
        var bytes: [UInt8] = []
        while let more = try receive() { bytes += more }
        return bytes
    }
}
