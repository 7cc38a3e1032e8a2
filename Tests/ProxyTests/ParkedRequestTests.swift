import Credentials
import Gate
import Synchronization
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Requests of users who are not in the tier cache wait for the lookup, and no longer.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct ParkedRequestTests {
    private static let user = "0193a1b2-0000-7000-8000-000000000001"
    private static let key = {
        let secret: StaticString = "0123456789abcdef0123456789abcdef"
        do { return try SigningKey(secret: secret.rawBytes) } catch { preconditionFailure("\(error)") }
    }()

    /// A worker in front of one upstream, with two routes, one of them for a tier alone.
    private final class Station {
        let worker: RunningWorker
        let upstream: Socket
        let asked = Names()

        final class Names: Sendable { let all = Mutex<[String]>([]) }

        init() throws {
            upstream = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
            var premium = RouteRule(name: "premium", path: "/premium", isPrefix: false, target: .upstream(0))
            premium.tier = Tier(rawValue: 1)
            let rules = [RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0)), premium]
            let asked = asked
            worker = try RunningWorker(
                rules, upstreams: [RunningWorker.upstream("back", [upstream.localAddress()])],
                lookUpUser: { user in asked.all.withLock { $0.append(user) } })
            var own = TrustedIssuer(
                name: "tollgate", issuer: "own", audiences: [], algorithms: .hmac, keys: KeySet([key.verificationKey]))
            own.isOwn = true
            worker.mailbox.post(.adoptPolicy(try Policy(rules: rules, trust: Trust(issuers: [own]), hasAccounts: true)))
            worker.settle()
        }

        func client() throws -> Line { try Line(to: worker.address) }
        func accept() throws -> Line { try Line(acceptedFrom: upstream) }

        func end() {
            worker.stop()
            upstream.close()
        }

        func learn(_ status: TierStatus) {
            worker.mailbox.post(.learnedUsers([UserTier(user: user, status: status, version: 1)]))
        }

        /// Waits until so many lookups were asked for.
        func isAsked(_ count: Int) -> Bool {
            let asked = asked
            return worker.census { _ in asked.all.withLock { $0.count } >= count }.turns > 0 && asked.all.withLock { $0.count } == count
        }
    }

    private static func head(_ method: String, _ path: String, _ more: String = "") -> String {
        var claims = TokenClaims(issuer: "own", audience: nil, subject: user, issuedAt: 0, expiresAt: 4_000_000_000)
        claims.tier = "premium"
        do {
            return "\(method) \(path) HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(try key.issue(claims))\r\n\(more)\r\n"
        } catch {
            preconditionFailure("\(error)")
        }
    }

    @Test func itGoesOnWhenTheStandingIsKnown() throws {
        let station = try Station()
        defer { station.end() }
        let client = try station.client()
        try client.send(Self.head("GET", "/a"))
        #expect(station.isAsked(1))
        station.learn(.tier(.lowest, until: .max))
        let upstream = try station.accept()
        let request = try upstream.receiveMessage()
        #expect(request.hasPrefix("GET /a ") && request.contains("X-User-Id: \(Self.user)\r\n") && request.contains("X-User-Tier: free\r\n"))
        try upstream.send(ExchangeTests.ok)
        #expect(try client.receiveMessage().body == "ok")
        // Known from now on, on this connection and on others.
        try client.send(Self.head("GET", "/premium"))
        #expect(try client.receiveMessage().status == 403)
        station.learn(.tier(Tier(rawValue: 1), until: .max))
        station.worker.settle()
        try client.send(Self.head("GET", "/premium"))
        #expect(try upstream.receiveMessage().contains("X-User-Tier: premium\r\n"))
        try upstream.send(ExchangeTests.ok)
        #expect(try client.receiveMessage().status == 200)
        #expect(station.isAsked(1))
        client.close()
        upstream.close()
    }

    @Test func aBodyAndWhatIsPipelinedBehindItWaitToo() throws {
        let station = try Station()
        defer { station.end() }
        let client = try station.client()
        try client.send(
            Self.head("POST", "/a", "Content-Length: 5\r\n") + "abcde" + Self.head("POST", "/b", "Content-Length: 3\r\n") + "xyz")
        #expect(station.isAsked(1))
        station.learn(.noAccount)
        let upstream = try station.accept()
        for body in ["abcde", "xyz"] {
            #expect(try upstream.receiveMessage().body == body)
            try upstream.send(ExchangeTests.ok)
            #expect(try client.receiveMessage().body == "ok")
        }
        client.close()
        upstream.close()
    }

    @Test func aBodyThatComesLaterIsWaitedFor() throws {
        let station = try Station()
        defer { station.end() }
        let client = try station.client()
        try client.send(Self.head("POST", "/a", "Content-Length: 5\r\n"))
        #expect(station.isAsked(1))
        try client.send("ab")
        station.learn(.noAccount)
        try client.send("cde")
        let upstream = try station.accept()
        #expect(try upstream.receiveMessage().body == "abcde")
        try upstream.send(ExchangeTests.ok)
        #expect(try client.receiveMessage().body == "ok")
        client.close()
        upstream.close()
    }

    @Test func manyRequestsOfOneUserAskOnce() throws {
        let station = try Station()
        defer { station.end() }
        let clients = try (0..<20).map { _ in try station.client() }
        for client in clients { try client.send(Self.head("GET", "/premium")) }
        #expect(station.worker.census { $0.exchanges == 20 }.clients == 20)
        #expect(station.isAsked(1))
        station.learn(.tier(.lowest, until: .max))
        for client in clients {
            #expect(try client.receiveMessage().status == 403)
            client.close()
        }
    }

    /// A connection counts as active from when its request goes on.
    @Test func itsConnectionCountsAsIdle() throws {
        let station = try Station()
        defer { station.end() }
        let client = try station.client()
        try client.send(Self.head("GET", "/a"))
        #expect(station.isAsked(1))
        #expect(station.worker.samples("tollgate_connections{state=\"idle\"}") == ["tollgate_connections{state=\"idle\"} 1"])
        station.learn(.noAccount)
        let upstream = try station.accept()
        #expect(station.worker.samples("tollgate_connections{state=\"active\"}") == ["tollgate_connections{state=\"active\"} 1"])
        client.close()
        upstream.close()
    }

    @Test func whoGoesAwayMeanwhileHoldsNobodyUp() throws {
        let station = try Station()
        defer { station.end() }
        let (leaver, other) = (try station.client(), try station.client())
        try leaver.send(Self.head("GET", "/premium"))
        try other.send(Self.head("GET", "/premium"))
        #expect(station.worker.census { $0.exchanges == 2 }.clients == 2)
        leaver.close()
        station.learn(.tier(.lowest, until: .max))
        #expect(try other.receiveMessage().status == 403)
        #expect(station.worker.census { $0.clients == 1 }.clients == 1)
        other.close()
    }

    @Test func whatWaitsIsJudgedByWhatHoldsWhenItGoesOn() throws {
        let station = try Station()
        defer { station.end() }
        let client = try station.client()
        try client.send(Self.head("GET", "/a"))
        #expect(station.isAsked(1))
        let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0))
        station.worker.mailbox.post(.adoptPolicy(try Policy(rules: [rule], trust: Trust(issuers: []))))
        station.learn(.noAccount)
        #expect(try client.receiveMessage().status == 401)
        client.close()
    }
}
