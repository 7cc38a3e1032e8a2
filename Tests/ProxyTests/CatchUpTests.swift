import Credentials
import Gate
import Synchronization
import Telemetry
import Testing
import Transport
import Wire

@testable import Proxy

/// Requests that wait for news that the process may have missed.
@Suite(.timeLimit(.minutes(1))) struct CatchUpTests {
    /// The questions of a worker, which the test answers.
    private final class Asked: Sendable {
        private let questions = Mutex<[(news: MissedNews, done: @Sendable () -> Void)]>([])

        var news: [MissedNews] { questions.withLock { $0.map(\.news) } }

        func add(_ news: MissedNews, _ done: @escaping @Sendable () -> Void) { questions.withLock { $0.append((news, done)) } }
        func answer(_ index: Int) { questions.withLock { $0[index] }.done() }
    }

    private func worker(_ upstream: Socket, _ asked: Asked, auth: AuthMode) throws -> SteppedWorker {
        let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0), auth: auth)
        return try SteppedWorker(
            [rule], upstreams: [RunningWorker.upstream("back", [upstream.localAddress()])],
            services: { services in services.catchUp = { asked.add($0, $1) } })
    }

    /// The loop did not run for a while: nothing is decided until the change log was read.
    @Test func aLateTurnDecidesOnceTheChangesWereRead() throws {
        let upstream = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        let asked = Asked()
        var stepped = try worker(upstream, asked, auth: .none)
        stepped.worker.turnIsLate()
        #expect(asked.news == [.changes])
        let clients = try (0..<2).map { _ in try Line(to: stepped.address) }
        for client in clients { try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n") }
        try stepped.turn { $0.missedChanges.waiting.count == 2 }
        asked.answer(0)
        let line = try stepped.accept(upstream)
        #expect(!stepped.worker.missedChanges.isUnderWay)
        // The next question is not answered by a late answer to this one.
        stepped.worker.turnIsLate()
        let late = try Line(to: stepped.address)
        try late.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        try stepped.turn { $0.missedChanges.waiting.count == 1 }
        asked.answer(0)
        stepped.turn()
        #expect(stepped.worker.missedChanges.waiting.count == 1 && asked.news == [.changes, .changes])
        asked.answer(1)
        try stepped.turn { !$0.missedChanges.isUnderWay }
        for client in clients + [late] { client.close() }
        line.close()
        upstream.close()
    }

    /// The loop was stopped again before the answer was read: that may be older than the second stop. A third stop waits no longer.
    @Test func aSecondStopAsksOnceMore() throws {
        let upstream = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        let asked = Asked()
        var stepped = try worker(upstream, asked, auth: .none)
        stepped.worker.turnIsLate()
        let client = try Line(to: stepped.address)
        try client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        try stepped.turn { $0.missedChanges.waiting.count == 1 }
        asked.answer(0)
        stepped.worker.turnIsLate()
        try stepped.turn { _ in asked.news.count == 2 }
        #expect(stepped.worker.missedChanges.waiting.count == 1)
        stepped.worker.turnIsLate()
        asked.answer(1)
        let line = try stepped.accept(upstream)
        #expect(asked.news == [.changes, .changes] && !stepped.worker.missedChanges.isUnderWay)
        client.close()
        line.close()
        upstream.close()
    }

    /// Another gateway has rotated the keys. Tokens with made-up keys have them read once a second at most.
    @Test func anUnknownKeyIsAskedForOnce() throws {
        let upstream = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        let asked = Asked()
        var stepped = try worker(upstream, asked, auth: .required)
        let keys = try (0..<3).map { _ in try SigningKey.generate(.ES256) }
        func policy(_ count: Int) throws -> Policy {
            let own = TrustedIssuer(
                name: "own", issuer: "i", audiences: [], algorithms: AlgorithmSet(.ES256),
                keys: KeySet(keys[..<count].map(\.verificationKey)), isOwn: true)
            let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0))
            return try Policy(rules: [rule], trust: Trust(issuers: [own]))
        }
        let address = stepped.address
        func send(_ key: Int) throws -> Line {
            let claims = TokenClaims(issuer: "i", audience: nil, subject: "u", issuedAt: 0, expiresAt: 4_000_000_000)
            let client = try Line(to: address)
            try client.send("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(try keys[key].issue(claims))\r\n\r\n")
            return client
        }
        var labels = MetricLabels(WorkerTelemetry.words)
        labels.declare(routes: ["all"], upstreams: ["back"], tiers: ["free", "premium"], issuers: ["own"])
        stepped.worker.telemetry.adopt(labels)
        stepped.worker.admission.adopt(try policy(1))

        let (good, bad) = (try send(1), try send(2))
        try stepped.turn { $0.missedKeys.waiting.count == 2 }
        #expect(asked.news == [.ownKeys])
        stepped.worker.admission.adopt(try policy(2))
        asked.answer(0)
        let line = try stepped.accept(upstream)
        try stepped.turn(untilReadable: line)
        #expect(try line.receive(until: "\r\n\r\n").contains("GET / HTTP/1.1"))
        try stepped.turn(untilReadable: bad)
        #expect(try bad.receiveHead().status == 401)
        let next = try send(2)
        try stepped.turn(untilReadable: next)
        #expect(try next.receiveHead().status == 401)
        #expect(asked.news == [.ownKeys])
        stepped.advance(milliseconds: CatchUp.pause)
        let later = try send(2)
        try stepped.turn { $0.missedKeys.waiting.count == 1 }
        #expect(asked.news == [.ownKeys, .ownKeys])
        for line in [good, bad, next, later, line] { line.close() }
        upstream.close()
    }
}
