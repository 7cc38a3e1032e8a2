import Credentials
import Gate
import Glibc
import HTTP
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Deadlines of gRPC (`grpc-timeout`), on a clock that the test moves.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct DeadlineTests {
    private let listener: Socket

    init() throws { listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!) }

    private func request(_ timeout: String, body: String? = "0\r\n\r\n") -> String {
        "POST /S/M HTTP/1.1\r\nHost: h\r\nContent-Type: application/grpc\r\n\(timeout)Transfer-Encoding: chunked\r\n\r\n\(body ?? "")"
    }

    /// A client's request, as it came to the upstream.
    private func begin(
        _ stepped: inout SteppedWorker, _ timeout: String, body: String? = "0\r\n\r\n"
    ) throws -> (client: Line, upstream: Line, head: String) {
        let client = try Line(to: stepped.address)
        try client.send(request(timeout, body: body))
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        return (client, upstream, try upstream.receive(until: body == nil ? "\r\n\r\n" : "0\r\n\r\n"))
    }

    private let head = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n"

    @Test func withoutAnAnswerTheClientIsToldWhenItsTimeIsOver() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let (client, upstream, head) = try begin(&stepped, "grpc-timeout: 2S\r\n")
        #expect(head.value(of: "grpc-timeout").map { $0 > "01900000u" && $0 < "02000000u" } == true, "\(head)")
        stepped.pass(milliseconds: 1_900)
        #expect(!client.isReady(milliseconds: 0))
        stepped.pass(milliseconds: 120)
        let answer = try client.receiveMessage()
        #expect(answer.status == 200 && answer.value(of: "grpc-status") == "4" && answer.contentLength == 0)
        #expect(answer.value(of: "Content-Type") == "application/grpc" && answer.value(of: "grpc-message") != nil)
        #expect(try upstream.receive() == nil, "nothing is left for the upstream to do")
        #expect(stepped.worker.upstreams.connections.count == 0 && stepped.worker.exchanges.count == 0)
        for line in [client, upstream] { line.close() }
    }

    @Test func anAnswerThatHasBegunEndsWithTheStatusAsTrailers() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let (client, upstream, _) = try begin(&stepped, "grpc-timeout: 2S\r\n")
        try upstream.send(head + "3\r\nabc\r\n")
        try stepped.turn(untilReadable: client)
        #expect(try client.receive(until: "abc\r\n").contains("\r\n3\r\nabc"))
        stepped.pass(milliseconds: 2_020)
        let end = try client.receive(until: "\r\n\r\n")
        #expect(end.hasPrefix("0\r\ngrpc-status: 4\r\ngrpc-message: "))
        // The connection serves the next request.
        try client.send(request(""))
        let next = try stepped.accept(listener)
        try stepped.turn(untilReadable: next)
        for line in [client, upstream, next] { line.close() }
    }

    @Test func anAnswerOfAnnouncedLengthIsCut() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let (client, upstream, _) = try begin(&stepped, "grpc-timeout: 2S\r\n")
        try upstream.send("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 100\r\n\r\npart")
        try stepped.turn(untilReadable: client)
        stepped.pass(milliseconds: 2_020)
        let all = try client.receiveAll()
        #expect(all.text.hasSuffix("part"))
        for line in [client, upstream] { line.close() }
    }

    @Test func aRequestThatHasNotAllArrivedIsEndedToo() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let (client, upstream, _) = try begin(&stepped, "grpc-timeout: 500m\r\n", body: nil)
        stepped.pass(milliseconds: 520)
        #expect(try client.receiveMessage().value(of: "grpc-status") == "4")
        for line in [client, upstream] { line.close() }
    }

    @Test func aDeadlineDoesNotOutliveItsRequest() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let (client, upstream, _) = try begin(&stepped, "grpc-timeout: 1S\r\n")
        try upstream.send(ExchangeTests.ok)
        try stepped.turn(untilReadable: client)
        _ = try client.receiveMessage()
        // The next request has the exchange of the first.
        try client.send(request(""))
        try stepped.turn(untilReadable: upstream)
        _ = try upstream.receive(until: "0\r\n\r\n")
        stepped.pass(milliseconds: 3_000)
        #expect(!client.isReady(milliseconds: 0))
        try upstream.send(ExchangeTests.ok)
        try stepped.turn(untilReadable: client)
        #expect(try client.receiveMessage().status == 200)
        for line in [client, upstream] { line.close() }
    }

    @Test func aTimeoutOfAnOrdinaryRequestIsOnlyAField() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let client = try Line(to: stepped.address)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\ngrpc-timeout: 1S\r\n\r\n")
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        #expect(try upstream.receiveMessage().value(of: "grpc-timeout") == "1S")
        stepped.pass(milliseconds: 2_000)
        #expect(!client.isReady(milliseconds: 0))
        for line in [client, upstream] { line.close() }
    }

    @Test(arguments: ["99999999H", "99999999n"])
    func anExtremeTimeoutIsATime(_ timeout: String) throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let (client, upstream, _) = try begin(&stepped, "grpc-timeout: \(timeout)\r\n")
        if timeout.hasSuffix("H") { try upstream.send(ExchangeTests.ok) } else { stepped.pass(milliseconds: 200) }
        try stepped.turn(untilReadable: client)
        #expect(try client.receiveMessage().status == 200)
        for line in [client, upstream] { line.close() }
    }

    /// A handshake may claim to be a call: its deadline then ends the WebSocket.
    @Test func aWebSocketThatClaimsToBeACallIsCut() throws {
        var stepped = try SteppedWorker(forwardingTo: listener, takesWebSockets: true)
        defer { stepped.end() }
        let (client, upstream) = try stepped.openWebSocket(to: listener, fields: "Content-Type: application/grpc\r\ngrpc-timeout: 2S\r\n")
        stepped.pass(milliseconds: 2_020)
        stepped.pass(milliseconds: 3_000)
        stepped.pass(milliseconds: 3_000)
        #expect(stepped.worker.exchanges.count == 0 && stepped.worker.downstream.clients.count == 0)
        let next = try Line(to: stepped.address)
        try next.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let served = try stepped.accept(listener)
        for line in [client, upstream, next, served] { line.close() }
    }

    /// The same on a stream of HTTP/2, where trailers could end an ordinary call.
    @Test func aWebSocketOfHTTP2ThatClaimsToBeACallIsEnded() throws {
        var stepped = try SteppedWorker(forwardingTo: listener, takesWebSockets: true, allowsHTTP2: true)
        defer { stepped.end() }
        let client = try Line(to: stepped.address)
        var isValue = true
        var fields: [UInt8] = []
        for word in [
            ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/chat", ":authority", "h",
            "sec-websocket-version", "13", "content-type", "application/grpc", "grpc-timeout", "2S",
        ] {
            // A literal without indexing: a zero, then the name and the value with their lengths.
            if isValue { fields.append(0) }
            isValue.toggle()
            fields.append(UInt8(word.utf8.count))
            fields.append(contentsOf: Array(word.utf8))
        }
        let head: [UInt8] = [0, 0, UInt8(fields.count), 1, 4, 0, 0, 0, 1] + fields
        try client.send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0] + head)
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        let sent = try upstream.receive(until: "\r\n\r\n")
        let key = try #require(sent.value(of: "Sec-WebSocket-Key"))
        let hash = Digest.sha1(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8).rawBytes)
        let accept = Base64.encode(hash.rawBytes, isPadded: true)
        try upstream.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: \(accept)\r\n\r\n")
        try stepped.turn { worker in
            for index in worker.exchanges.indices where worker.exchanges[index].state.phase == .tunnel { return true }
            return false
        }
        stepped.pass(milliseconds: 2_020)
        #expect(stepped.worker.exchanges.count == 0)
        // Frames that come behind the end reach nothing.
        try client.send([0, 0, 6, 0, 0, 0, 0, 0, 1, 0x81, 0x80, 1, 2, 3, 4])
        stepped.turn(waiting: 1_000)
        stepped.pass(milliseconds: 3_000)
        stepped.pass(milliseconds: 3_000)
        for line in [client, upstream] { line.close() }
    }

    @Test func theRoutesTimeoutStillCounts() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let (client, upstream, _) = try begin(&stepped, "grpc-timeout: 1H\r\n")
        stepped.pass(milliseconds: 20_100)
        #expect(try client.receiveMessage().value(of: "grpc-status") == "4")
        for line in [client, upstream] { line.close() }
    }

    @Test func aLateDeadlineIsKeptOverALongTime() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let (client, upstream, _) = try begin(&stepped, "grpc-timeout: 2M\r\n")
        try upstream.send(head)
        try stepped.turn(untilReadable: client)
        _ = try client.receive(until: "\r\n\r\n")
        for _ in 0..<118 {
            try upstream.send("1\r\nx\r\n")
            try stepped.turn(untilReadable: client)
            _ = try client.receive(until: "x\r\n")
            stepped.pass(milliseconds: 1_000)
        }
        #expect(!client.isReady(milliseconds: 0))
        stepped.pass(milliseconds: 2_020)
        #expect(try client.receive(until: "\r\n\r\n").hasPrefix("0\r\ngrpc-status: 4\r\n"))
        for line in [client, upstream] { line.close() }
    }

    @Test func aRequestThatWaitsForItsUserIsEnded() throws {
        var rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0))
        rule.upstreamSpeaksHTTP2 = true
        let rules = [rule]
        let bench = try Bench(rules: rules)
        defer { bench.end() }
        let trust = Trust(issuers: [Bench.issuer("tollgate", isOwn: true)])
        bench.worker.mailbox.post(.adoptPolicy(try Policy(rules: rules, trust: trust, hasAccounts: true)))
        bench.worker.settle()
        let user = "0193a1b2-0000-7000-8000-000000000001"
        let bearer = "Authorization: Bearer \(Bench.token(user))\r\n"
        let client = try bench.client()
        // The exchange has carried a request of another form before.
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try client.receiveMessage().status == 401)
        try client.send(request("grpc-timeout: 200m\r\n\(bearer)"))
        #expect(bench.isAsked(1))
        let answer = try client.receiveMessage()
        #expect(answer.status == 200 && answer.value(of: "grpc-status") == "4" && answer.value(of: "X-Request-Id")?.isEmpty == false)
        #expect(bench.worker.samples("tollgate_http_requests_total").contains { $0.contains("code_class=\"5xx\"") && $0.hasSuffix(" 1") })
        bench.worker.mailbox.post(.learnedUsers([UserTier(user: TokenUser(user), status: .noAccount, version: 1)]))
        bench.worker.settle()
        let next = try bench.client()
        try next.send(request("grpc-timeout: 9S\r\n\(bearer)"))
        let upstream = try bench.accept()
        _ = try upstream.receive(until: "0\r\n\r\n")
        for line in [client, next, upstream] { line.close() }
    }

    @Test func anAnswerThatBreaksOffEndsWithUnavailable() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let (client, upstream, _) = try begin(&stepped, "")
        try upstream.send(head + "3\r\nabc\r\n")
        try stepped.turn(untilReadable: client)
        _ = try client.receive(until: "abc\r\n")
        upstream.close()
        try stepped.turn(untilReadable: client)
        #expect(try client.receive(until: "\r\n\r\n").hasPrefix("0\r\ngrpc-status: 14\r\n"))
        client.close()
    }

    @Test func eachAttemptIsToldTheTimeThatIsLeft() throws {
        var slices = UpstreamHead()
        var exchange = Exchange()
        exchange.attempt.replay.append("POST /S/M HTTP/1.1\r\nHost: a\r\ngrpc-timeout: " as StaticString)
        slices.timeout = Slice(start: exchange.attempt.replay.count, count: 9)
        exchange.attempt.replay.append("00000000n\r\n\r\nbody" as StaticString)
        slices.prefix = Slice(start: 5, count: 0)
        slices.host = Slice(start: 26, count: 1)
        exchange.attempt.head = slices
        exchange.request.deadline = MonotonicTime(nanoseconds: 10_000_000_000)
        exchange.renewTimeout(at: MonotonicTime(nanoseconds: 1_000_000_000))
        #expect(exchange.attempt.replay.readable.text.contains("\r\ngrpc-timeout: 09000000u\r\n\r\nbody"))
        let longer = UpstreamAddress(address: .unix("/u"), authority: "backend.example.org", pathPrefix: "/base")
        exchange.attempt.readdress(to: EndpointIndex(pool: 0, number: 1), at: longer)
        exchange.renewTimeout(at: MonotonicTime(nanoseconds: 9_999_000_000))
        #expect(
            exchange.attempt.replay.readable.text
                == "POST /base/S/M HTTP/1.1\r\nHost: backend.example.org\r\ngrpc-timeout: 01000000n\r\n\r\nbody")
        exchange.renewTimeout(at: MonotonicTime(nanoseconds: 11_000_000_000))
        #expect(exchange.attempt.replay.readable.text.contains("grpc-timeout: 00000001n"))
    }
}
