import Gate
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

    /// Requests of `client`, whose cancelled ones leave streams open.
    private func requests(_ count: Int, of client: Int, to worker: borrowing SteppedWorker) throws -> [Line] {
        try (0..<count).map { _ in
            let line = try Line(to: worker.address)
            try line.send("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.0.0.\(client)\r\n\r\n")
            return line
        }
    }

    /// Of 40 streams, one client has at most 32 under way or given up, and of the 15 resets at most 12.
    @Test func streamsOfCancelledRequestsCountForTheirClient() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var settings = WorkerSettings()
        settings.clientShare = ShareRule(percent: 80)
        let back = try HTTP2Bench.snapshot([listener.localAddress()]) { $0.maxConnections = 1 }
        let proxies = [CIDR(parsing: "127.0.0.0/8")].compactMap { $0 }
        var worker = try SteppedWorker([HTTP2Bench.rule], upstreams: [back], settings: settings, proxies: proxies)
        defer {
            worker.end()
            listener.close()
        }
        var others = try requests(1, of: 2, to: worker)
        let upstream = try worker.acceptHTTP2(listener, settings: [(3, 40)])
        for refused in [8, 28] {
            let flood = try requests(40, of: 1, to: worker)
            try worker.turn { _ in flood.count { $0.isReady(milliseconds: 0) } == refused }
            for line in flood { line.reset() }
            try worker.turn { $0.exchanges.count == 1 }
        }
        #expect(try resets(frames(upstream, &worker)).count == 12)
        let carried = back.connections.requests.carried.value
        #expect(carried == 33)
        // Another client finds streams and resets, also at once behind those that wait for one.
        others += try requests(4, of: 2, to: worker)
        try worker.turn { $0.exchanges.count == 5 }
        others.removeLast().reset()
        try worker.turn { $0.exchanges.count == 4 }
        let seen = try frames(upstream, &worker)
        #expect(seen.count { $0.type == HTTP2Upstream.headers } == 4)
        #expect(resets(seen).count == 1)
        worker.pass(milliseconds: 1_001)
        #expect(try resets(frames(upstream, &worker)).count == 3)
        // Abandoned streams count no more when their answers end.
        for stream in stride(from: 1, through: 97, by: 2) { try upstream.answer(stream) }
        try worker.turn { _ in others.allSatisfy { $0.isReady(milliseconds: 0) } }
        for line in others { line.close() }
        try worker.turn { $0.exchanges.count == 0 && $0.downstream.shares.count == 0 }
        let left = back.connections.requests.carried.value
        #expect(left == 0)
    }

    /// All of them find room on the next connection.
    @Test func streamsOfALostConnectionCountNoMore() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        let back = try HTTP2Bench.snapshot([listener.localAddress()]) { $0.maxConnections = 1 }
        var worker = try SteppedWorker([HTTP2Bench.rule], upstreams: [back])
        defer {
            worker.end()
            listener.close()
        }
        let first = try requests(1, of: 1, to: worker)[0]
        let upstream = try worker.acceptHTTP2(listener, settings: [(3, 30)])
        try upstream.answer(1)
        try worker.turn(untilReadable: first)
        let clients = try requests(30, of: 1, to: worker)
        try worker.turn { $0.exchanges.count == 30 }
        upstream.line.close()
        let next = try worker.acceptHTTP2(listener, settings: [(3, 30)])
        #expect(try frames(next, &worker).count { $0.type == HTTP2Upstream.headers } == 30)
        for line in clients + [first] { line.close() }
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
