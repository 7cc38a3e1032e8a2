import Gate
import Glibc
import HTTP
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Workers hold each client to its share of what all share. For whole floods see the end-to-end tests.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct ShareDriverTests {
    private static let request = "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n"
    private static let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
    private static let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: .none)

    private func listen() throws -> Socket { try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!) }

    @Test func oneClientHoldsItsShareOfThoseThatWaitForConnections() throws {
        let listener = try listen()
        defer { listener.close() }
        let back = RunningWorker.upstream("back", [try listener.localAddress()]) { $0.maxPending = 5 }
        var settings = WorkerSettings()
        settings.clientShare = ShareRule(percent: 80)
        var worker = try SteppedWorker([Self.rule], upstreams: [back], settings: settings)
        // All come in one turn, before a connection can stand.
        let clients = try (0..<8).map { _ in try Line(to: worker.address) }
        worker.turn(waiting: 100)
        for client in clients { try client.send(Self.request) }
        try worker.turn { _ in clients.count { $0.isReady(milliseconds: 0) } == 4 }
        for client in clients where client.isReady(milliseconds: 0) { #expect(try client.receiveMessage().status == 503) }
        for client in clients { client.close() }
        while worker.worker.exchanges.count > 0 { worker.turn(waiting: 10) }
        #expect(back.connections.requests.pending.value == 0)
        let left = worker.worker.downstream.shares.count
        #expect(left == 0, "no client holds anything")
        worker.end()
    }

    /// A stream beyond the share of its client goes on counting as a request.
    @Test func oneClientHoldsItsShareOfTheStreams() throws {
        let listener = try listen()
        defer { listener.close() }
        var settings = WorkerSettings()
        settings.clientShare = ShareRule(percent: 80)
        settings.maxClients = 5
        settings.limitRequests(10, workers: 1)
        let bounds = LoadBounds()
        let proxies = [CIDR(parsing: "127.0.0.0/8")].compactMap { $0 }
        let worker = try RunningWorker(
            [Self.rule], upstreams: [RunningWorker.upstream("back", [try listener.localAddress()])], settings: settings, proxies: proxies,
            bounds: bounds)
        defer { worker.stop() }
        var lines: [Line] = []
        for number in 1...5 {
            let client = try Line(to: worker.address)
            try client.send(Self.request)
            let upstream = try Line(acceptedFrom: listener)
            _ = try upstream.receiveMessage()
            try upstream.send(Self.stream)
            _ = try client.receive(until: "data: 1\n\n\r\n")
            lines += [client, upstream]
            #expect(bounds.requests.count == (number == 5 ? 1 : 0))
        }
        for line in lines { line.close() }
        for _ in 0..<30_000 where bounds.requests.count > 0 || worker.census.exchanges > 0 { usleep(1_000) }
        #expect(bounds.requests.count == 0)
    }

    /// Handlers hold the share of the client that called them; each kind of endpoint has slots of its own.
    @Test func oneClientHoldsItsShareOfTheHandlers() throws {
        let called = SharedCount()
        let (waits, opened) = AsyncStream.makeStream(of: Void.self)
        let own: LocalHandler = { _ in
            _ = called.acquire(within: .max)
            for await _ in waits { break }
            return LocalResponse(status: 200, contentType: "text/plain", body: [])
        }
        let document: LocalHandler = { _ in LocalResponse(status: 200, contentType: "text/plain", body: []) }
        let listener = try listen()
        defer { listener.close() }
        var settings = WorkerSettings()
        settings.clientShare = ShareRule(percent: 80)
        settings.maxLocalRequests = 5
        let rules = ["/own", "/document"].enumerated().map { number, path in
            RouteRule(name: "r\(number)", path: path, isPrefix: false, target: .local(UInt16(number)), auth: .none)
        }
        var worker = try SteppedWorker(
            rules, upstreams: [], settings: settings, local: [own, document], services: { $0.localKinds = [1: .documents] })
        let clients = try (0..<6).map { _ in try Line(to: worker.address) }
        for client in clients { try client.send("GET /own HTTP/1.1\r\nHost: h\r\n\r\n") }
        try worker.turn { _ in clients.count { $0.isReady(milliseconds: 0) } == 2 && called.value == 4 }
        for client in clients where client.isReady(milliseconds: 0) { #expect(try client.receiveMessage().status == 503) }
        let other = try Line(to: worker.address)
        try other.send("GET /document HTTP/1.1\r\nHost: h\r\n\r\n")
        try worker.turn(untilReadable: other)
        #expect(try other.receiveMessage().status == 200)
        opened.finish()
        try worker.turn { _ in clients.count { $0.isReady(milliseconds: 0) } == 4 }
        for client in clients + [other] { client.close() }
        try worker.turn { $0.load.bounds.local(.other).count == 0 && $0.downstream.shares.count == 0 }
        worker.end()
    }
}
