import Credentials
import Gate
import Glibc
import Telemetry
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Requests whose expired token is being refreshed wait for that, for a bounded time, and delay no other request.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct AwaitedRefreshTests {
    private static let rules = [RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0))]

    /// A worker that takes every caller on this machine for an internal one.
    private func begin(_ settings: WorkerSettings = WorkerSettings()) throws -> Bench {
        let bench = try Bench(rules: Self.rules)
        try adopt(settings, bench)
        return bench
    }

    private func adopt(_ settings: WorkerSettings, _ bench: Bench) throws {
        let inside = [CIDR(parsing: "127.0.0.0/8")].compactMap { $0 }
        let policy = try Policy(
            rules: Self.rules, trust: Trust(issuers: [Bench.issuer("login")]),
            internals: [InternalCaller(name: "here", networks: inside)], refreshers: ["login"])
        var labels = MetricLabels(WorkerTelemetry.words)
        labels.declare(routes: ["all"], upstreams: ["back"], tiers: ["free", "premium"], issuers: ["login"])
        let snapshot = RunningWorker.upstream("back", [try bench.upstream.localAddress()])
        bench.worker.mailbox.post(.adopt(policy, [snapshot], settings, labels))
        bench.worker.settle()
    }

    private static func head(_ method: String, _ path: String, _ user: String = "u", _ more: String = "") -> String {
        "\(method) \(path) HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(Bench.token(user, expiresAt: 1_000))\r\nX-Refresh-Token: r\r\n\(more)\r\n"
    }

    private static func tokens(_ user: String = "u") -> TokenRefreshOutcome {
        .refreshed(RefreshedTokens(access: Array(Bench.token(user).utf8), refresh: Array("r2".utf8)))
    }

    @Test func aConnectionWhoseRequestWaitsCountsAsIdle() throws {
        let bench = try begin()
        defer { bench.end() }
        let client = try bench.client()
        try client.send(Self.head("GET", "/a"))
        #expect(bench.isAsked(1))
        #expect(bench.worker.samples("tollgate_connections{state=\"idle\"}") == ["tollgate_connections{state=\"idle\"} 1"])
        bench.asked.reply(0, Self.tokens())
        let upstream = try bench.accept()
        #expect(bench.worker.samples("tollgate_connections{state=\"active\"}") == ["tollgate_connections{state=\"active\"} 1"])
        client.close()
        upstream.close()
    }

    @Test func aClientHoldsItsShareOfTheRefreshes() throws {
        var settings = WorkerSettings()
        settings.maxRefreshes = 5
        settings.clientShare = ShareRule(percent: 80)
        let bench = try begin(settings)
        defer { bench.end() }
        let clients = try (0..<5).map { _ in try bench.client() }
        for (number, client) in clients.enumerated() { try client.send(Self.head("GET", "/a", "u\(number)")) }
        #expect(bench.isAsked(4))
        for _ in 0..<30_000 where !clients.contains(where: { $0.isReady(milliseconds: 0) }) { usleep(1_000) }
        let refused = try #require(clients.first { $0.isReady(milliseconds: 0) })
        #expect(try refused.receiveMessage().status == 503)
        #expect(
            bench.worker.samples("tollgate_overload_sheds_total{reason=\"share\"}") == ["tollgate_overload_sheds_total{reason=\"share\"} 1"]
        )
        for client in clients { client.close() }
    }

    @Test func aBodyAndWhatIsPipelinedBehindItGoOnInOrder() throws {
        let bench = try begin()
        defer { bench.end() }
        let client = try bench.client()
        try client.send(
            Self.head("POST", "/a", "u", "Content-Length: 5\r\n") + "abcde" + Self.head("POST", "/b", "u", "Content-Length: 3\r\n") + "xyz")
        #expect(bench.isAsked(1))
        bench.asked.reply(0, Self.tokens())
        let upstream = try bench.accept()
        for (index, body) in ["abcde", "xyz"].enumerated() {
            if index > 0 {
                #expect(bench.isAsked(2))
                bench.asked.reply(1, Self.tokens())
            }
            let request = try upstream.receiveMessage()
            #expect(request.body == body && request.contains("X-User-Id: u\r\n") && !request.contains("X-Refresh-Token"))
            try upstream.send(ExchangeTests.ok)
            let answer = try client.receiveMessage()
            #expect(answer.body == "ok" && answer.contains("X-New-Refresh-Token: r2\r\n"))
        }
        client.close()
        upstream.close()
    }

    /// Far more than sockets hold: what has no place to go stays with the client.
    @Test func aLongBodyIsNotReadMeanwhile() throws {
        let bench = try begin()
        defer { bench.end() }
        let client = try bench.client()
        let count = 32 << 20
        try client.send(Self.head("POST", "/a", "u", "Content-Length: \(count)\r\n"))
        #expect(bench.isAsked(1))
        let sent = client.sendWhatGoes([UInt8](repeating: 7, count: count), waiting: 500)
        #expect(sent < count)
        #expect(bench.worker.census.bytes < 256 * 1_024)
        bench.asked.reply(0, .refused)
        #expect(try client.receiveMessage().status == 401)
        client.close()
    }

    @Test func whoGoesAwayMeanwhileHoldsNobodyUp() throws {
        let bench = try begin()
        defer { bench.end() }
        let (leaver, other) = (try bench.client(), try bench.client())
        try leaver.send(Self.head("GET", "/a"))
        #expect(bench.isAsked(1))
        try other.send(Self.head("GET", "/b", "v"))
        #expect(bench.isAsked(2))
        leaver.socket.resetOnClose()
        leaver.close()
        #expect(bench.worker.census { $0.clients == 1 }.clients == 1)
        bench.asked.reply(0, Self.tokens())
        bench.asked.reply(1, .unavailable(retryAfterSeconds: 3))
        let answer = try other.receiveMessage()
        #expect(answer.status == 503 && answer.contains("Retry-After: 3\r\n"))
        other.close()
    }

    /// An answer that comes after its request was given up is dropped; the next request on that connection does not get it.
    @Test func anAnswerThatIsLateIsNotTheNextRequests() throws {
        var settings = WorkerSettings()
        settings.refreshTimeout = 100
        let bench = try begin(settings)
        defer { bench.end() }
        let client = try bench.client()
        try client.send(Self.head("GET", "/a", "u"))
        let given = try client.receiveMessage()
        #expect(given.status == 503 && given.contains("Retry-After: 1\r\n"))
        settings.refreshTimeout = 60_000
        try adopt(settings, bench)
        try client.send(Self.head("GET", "/b", "v"))
        #expect(bench.isAsked(2))
        bench.asked.reply(0, Self.tokens("u"))
        bench.worker.settle()
        #expect(!client.isReady(milliseconds: 50))
        bench.asked.reply(1, .refused)
        let answer = try client.receiveMessage()
        #expect(answer.status == 401 && !answer.contains("X-New-"))
        client.close()
    }
}
