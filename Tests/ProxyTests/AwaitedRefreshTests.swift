import Credentials
import Gate
import Synchronization
import Telemetry
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Requests whose expired token is being refreshed wait for that, for a bounded time, and delay no other request.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct AwaitedRefreshTests {
    private static let key = {
        let secret: StaticString = "0123456789abcdef0123456789abcdef"
        do { return try SigningKey(secret: secret.rawBytes) } catch { preconditionFailure("\(error)") }
    }()

    /// The orders, and how they are answered.
    private final class Orders: Sendable {
        typealias Reply = @Sendable (RefreshAnswer) -> Void
        let all = Mutex<[(RefreshOrder, Reply)]>([])

        func reply(_ index: Int, _ outcome: TokenRefreshOutcome) {
            let reply = all.withLock { $0[index].1 }
            reply(RefreshAnswer(outcome, .leader))
        }

        var users: [String] { all.withLock { $0.map(\.0.user) } }
    }

    /// A worker in front of one upstream, for which everybody on this machine is an internal caller.
    private final class Station {
        let worker: RunningWorker
        let upstream: Socket
        let orders = Orders()

        init(settings: WorkerSettings = WorkerSettings()) throws {
            upstream = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
            let orders = orders
            worker = try RunningWorker(
                rules, upstreams: [RunningWorker.upstream("back", [upstream.localAddress()])],
                refresh: { order, reply in orders.all.withLock { $0.append((order, reply)) } })
            try adopt(settings)
        }

        private let rules = [RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0))]

        func adopt(_ settings: WorkerSettings) throws {
            let issuer = TrustedIssuer(
                name: "login", issuer: "i", audiences: [], algorithms: .hmac, keys: KeySet([key.verificationKey]))
            let inside = [CIDR(parsing: "127.0.0.0/8")].compactMap { $0 }
            let policy = try Policy(
                rules: rules, trust: Trust(issuers: [issuer]), internals: [InternalCaller(name: "here", networks: inside)],
                refreshers: ["login"])
            var labels = MetricLabels(WorkerTelemetry.words)
            labels.declare(routes: ["all"], upstreams: ["back"], tiers: ["free", "premium"], issuers: ["login"])
            let snapshot = RunningWorker.upstream("back", [try upstream.localAddress()])
            worker.mailbox.post(.adopt(policy, [snapshot], settings, labels))
            worker.settle()
        }

        func client() throws -> Line { try Line(to: worker.address) }
        func accept() throws -> Line { try Line(acceptedFrom: upstream) }

        func end() {
            worker.stop()
            upstream.close()
        }

        /// Waits until so many refreshes were asked for.
        func isAsked(_ count: Int) -> Bool {
            let orders = orders
            return worker.census { _ in orders.users.count >= count }.turns > 0 && orders.users.count == count
        }
    }

    private static func token(_ user: String, isOver: Bool) -> String {
        let claims = TokenClaims(issuer: "i", audience: nil, subject: user, issuedAt: 0, expiresAt: isOver ? 1_000 : 4_000_000_000)
        do { return try key.issue(claims) } catch { preconditionFailure("\(error)") }
    }

    private static func head(_ method: String, _ path: String, _ user: String = "u", _ more: String = "") -> String {
        "\(method) \(path) HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(token(user, isOver: true))\r\nX-Refresh-Token: r\r\n\(more)\r\n"
    }

    private static func tokens(_ user: String = "u") -> TokenRefreshOutcome {
        .refreshed(RefreshedTokens(access: Array(token(user, isOver: false).utf8), refresh: Array("r2".utf8)))
    }

    @Test func aConnectionWhoseRequestWaitsCountsAsIdle() throws {
        let station = try Station()
        defer { station.end() }
        let client = try station.client()
        try client.send(Self.head("GET", "/a"))
        #expect(station.isAsked(1))
        #expect(station.worker.samples("tollgate_connections{state=\"idle\"}") == ["tollgate_connections{state=\"idle\"} 1"])
        station.orders.reply(0, Self.tokens())
        let upstream = try station.accept()
        #expect(station.worker.samples("tollgate_connections{state=\"active\"}") == ["tollgate_connections{state=\"active\"} 1"])
        client.close()
        upstream.close()
    }

    @Test func aBodyAndWhatIsPipelinedBehindItGoOnInOrder() throws {
        let station = try Station()
        defer { station.end() }
        let client = try station.client()
        try client.send(
            Self.head("POST", "/a", "u", "Content-Length: 5\r\n") + "abcde" + Self.head("POST", "/b", "u", "Content-Length: 3\r\n") + "xyz")
        #expect(station.isAsked(1))
        station.orders.reply(0, Self.tokens())
        let upstream = try station.accept()
        for (index, body) in ["abcde", "xyz"].enumerated() {
            if index > 0 {
                #expect(station.isAsked(2))
                station.orders.reply(1, Self.tokens())
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
        let station = try Station()
        defer { station.end() }
        let client = try station.client()
        let count = 32 << 20
        try client.send(Self.head("POST", "/a", "u", "Content-Length: \(count)\r\n"))
        #expect(station.isAsked(1))
        let sent = client.sendWhatGoes([UInt8](repeating: 7, count: count), waiting: 500)
        #expect(sent < count)
        #expect(station.worker.census.bytes < 256 * 1_024)
        station.orders.reply(0, .refused)
        #expect(try client.receiveMessage().status == 401)
        client.close()
    }

    @Test func whoGoesAwayMeanwhileHoldsNobodyUp() throws {
        let station = try Station()
        defer { station.end() }
        let (leaver, other) = (try station.client(), try station.client())
        try leaver.send(Self.head("GET", "/a"))
        #expect(station.isAsked(1))
        try other.send(Self.head("GET", "/b", "v"))
        #expect(station.isAsked(2))
        leaver.socket.resetOnClose()
        leaver.close()
        #expect(station.worker.census { $0.clients == 1 }.clients == 1)
        station.orders.reply(0, Self.tokens())
        station.orders.reply(1, .unavailable(retryAfterSeconds: 3))
        let answer = try other.receiveMessage()
        #expect(answer.status == 503 && answer.contains("Retry-After: 3\r\n"))
        other.close()
    }

    /// An answer that comes after its request was given up is dropped; the next request on that connection does not get it.
    @Test func anAnswerThatIsLateIsNotTheNextRequests() throws {
        var settings = WorkerSettings()
        settings.refreshTimeout = 100
        let station = try Station(settings: settings)
        defer { station.end() }
        let client = try station.client()
        try client.send(Self.head("GET", "/a", "u"))
        let given = try client.receiveMessage()
        #expect(given.status == 503 && given.contains("Retry-After: 1\r\n"))
        settings.refreshTimeout = 60_000
        try station.adopt(settings)
        try client.send(Self.head("GET", "/b", "v"))
        #expect(station.isAsked(2))
        station.orders.reply(0, Self.tokens("u"))
        station.worker.settle()
        #expect(!client.isReady(milliseconds: 50))
        station.orders.reply(1, .refused)
        let answer = try client.receiveMessage()
        #expect(answer.status == 401 && !answer.contains("X-New-"))
        client.close()
    }
}
