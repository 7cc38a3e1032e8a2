import Gate
import Glibc
import HTTP
import Synchronization
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// A worker's timeouts, on a clock that the test moves.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct ClockTests {
    private let listener: Socket

    init() throws { listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!) }

    // MARK: empty lines

    @Test func emptyLinesOnAnIdleConnectionBeginNoRequest() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let client = try Line(to: stepped.address)
        let upstream = try stepped.exchange(client, listener)
        for line in ["\r\n", "\r", "\n"] {
            try client.send(line)
            try Line(stepped.worker.downstream.clients[.first].connection.socket).wait(POLLIN)
            stepped.pass(milliseconds: stepped.worker.settings.headTimeout + 1_000)
        }
        _ = try stepped.exchange(client, over: upstream, listener)
        // The count begins anew with each request, and the clock with none of the lines: the end is as silent as the client.
        try client.send("\r\n")
        try Line(stepped.worker.downstream.clients[.first].connection.socket).wait(POLLIN)
        stepped.turn()
        stepped.pass(milliseconds: stepped.worker.settings.idleTimeout + 1_000)
        let all = try client.receiveAll()
        #expect(all.text == "" && all.end == .closed)
        for line in [client, upstream] { line.close() }
    }

    @Test func moreEmptyLinesThanAClientMaySendAreRefused() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let client = try Line(to: stepped.address)
        for _ in 0..<3 { try client.send("\r\n") }
        try stepped.turn(untilReadable: client)
        #expect(try client.receiveMessage().status == 400)
        client.close()
    }

    // MARK: upstreams

    /// The upstream says how long it keeps a connection: a request that is sent at its close would be lost.
    @Test func aPooledConnectionIsClosedBeforeTheUpstreamSaidItWouldBe() throws {
        for (field, kept, closed) in [
            ("Keep-Alive: timeout=5", 3_900, 200), ("Keep-Alive: max=7, Timeout=5", 3_900, 200), ("Keep-Alive: timeout=1", 400, 200),
            ("Keep-Alive: timeout=0", 0, 0), ("Keep-Alive: timeout=99999999999999999999", 59_000, 2_000),
            ("Keep-Alive: timeout=x", 59_000, 2_000),
            ("Keep-Alive: max=5", 59_000, 2_000),
        ] as [(String, UInt64, UInt64)] {
            var stepped = try SteppedWorker(forwardingTo: listener)
            defer { stepped.end() }
            let client = try Line(to: stepped.address)
            try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            let upstream = try stepped.accept(listener)
            try stepped.turn(untilReadable: upstream)
            _ = try upstream.receiveMessage()
            try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\(field)\r\n\r\nok")
            try stepped.turn(untilReadable: client)
            #expect(try client.receiveMessage().value(of: "Keep-Alive") == nil)
            if kept > 0 { stepped.pass(milliseconds: kept) }
            #expect((stepped.worker.upstreams.connections.count == 1) == (kept > 0), "\(field)")
            stepped.pass(milliseconds: closed)
            #expect(stepped.worker.upstreams.connections.count == 0, "\(field)")
            for line in [client, upstream] { line.close() }
        }
    }

    // MARK: taking

    /// The upstream's answer is larger than what the kernel holds for a client with a small window.
    @Test func aClientThatTakesTooLittleIsCutOff() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let (client, upstream) = try beginLargeAnswer(&stepped)
        // Each step takes something within the send timeout, and so little that the average is too low.
        var steps = 0
        while steps < 20, stepped.worker.downstream.clients.count == 1 {
            _ = try takeSome(client, &stepped)
            stepped.pass(milliseconds: stepped.worker.settings.sendTimeout - 1_000)
            steps += 1
        }
        #expect((1...5).contains(steps))
        // A close would leave what the kernel holds for the client there until it is taken.
        #expect(try client.receiveAll().end == .reset)
        for line in [client, upstream] { line.close() }
    }

    @Test func aClientThatIsOnlySlowTakesAllOfItsAnswer() throws {
        var stepped = try SteppedWorker(forwardingTo: listener)
        defer { stepped.end() }
        let (client, upstream) = try beginLargeAnswer(&stepped)
        for _ in 0..<30 { stepped.pass(milliseconds: try takeSome(client, &stepped)) }
        #expect(stepped.worker.downstream.clients.count == 1)
        for line in [client, upstream] { line.close() }
    }

    /// The upstream has sent all of it, and the connection is done with its request: until the client has taken the rest it does not idle.
    @Test func theRestOfAnAnswerOutlastsTheIdleTimeout() throws {
        var settings = WorkerSettings()
        settings.idleTimeout = 1_000
        var stepped = try SteppedWorker(forwardingTo: listener, settings: settings)
        defer { stepped.end() }
        let (client, upstream) = try beginRequest(&stepped)
        let content = String(repeating: "p", count: 40_000)
        try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n" + content)
        for _ in 0..<10_000 where stepped.worker.exchanges.count > 0 { stepped.turn(waiting: 1) }
        try #require(stepped.worker.exchanges.count == 0 && !stepped.worker.downstream.clients[.first].output.isEmpty)
        stepped.pass(milliseconds: settings.idleTimeout + 1_000)
        var text = ""
        for _ in 0..<10_000 where stepped.worker.downstream.clients.count == 1 && !text.hasSuffix(content) {
            if client.isReady(milliseconds: 0), let bytes = try client.receive(4_096) { text += String(decoding: bytes, as: UTF8.self) }
            stepped.turn(waiting: 1)
        }
        let isWhole = text.hasSuffix(content)
        #expect(isWhole)
        #expect(stepped.worker.downstream.clients.count == 1)
        // From then on it idles.
        stepped.pass(milliseconds: settings.idleTimeout + 1_000)
        #expect(stepped.worker.downstream.clients.count == 0)
        for line in [client, upstream] { line.close() }
    }

    /// A request at the upstream, of a client with a small window.
    private func beginRequest(_ stepped: inout SteppedWorker) throws -> (client: Line, upstream: Line) {
        let client = try Line(to: stepped.address, receiveBuffer: 4_096)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        _ = try upstream.receiveMessage()
        // The kernel holds little and tells of little at a time.
        var room: Int32 = 4_096
        let served = stepped.worker.downstream.clients[.first].connection.socket.descriptor
        setsockopt(served, SOL_SOCKET, SO_SNDBUF, &room, socklen_t(MemoryLayout<Int32>.size))
        return (client, upstream)
    }

    private func beginLargeAnswer(_ stepped: inout SteppedWorker) throws -> (client: Line, upstream: Line) {
        let (client, upstream) = try beginRequest(&stepped)
        try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        let piece = [UInt8](repeating: UInt8(ascii: "p"), count: 1 << 16)
        while stepped.worker.downstream.clients[.first].output.isEmpty {
            _ = upstream.sendWhatGoes(piece, waiting: 0)
            stepped.turn(waiting: 1)
        }
        // Enough for all that a test takes.
        for _ in 0..<16 { _ = upstream.sendWhatGoes(piece, waiting: 0) }
        return (client, upstream)
    }

    /// Receives until the worker has been able to pass on some more; answers how many bytes.
    private func takeSome(_ client: Line, _ stepped: inout SteppedWorker) throws -> UInt64 {
        let before = stepped.worker.downstream.clients[.first].taking.bytes
        for _ in 0..<10_000 where stepped.worker.downstream.clients[.first].taking.bytes == before {
            _ = try client.receive(4_096)
            stepped.turn()
        }
        let after = stepped.worker.downstream.clients[.first].taking.bytes
        guard after > before else { throw TestFault("nothing was taken") }
        return after - before
    }

    // MARK: handlers

    @Test func aHandlerMaySayHowLongItsAnswerIsKept() async throws {
        let handler: LocalHandler = { request in
            let caching: [(name: String, value: String)] = request.path == "/kept" ? [("cache-control", "max-age=60")] : []
            return LocalResponse(status: 200, contentType: "text/plain", body: [], fields: caching)
        }
        let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .local(0), auth: .none)
        var stepped = try SteppedWorker([rule], upstreams: [], local: [handler])
        defer { stepped.end() }
        for (path, caching) in [("/kept", "max-age=60"), ("/other", "no-store")] {
            let client = try Line(to: stepped.address)
            try client.send("GET \(path) HTTP/1.1\r\nHost: h\r\n\r\n")
            while !client.isReady(milliseconds: 0) {
                stepped.turn()
                await Task.yield()
            }
            let lines = try client.receiveMessage().headLines.map { $0.lowercased() }
            #expect(lines.filter { $0.hasPrefix("cache-control:") } == ["cache-control: \(caching)"])
            client.close()
        }
    }

    /// A gate in which a handler waits until the test releases it.
    private final class Held: Sendable {
        private let waiting = Mutex<CheckedContinuation<Void, Never>?>(nil)

        var isWaiting: Bool { waiting.withLock { $0 != nil } }
        func wait() async { await withCheckedContinuation { continuation in waiting.withLock { $0 = continuation } } }
        func letGo() { waiting.withLock { $0.take() }?.resume() }
    }

    @Test func aHandlerThatDoesNotReturnIsGivenUpAndItsLateAnswerReachesNobody() async throws {
        let held = Held()
        let handler: LocalHandler = { request in
            if request.path == "/held" { await held.wait() }
            return LocalResponse(status: 200, contentType: "text/plain", body: Array(request.path.utf8))
        }
        var rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .local(0), auth: .none)
        rule.errors = RunningWorker.nested
        var stepped = try SteppedWorker([rule], upstreams: [], local: [handler])
        defer { stepped.end() }
        let client = try Line(to: stepped.address)
        try client.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\nGET /next HTTP/1.1\r\nHost: h\r\n\r\n")
        // Handlers run on the tests' threads: a test that waits for one yields.
        while !held.isWaiting {
            stepped.turn()
            await Task.yield()
        }
        stepped.pass(milliseconds: stepped.worker.settings.localTimeout - 1_000)
        #expect(!client.isReady(milliseconds: 0))
        stepped.pass(milliseconds: 2_000)
        let refusal = try client.receiveMessage()
        #expect(refusal.status == 504 && refusal.body.hasPrefix("{\"error\":{"))
        held.letGo()
        while !client.isReady(milliseconds: 0) {
            stepped.turn()
            await Task.yield()
        }
        #expect(try client.receiveMessage().body == "/next")
        for _ in 0..<10 {
            stepped.turn(waiting: 1)
            await Task.yield()
        }
        #expect(!client.isReady(milliseconds: 0))
        client.close()
    }
}
