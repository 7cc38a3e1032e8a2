import Gate
import Glibc
import HTTP
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Upstreams with `http2=on`: many requests on one connection.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct HTTP2UpstreamTests {
    static let post = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"

    // MARK: the pool

    @Test func requestsShareOneConnection() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let clients = try (0..<5).map { try bench.ask("/\($0)") }
        let upstream = try bench.accept()
        let requests = try (0..<5).map { _ in try upstream.request() }
        #expect(requests.map(\.stream) == [1, 3, 5, 7, 9])
        #expect(requests.count(where: \.ends) == 5, "END_STREAM is on the head of a request without content")
        for request in requests.reversed() { try upstream.answer(request.stream, String(request.head.prefix(6))) }
        for (index, client) in clients.enumerated() {
            #expect(try client.receiveMessage().body == "GET /\(index)")
            client.close()
        }
        #expect(bench.opensNoMore)
        #expect(bench.isAtRest())
        #expect(bench.worker.samples("tollgate_upstream_connections").contains { $0.contains("idle") && $0.hasSuffix(" 1") })
    }

    @Test func theRequestIsThatOfHTTP1() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.client(
            "GET /a?b HTTP/1.1\r\nHost: example.org\r\nTE: trailers\r\nX-One: 1\r\nx-one: 2\r\nConnection: keep-alive, X-Hop\r\nX-Hop: h\r\nX-User-Id: root\r\n\r\n"
        )
        let upstream = try bench.accept()
        let request = try upstream.request()
        #expect(request.head.hasPrefix("GET /a?b HTTP/1.1\r\nhost: example.org\r\n"))
        #expect(request.head.contains("\r\nte: trailers\r\n"))
        #expect(request.head.contains("\r\nx-one: 1\r\nx-one: 2\r\n"))
        #expect(!request.head.contains("x-hop") && !request.head.contains("connection") && !request.head.contains("root"))
        #expect(request.head.contains("\r\nx-forwarded-for: 127.0.0.1\r\n"))
        try upstream.answer(request.stream)
        #expect(try client.receiveMessage().status == 200)
        client.close()
    }

    @Test func requestsWaitForTheConnectionUnderWayUntilItHasGreeted() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let clients = try (0..<5).map { try bench.ask("/\($0)") }
        let upstream = try bench.accept(nil)
        #expect(bench.opensNoMore)
        #expect(bench.worker.census { $0.exchanges == 5 }.exchanges == 5)
        clients[2].reset()
        #expect(bench.worker.census { $0.exchanges == 4 }.exchanges == 4)
        try upstream.greet()
        for _ in 0..<4 { try upstream.answer(upstream.request().stream) }
        for index in [0, 1, 3, 4] {
            #expect(try clients[index].receiveMessage().status == 200)
            clients[index].close()
        }
        #expect(bench.isAtRest())
    }

    @Test func aFullConnectionIsFollowedByAnother() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let clients = try (0..<3).map { try bench.ask("/\($0)") }
        let first = try bench.accept([(3, 1)])
        let others = try [bench.accept([(3, 1)]), bench.accept([(3, 1)])]
        for upstream in [first] + others {
            let request = try upstream.request()
            #expect(request.stream == 1)
            try upstream.answer(1, String(request.head.prefix(6)))
        }
        for (index, client) in clients.enumerated() { #expect(try client.receiveMessage().body == "GET /\(index)") }
        // All three have room again.
        let next = try bench.ask("/next")
        #expect(bench.opensNoMore)
        for line in clients + [next] { line.close() }
        #expect(bench.isAtRest())
    }

    @Test func aRequestBeyondAllStreamsAndConnectionsIsRefused() throws {
        let bench = try HTTP2Bench { $0.maxConnections = 1 }
        defer { bench.end() }
        let first = try bench.ask("/1")
        let upstream = try bench.accept([(3, 1)])
        let request = try upstream.request()
        let second = try bench.ask("/2")
        #expect(try second.receiveMessage().status == 503)
        try upstream.answer(request.stream)
        #expect(try first.receiveMessage().status == 200)
        try first.send("GET /3 HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try upstream.request().stream == 3)
        first.close()
        second.close()
        #expect(bench.isAtRest())
    }

    @Test func anUpstreamThatTakesNoStreamsIsUnavailable() throws {
        let bench = try HTTP2Bench { $0.retries = 0 }
        defer { bench.end() }
        let client = try bench.ask("/")
        let upstream = try bench.accept([(3, 0)])
        #expect(try client.receiveMessage().status == 503)
        client.close()
        upstream.line.close()
        #expect(bench.isAtRest())
    }

    @Test func anAddressThatIsGoneIsLeftWithItsLastAnswer() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.ask("/1")
        let old = try bench.accept()
        let request = try old.request()
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        bench.worker.mailbox.post(.resolved(upstream: "back", [UpstreamAddress(address: try listener.localAddress(), speaksHTTP2: true)]))
        bench.worker.settle()
        let second = try bench.ask("/2")
        let new = try HTTP2Upstream(Line(acceptedFrom: listener))
        try new.answer(new.request().stream)
        #expect(try second.receiveMessage().status == 200)
        try old.answer(request.stream)
        #expect(try client.receiveMessage().status == 200)
        #expect(try old.isClosed())
        client.close()
        second.close()
        #expect(bench.isAtRest())
    }

    // MARK: bodies

    @Test func bothBodiesStreamAndBothTrailersArrive() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.client("POST / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        let upstream = try bench.accept()
        let request = try upstream.request()
        #expect(!request.head.contains("content-length"))
        #expect(try upstream.next(HTTP2Upstream.data).text == "one", "without its chunk")
        try upstream.sendHead(request.stream, [(":status", "200"), ("content-type", "text/plain")])
        try upstream.sendData(request.stream, "uno")
        #expect(try client.receive(until: "3\r\nuno\r\n").hasPrefix("HTTP/1.1 200 "))
        try client.send("3\r\ntwo\r\n0\r\nX-Sum: 6\r\nX-User-Id: root\r\n\r\n")
        #expect(try upstream.next(HTTP2Upstream.data).text == "two")
        let trailers = try upstream.next(HTTP2Upstream.headers)
        #expect(trailers.endsStream)
        #expect(try upstream.head(trailers, as: .trailers) == "x-sum: 6\r\n\r\n")
        try upstream.sendHead(request.stream, [("grpc-status", "0")], ends: true)
        #expect(try client.receive(until: "0\r\ngrpc-status: 0\r\n\r\n").isEmpty == false)
        client.close()
        #expect(bench.isAtRest())
    }

    @Test func interimAnswersPassAndHEADHasNoContent() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.client("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        let stream = try upstream.request().stream
        try upstream.sendHead(stream, [(":status", "103"), ("link", "</a>")])
        try upstream.sendHead(stream, [(":status", "200"), ("content-length", "7")], ends: true)
        #expect(try client.receiveMessage().contains("link: </a>"))
        let answer = try client.receive(until: "\r\n\r\n")
        #expect(answer.status == 200 && answer.value(of: "Content-Length") == "7")
        // The connection of the client is kept.
        try client.send("GET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
        try upstream.answer(upstream.request().stream)
        #expect(try client.receiveMessage().body == "ok")
        client.close()
    }

    /// A head that was parsed before its stream has its turn is that of its own stream, however the frames of others come between.
    @Test(arguments: 0..<6) func answersThatComeAtOnceKeepTheirHeads(_ seed: UInt64) throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        var random = SplitMix64(seed: seed)
        let clients = try (0..<6).map { try bench.ask("/\($0)") }
        let upstream = try bench.accept()
        var frames = try (0..<6).map { _ in
            let request = try upstream.request()
            let path = String(request.head.dropFirst(5).prefix(1))
            var frames: [() throws -> Void] = [
                { try upstream.sendHead(request.stream, [(":status", "21\(path)"), ("x-path", path), ("content-length", "4")]) },
                { try upstream.sendData(request.stream, "\(path)\(path)") },
                { try upstream.sendData(request.stream, "\(path)\(path)", ends: true) },
            ]
            if Int(path)! % 2 == 0 {
                frames.insert({ try upstream.sendHead(request.stream, [(":status", "103"), ("link", path)]) }, at: 0)
            }
            return frames
        }
        try upstream.atOnce {
            while let index = frames.indices.filter({ !frames[$0].isEmpty }).randomElement(using: &random) {
                try frames[index].removeFirst()()
            }
        }
        for (path, client) in clients.enumerated() {
            if path % 2 == 0 { #expect(try client.receiveMessage().contains("link: \(path)\r\n")) }
            let answer = try client.receiveMessage()
            #expect(answer.status == 210 + path && answer.value(of: "x-path") == "\(path)")
            #expect(answer.body == String(repeating: "\(path)", count: 4))
        }
        for client in clients { client.close() }
        #expect(bench.isAtRest())
    }

    @Test func anUpstreamThatOpensNoWindowHoldsBackOneBody() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.client(Self.post)
        let upstream = try bench.accept([(4, 0)])
        let stream = try upstream.request().stream
        let other = try bench.ask("/other")
        try upstream.answer(upstream.request().stream)
        #expect(try other.receiveMessage().status == 200)
        try upstream.send(HTTP2Upstream.windowUpdate, 0, stream, HTTP2Upstream.word(3))
        #expect(try upstream.next(HTTP2Upstream.data).text == "hel")
        try upstream.send(HTTP2Upstream.windowUpdate, 0, stream, HTTP2Upstream.word(100))
        let rest = try upstream.next(HTTP2Upstream.data)
        #expect(rest.text == "lo")
        if !rest.endsStream { #expect(try upstream.next(HTTP2Upstream.data).endsStream) }
        try upstream.answer(stream)
        #expect(try client.receiveMessage().status == 200)
        for line in [client, other] { line.close() }
        #expect(bench.isAtRest())
    }

    @Test func aSlowReaderOfOneStreamHoldsBackOnlyIt() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let slow = try Line(to: bench.worker.address, receiveBuffer: 4_096)
        try slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        let stream = try upstream.request().stream
        try upstream.sendHead(stream, [(":status", "200")])
        // As much as the windows allow, which grow while the client's socket takes all.
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
        #expect(sent < 8 << 20)
        let other = try bench.ask("/other")
        try upstream.answer(upstream.request().stream)
        #expect(try other.receiveMessage().status == 200)
        // The slow one goes on when it reads.
        var received = 0
        while received < sent { received += try slow.receive()?.count ?? sent }
        try upstream.sendData(stream, "end", ends: true)
        #expect(try slow.receive(until: "0\r\n\r\n").contains("end"))
        for line in [slow, other] { line.close() }
        #expect(bench.isAtRest())
    }

    @Test func anEarlyAnswerEndsTheUpload() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.client("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhello")
        let upstream = try bench.accept()
        let stream = try upstream.request().stream
        #expect(try upstream.next(HTTP2Upstream.data).text == "hello")
        try upstream.answer(stream, "too large", status: 413)
        #expect(try client.receiveMessage().status == 413)
        #expect(try upstream.next(HTTP2Upstream.reset).stream == stream)
        // The connection goes on.
        let other = try bench.ask("/other")
        try upstream.answer(upstream.request().stream)
        #expect(try other.receiveMessage().status == 200)
        for line in [client, other] { line.close() }
        #expect(bench.isAtRest())
    }

    // MARK: health checks

    @Test func healthChecksSpeakHTTP2() throws {
        let verdicts = Questions()
        let bench = try HTTP2Bench(probes: true) {
            $0.health = .path("/healthz")
            $0.healthInterval = 3_000
        } healthChanged: { _, _, isHealthy in
            if !isHealthy { verdicts.add { _ in } }
        }
        defer { bench.end() }
        for status in [200, 500, 503] {
            let upstream = try bench.accept()
            let request = try upstream.request()
            #expect(request.head.hasPrefix("GET /healthz HTTP/1.1\r\n") && request.head.contains("user-agent: tollgate-health"))
            try upstream.sendHead(request.stream, [(":status", "\(status)")], ends: true)
            #expect(try upstream.isClosed())
        }
        #expect(bench.worker.census { _ in verdicts.count > 0 }.turns > 0 && verdicts.count == 1)
    }

    // MARK: memory

    @Test func aWaitingStreamIsSmall() {
        #expect(MemoryLayout<UpstreamConnection>.stride <= 1_024)
    }
}
