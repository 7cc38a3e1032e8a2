import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Cancelled requests on an upstream's HTTP/2 connection that all clients share.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct ResetBudgetTests {
    /// Frames that have come, up to the answer to a PING of the upstream.
    private func frames(_ upstream: HTTP2Upstream, _ worker: inout SteppedWorker) throws -> [HTTP2Upstream.Frame] {
        try upstream.send(HTTP2Upstream.ping, 0, 0, Array("marker!!".utf8))
        var frames: [HTTP2Upstream.Frame] = []
        while true {
            try worker.turn { _ in upstream.isReady(milliseconds: 0) }
            let frame = try upstream.next()
            if frame.type == HTTP2Upstream.ping, frame.flags == 1 { return frames }
            frames.append(frame)
        }
    }

    private func resets(_ frames: [HTTP2Upstream.Frame]) -> [Int] { frames.filter { $0.type == HTTP2Upstream.reset }.map(\.stream) }

    @Test func cancelledRequestsAreResetWithinABudget() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var worker = try SteppedWorker([HTTP2Bench.rule], upstreams: [HTTP2Bench.snapshot([listener.localAddress()])])
        defer {
            worker.end()
            listener.close()
        }
        let other = try Line(to: worker.address)
        try other.send("POST /other HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n1")
        let upstream = try worker.acceptHTTP2(listener)
        let clients = try (0..<60).map { _ in
            let client = try Line(to: worker.address)
            try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            return client
        }
        try worker.turn { $0.exchanges.count == 61 }
        for client in clients { client.reset() }
        try worker.turn { $0.exchanges.count == 1 }
        let first = resets(try frames(upstream, &worker))
        #expect(first.count == 15)
        // An answer that nothing waits for is dropped, and then needs no reset.
        let open = Array(stride(from: 3, through: 121, by: 2)).filter { !first.contains($0) }
        try upstream.answer(open[0], String(repeating: "x", count: 16_000))
        _ = try frames(upstream, &worker)
        for second in 1...3 {
            worker.pass(milliseconds: 1_001)
            let next = resets(try frames(upstream, &worker))
            #expect(next == Array(open.dropFirst(3 * second - 2).prefix(3)))
        }
        // The other client's request was under way all the time.
        try other.send("2")
        try worker.turn { _ in upstream.isReady(milliseconds: 0) }
        try upstream.answer(1, "done")
        try worker.turn(untilReadable: other)
        #expect(try other.receiveMessage().body == "done")
        // No request is left on it: its end cancels all that are still open.
        try worker.turn { _ in upstream.isReady(milliseconds: 0) }
        #expect(try upstream.isClosed())
        other.close()
    }

    @Test func aRequestWhoseEndComesApartKeepsItApart() throws {
        let bench = try HTTP2Bench()
        defer { bench.end() }
        let client = try bench.client("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        let upstream = try bench.accept()
        let request = try upstream.request()
        #expect(!request.ends)
        let end = try upstream.next(HTTP2Upstream.data)
        #expect(end.payload.isEmpty && end.endsStream)
        try upstream.answer(request.stream)
        #expect(try client.receiveMessage().status == 200)
        client.close()
    }
}
