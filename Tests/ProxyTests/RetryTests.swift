import Gate
import Glibc
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// A request is sent again only as long as no byte of an answer has come.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct RetryTests {
    /// Bytes of an answer, after which the upstream closes.
    static let beginnings = [
        "nonsense\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "H", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 2",
    ]

    /// Two listeners that stand for the addresses of one upstream, each of which takes what comes.
    private struct Pair {
        let listeners: [Socket]
        let worker: RunningWorker

        init() throws {
            listeners = try (0..<2).map { _ in try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!) }
            let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
            let upstream = RunningWorker.upstream("back", try listeners.map { try $0.localAddress() }) {
                $0.retries = 3
                $0.balance = .roundRobin
                // No address comes back in the middle of a test on a busy machine.
                $0.outliers.interval = 600_000
            }
            worker = try RunningWorker([rule], upstreams: [upstream])
        }

        /// The listener at which the request arrives, and the connection.
        func accept() throws -> (Int, Line) {
            for _ in 0..<3_000 {
                for index in listeners.indices where Line(listeners[index]).isReady(milliseconds: 5) {
                    return (index, try Line(acceptedFrom: listeners[index]))
                }
            }
            throw TestFault("nothing came")
        }

        func end() {
            worker.stop()
            for listener in listeners { listener.close() }
        }
    }

    @Test(arguments: beginnings) func anAnswerThatHasBegunIsNotAskedForAgain(_ beginning: String) throws {
        let pair = try Pair()
        defer { pair.end() }
        let client = try Line(to: pair.worker.address)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let (index, upstream) = try pair.accept()
        _ = try upstream.receiveMessage()
        try upstream.send(beginning)
        upstream.close()
        var answer = try client.receiveMessage()
        if answer.status == 103 { answer = try client.receiveMessage() }
        #expect(answer.status == 502)
        for listener in pair.listeners { #expect(!Line(listener).isReady(milliseconds: 50), "asked again after address \(index)") }
        client.close()
    }

    @Test func anAnswerOfWhichNothingCameIsAskedForAgainElsewhere() throws {
        let pair = try Pair()
        defer { pair.end() }
        let client = try Line(to: pair.worker.address)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let (first, silent) = try pair.accept()
        _ = try silent.receiveMessage()
        silent.close()
        let (second, upstream) = try pair.accept()
        #expect(first != second)
        _ = try upstream.receiveMessage()
        try upstream.send(ExchangeTests.ok)
        #expect(try client.receiveMessage().body == "ok")
        client.close()
        upstream.close()
    }

    /// A connection that was used before and is closed with an answer begun is no stale one.
    @Test func aKeptConnectionThatBreaksOffInAnAnswerIsNoStaleOne() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send(ExchangeTests.ok)
        _ = try client.receiveMessage()
        try client.send("GET /second HTTP/1.1\r\nHost: h\r\n\r\n")
        _ = try upstream.receiveMessage()
        try upstream.send("HTTP/1.1 103 Early Hints\r\n\r\n")
        upstream.close()
        #expect(try client.receiveMessage().status == 103)
        #expect(try client.receiveMessage().status == 502)
        #expect(!Line(bench.upstream).isReady(milliseconds: 50))
        client.close()
    }

    /// Else a request at which the upstream closes its connection would end all that are kept, one after the other.
    @Test func aRequestThatEndsAKeptConnectionIsSentOnceMoreOnANewOne() throws {
        let bench = try Bench(upstream: { $0.retries = 0 })
        defer { bench.end() }
        let clients = try (0..<3).map { _ in try bench.client() }
        var kept: [Line] = []
        for client in clients {
            try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            kept.append(try bench.accept())
            _ = try #require(kept.last).receiveMessage()
        }
        for (client, upstream) in zip(clients, kept) {
            try upstream.send(ExchangeTests.ok)
            _ = try client.receiveMessage()
        }
        #expect(bench.worker.census { $0.idle == 3 }.idle == 3)
        try clients[0].send("GET /poison HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try kept[2].receiveMessage().hasPrefix("GET /poison "))
        kept[2].close()
        let new = try bench.accept()
        #expect(try new.receiveMessage().hasPrefix("GET /poison "))
        new.close()
        #expect(try clients[0].receiveMessage().status == 502)
        for upstream in kept.prefix(2) {
            #expect(!upstream.isReady(milliseconds: 50))
            upstream.close()
        }
        for client in clients { client.close() }
    }

    /// A malformed answer, in the head or behind it, ejects the address like a refused connection.
    @Test(arguments: [
        "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart",
    ])
    func malformedAnswersCountAgainstTheAddress(_ malformed: String) throws {
        let pair = try Pair()
        defer { pair.end() }
        var asked = [0, 0]
        for _ in 0..<40 {
            let client = try Line(to: pair.worker.address)
            try client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            let (index, upstream) = try pair.accept()
            _ = try upstream.receiveMessage()
            asked[index] += 1
            try upstream.send(index == 0 ? malformed : "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            upstream.close()
            let answer = try client.receiveAll().text
            if index == 1 { #expect(answer.hasSuffix("ok")) }
            if index == 0, malformed.hasPrefix("nonsense") { #expect(answer.status == 502) }
            client.close()
        }
        #expect(asked == [5, 35])
    }
}
