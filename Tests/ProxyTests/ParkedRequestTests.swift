import Credentials
import Gate
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Requests of users who are not in the tier cache wait for the lookup, and no longer.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct ParkedRequestTests {
    private static let user = "0193a1b2-0000-7000-8000-000000000001"
    /// A worker with two routes, one of them for a tier alone.
    private func begin() throws -> Bench {
        var premium = RouteRule(name: "premium", path: "/premium", isPrefix: false, target: .upstream(0))
        premium.tier = Tier(rawValue: 1)
        let rules = [RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0)), premium]
        let bench = try Bench(rules: rules)
        let trust = Trust(issuers: [Bench.issuer("tollgate", isOwn: true)])
        bench.worker.mailbox.post(.adoptPolicy(try Policy(rules: rules, trust: trust, hasAccounts: true)))
        bench.worker.settle()
        return bench
    }

    private func learn(_ status: TierStatus, _ bench: Bench) {
        bench.worker.mailbox.post(.learnedUsers([UserTier(user: TokenUser(Self.user), status: status, version: 1)]))
    }

    private static func head(_ method: String, _ path: String, _ more: String = "") -> String {
        "\(method) \(path) HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \(Bench.token(user, tier: "premium"))\r\n\(more)\r\n"
    }

    @Test func itGoesOnWhenTheStandingIsKnown() throws {
        let bench = try begin()
        defer { bench.end() }
        let client = try bench.client()
        try client.send(Self.head("GET", "/a"))
        #expect(bench.isAsked(1))
        learn(.tier(.lowest, until: .max), bench)
        let upstream = try bench.accept()
        let request = try upstream.receiveMessage()
        #expect(
            request.hasPrefix("GET /a ") && request.contains("X-User-Id: \(Self.user)\r\n") && request.contains("X-User-Tier: free\r\n"))
        try upstream.send(ExchangeTests.ok)
        #expect(try client.receiveMessage().body == "ok")
        // Known from now on, on this connection and on others.
        try client.send(Self.head("GET", "/premium"))
        #expect(try client.receiveMessage().status == 403)
        learn(.tier(Tier(rawValue: 1), until: .max), bench)
        bench.worker.settle()
        try client.send(Self.head("GET", "/premium"))
        #expect(try upstream.receiveMessage().contains("X-User-Tier: premium\r\n"))
        try upstream.send(ExchangeTests.ok)
        #expect(try client.receiveMessage().status == 200)
        #expect(bench.isAsked(1))
        client.close()
        upstream.close()
    }

    @Test func aBodyAndWhatIsPipelinedBehindItWaitToo() throws {
        let bench = try begin()
        defer { bench.end() }
        let client = try bench.client()
        try client.send(
            Self.head("POST", "/a", "Content-Length: 5\r\n") + "abcde" + Self.head("POST", "/b", "Content-Length: 3\r\n") + "xyz")
        #expect(bench.isAsked(1))
        learn(.noAccount, bench)
        let upstream = try bench.accept()
        for body in ["abcde", "xyz"] {
            #expect(try upstream.receiveMessage().body == body)
            try upstream.send(ExchangeTests.ok)
            #expect(try client.receiveMessage().body == "ok")
        }
        client.close()
        upstream.close()
    }

    @Test func aBodyThatComesLaterIsWaitedFor() throws {
        let bench = try begin()
        defer { bench.end() }
        let client = try bench.client()
        try client.send(Self.head("POST", "/a", "Content-Length: 5\r\n"))
        #expect(bench.isAsked(1))
        try client.send("ab")
        learn(.noAccount, bench)
        try client.send("cde")
        let upstream = try bench.accept()
        #expect(try upstream.receiveMessage().body == "abcde")
        try upstream.send(ExchangeTests.ok)
        #expect(try client.receiveMessage().body == "ok")
        client.close()
        upstream.close()
    }

    @Test func manyRequestsOfOneUserAskOnce() throws {
        let bench = try begin()
        defer { bench.end() }
        let clients = try (0..<20).map { _ in try bench.client() }
        for client in clients { try client.send(Self.head("GET", "/premium")) }
        #expect(bench.worker.census { $0.exchanges == 20 }.clients == 20)
        #expect(bench.isAsked(1))
        learn(.tier(.lowest, until: .max), bench)
        for client in clients {
            #expect(try client.receiveMessage().status == 403)
            client.close()
        }
    }

    /// A connection counts as active from when its request goes on.
    @Test func itsConnectionCountsAsIdle() throws {
        let bench = try begin()
        defer { bench.end() }
        let client = try bench.client()
        try client.send(Self.head("GET", "/a"))
        #expect(bench.isAsked(1))
        #expect(bench.worker.samples("tollgate_connections{state=\"idle\"}") == ["tollgate_connections{state=\"idle\"} 1"])
        learn(.noAccount, bench)
        let upstream = try bench.accept()
        #expect(bench.worker.samples("tollgate_connections{state=\"active\"}") == ["tollgate_connections{state=\"active\"} 1"])
        client.close()
        upstream.close()
    }

    @Test func whoGoesAwayMeanwhileHoldsNobodyUp() throws {
        let bench = try begin()
        defer { bench.end() }
        let (leaver, other) = (try bench.client(), try bench.client())
        try leaver.send(Self.head("GET", "/premium"))
        try other.send(Self.head("GET", "/premium"))
        #expect(bench.worker.census { $0.exchanges == 2 }.clients == 2)
        leaver.close()
        learn(.tier(.lowest, until: .max), bench)
        #expect(try other.receiveMessage().status == 403)
        #expect(bench.worker.census { $0.clients == 1 }.clients == 1)
        other.close()
    }

    @Test func whatWaitsIsJudgedByWhatHoldsWhenItGoesOn() throws {
        let bench = try begin()
        defer { bench.end() }
        let client = try bench.client()
        try client.send(Self.head("GET", "/a"))
        #expect(bench.isAsked(1))
        let rule = RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0))
        bench.worker.mailbox.post(.adoptPolicy(try Policy(rules: [rule], trust: Trust(issuers: []))))
        learn(.noAccount, bench)
        #expect(try client.receiveMessage().status == 401)
        client.close()
    }
}
