import Gate
import HTTP
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// The bounds on an upstream's requests under way, on those that wait for a connection, and on retries: for all workers together.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct RequestBoundsTests {
    private static let request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

    private func listen() throws -> Socket { try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!) }

    private func snapshot(
        _ listener: Socket, speaksHTTP2: Bool = false, _ change: (inout UpstreamSettings) -> Void
    ) throws -> UpstreamSnapshot {
        var settings = UpstreamSettings(name: "back")
        settings.timeout = 5_000
        change(&settings)
        return UpstreamSnapshot(
            settings: settings, addresses: [UpstreamAddress(address: try listener.localAddress(), speaksHTTP2: speaksHTTP2)])
    }

    private func worker(_ snapshot: UpstreamSnapshot, _ change: (inout RouteRule) -> Void = { _ in }) throws -> SteppedWorker {
        var rule = Herd.rule
        change(&rule)
        return try SteppedWorker([rule], upstreams: [snapshot])
    }

    /// A client whose request has arrived at the upstream.
    private func begin(
        _ worker: inout SteppedWorker, _ listener: Socket, _ request: String = Self.request
    ) throws -> (client: Line, upstream: Line) {
        let client = try Line(to: worker.address)
        try client.send(request)
        let upstream = try worker.accept(listener)
        try worker.turn(untilReadable: upstream)
        _ = try upstream.receiveMessage()
        return (client, upstream)
    }

    /// A client that is refused.
    private func refused(_ worker: inout SteppedWorker) throws -> String {
        let client = try Line(to: worker.address)
        defer { client.close() }
        try client.send(Self.request)
        try worker.turn(untilReadable: client)
        return try client.receiveMessage()
    }

    @Test func requestsOfAllWorkersCountTogether() throws {
        let listener = try listen()
        defer { listener.close() }
        let back = try snapshot(listener) { $0.maxRequests = 2 }
        let count = back.connections.requests.requests
        var first = try worker(back)
        var second = try worker(back)
        let one = try begin(&first, listener)
        let other = try begin(&second, listener)
        for _ in 0..<3 {
            for answer in [try refused(&first), try refused(&second)] {
                #expect(answer.status == 503 && answer.value(of: "Retry-After") == "1")
            }
        }
        #expect(count.value == 2)
        // One ends well, the client of the other leaves.
        try one.upstream.send(ExchangeTests.ok)
        try first.turn(untilReadable: one.client)
        #expect(try one.client.receiveMessage().status == 200)
        other.client.close()
        while count.value > 0 { second.turn(waiting: 10) }
        // Both have room again.
        _ = try first.exchange(one.client, over: one.upstream, listener)
        let again = try begin(&second, listener)
        try again.upstream.send(ExchangeTests.ok)
        try second.turn(untilReadable: again.client)
        #expect(try again.client.receiveMessage().status == 200)
        #expect(count.value == 0)
        for line in [one.client, one.upstream, other.upstream, again.client, again.upstream] { line.close() }
        first.end()
        second.end()
    }

    /// Ways in which a request ends: each gives its place back.
    @Test(arguments: ["nothing", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart", "late"])
    func aRequestThatFailsGivesItsPlaceBack(_ answer: String) throws {
        let listener = try listen()
        defer { listener.close() }
        let back = try snapshot(listener) {
            $0.maxRequests = 1
            $0.maxPending = 1
            $0.retries = 2
        }
        var worker = try worker(back)
        let client = try Line(to: worker.address)
        try client.send(Self.request)
        var attempts = 0
        while !client.isReady(milliseconds: 0) {
            worker.turn(waiting: 5)
            guard Line(listener).isReady(milliseconds: 0) else { continue }
            let upstream = try Line(acceptedFrom: listener)
            try worker.turn(untilReadable: upstream)
            _ = try upstream.receiveMessage()
            #expect(back.connections.requests.requests.value == 1, "a retry is the same request")
            attempts += 1
            if answer == "late" {
                worker.pass(milliseconds: 6_000)
            } else if answer != "nothing" {
                try upstream.send(answer)
            }
            upstream.close()
        }
        #expect(attempts == (answer == "nothing" ? 3 : 1))
        client.close()
        while worker.worker.exchanges.count > 0 { worker.turn(waiting: 10) }
        let budget = back.connections.requests
        #expect([budget.requests.value, budget.pending.value, budget.retries.value] == [0, 0, 0])
        worker.end()
    }

    @Test func aWebSocketIsUnderWayUntilItsEnd() throws {
        let listener = try listen()
        defer { listener.close() }
        let back = try snapshot(listener) { $0.maxRequests = 1 }
        var worker = try worker(back)
        let handshake =
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        let (client, upstream) = try begin(&worker, listener, handshake)
        try upstream.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
        )
        try worker.turn(untilReadable: client)
        #expect(try client.receive(until: "\r\n\r\n").hasPrefix("HTTP/1.1 101"))
        #expect(try refused(&worker).status == 503)
        client.close()
        while back.connections.requests.requests.value > 0 { worker.turn(waiting: 10) }
        upstream.close()
        worker.end()
    }

    @Test func onlySoManyRequestsWaitForConnections() throws {
        let listener = try listen()
        defer { listener.close() }
        let back = try snapshot(listener) { $0.maxPending = 1 }
        var worker = try worker(back)
        // Both come in one turn, before a connection can stand.
        let clients = [try Line(to: worker.address), try Line(to: worker.address)]
        worker.turn(waiting: 100)
        for client in clients { try client.send(Self.request) }
        let upstream = try worker.accept(listener)
        try worker.turn(untilReadable: upstream)
        _ = try upstream.receiveMessage()
        #expect(back.connections.requests.pending.value == 0)
        let refused = try #require(clients.first { $0.isReady(milliseconds: 0) })
        let answer = try refused.receiveMessage()
        #expect(answer.status == 503 && answer.value(of: "Retry-After") == "1")
        // A request that has its connection waits no more, however long its answer takes.
        let other = try begin(&worker, listener)
        for line in [upstream, other.upstream] { try line.send(ExchangeTests.ok) }
        try worker.turn(untilReadable: other.client)
        for line in clients + [upstream, other.client, other.upstream] { line.close() }
        worker.end()
    }

    @Test func requestsThatWaitForAConnectionOverHTTP2ArePending() throws {
        let listener = try listen()
        defer { listener.close() }
        let back = try snapshot(listener, speaksHTTP2: true) {
            $0.maxPending = 2
            $0.maxRequests = 3
        }
        var worker = try worker(back)
        var clients = try (0..<3).map { _ in try Line(to: worker.address) }
        for client in clients { try client.send(Self.request) }
        let line = try worker.accept(listener)
        while !clients.contains(where: { $0.isReady(milliseconds: 0) }) { worker.turn(waiting: 10) }
        let number = try #require(clients.firstIndex { $0.isReady(milliseconds: 0) })
        #expect(try clients.remove(at: number).receiveMessage().status == 503)
        #expect(back.connections.requests.pending.value == 2)
        // The connection stands: the two are sent, and there is room for a third.
        try worker.turn(untilReadable: line)
        let upstream = try HTTP2Upstream(line)
        while back.connections.requests.pending.value > 0 { worker.turn(waiting: 10) }
        let third = try Line(to: worker.address)
        try third.send(Self.request)
        clients.append(third)
        while back.connections.requests.requests.value < 3 { worker.turn(waiting: 10) }
        #expect(try refused(&worker).status == 503)
        for _ in 0..<3 {
            while !upstream.isReady(milliseconds: 0) { worker.turn(waiting: 10) }
            try upstream.answer(upstream.request().stream)
        }
        for client in clients {
            try worker.turn(untilReadable: client)
            #expect(try client.receiveMessage().body == "ok")
        }
        #expect(back.connections.requests.requests.value == 0)
        for line in clients + [line] { line.close() }
        worker.end()
    }

    @Test func aClientThatLeavesWhileItsRequestWaitsGivesBothPlacesBack() throws {
        let listener = try listen()
        defer { listener.close() }
        let back = try snapshot(listener, speaksHTTP2: true) {
            $0.maxPending = 1
            $0.maxRequests = 1
        }
        var worker = try worker(back)
        let client = try Line(to: worker.address)
        try client.send(Self.request)
        let line = try worker.accept(listener)
        while back.connections.requests.pending.value == 0 { worker.turn(waiting: 10) }
        client.close()
        while back.connections.requests.pending.value + back.connections.requests.requests.value > 0 { worker.turn(waiting: 10) }
        line.close()
        worker.end()
    }

    // MARK: retries

    /// Each retry of a request is one of the budget's, not its first alone.
    @Test func aRequestThatIsRetriedOftenSpendsTheBudgetEachTime() throws {
        let listener = try listen()
        defer { listener.close() }
        let back = try snapshot(listener) {
            $0.retries = 5
            $0.retryPercent = 1
            $0.minRetries = 0
        }
        var worker = try worker(back)
        // The budget has saved ten retries: five for the first request, four for the second, one for the third.
        for (failures, status) in [(6, 502), (4, 200), (2, 502)] {
            var (client, upstream) = try begin(&worker, listener)
            for failure in 1...failures {
                upstream.close()
                guard failure < failures || status == 200 else { break }
                upstream = try worker.accept(listener)
                try worker.turn(untilReadable: upstream)
                _ = try upstream.receiveMessage()
            }
            if status == 200 { try upstream.send(ExchangeTests.ok) }
            try worker.turn(untilReadable: client)
            #expect(try client.receiveMessage().status == status)
            client.close()
            upstream.close()
        }
        worker.end()
    }

    /// Without a budget, as many retries as `retry-min` are under way at a time, in all workers.
    @Test func someRetriesMayAlwaysBeUnderWay() throws {
        let listener = try listen()
        defer { listener.close() }
        let back = try snapshot(listener) {
            $0.retryPercent = 0
            $0.minRetries = 1
        }
        var first = try worker(back)
        var second = try worker(back)
        let one = try begin(&first, listener)
        let other = try begin(&second, listener)
        one.upstream.close()
        let retried = try first.accept(listener)
        #expect(back.connections.requests.retries.value == 1)
        other.upstream.close()
        try second.turn(untilReadable: other.client)
        #expect(try other.client.receiveMessage().status == 502)
        try first.turn(untilReadable: retried)
        _ = try retried.receiveMessage()
        try retried.send(ExchangeTests.ok)
        try first.turn(untilReadable: one.client)
        #expect(try one.client.receiveMessage().status == 200)
        #expect(back.connections.requests.retries.value == 0)
        // Now the other worker may.
        let later = try begin(&second, listener)
        later.upstream.close()
        let again = try second.accept(listener)
        for line in [one.client, retried, other.client, later.client, again] { line.close() }
        first.end()
        second.end()
    }
}
