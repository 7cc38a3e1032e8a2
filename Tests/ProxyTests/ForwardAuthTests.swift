import Credentials
import Gate
import Synchronization
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// Requests that a proxy describes on the check listener: answered by the worker, without an upstream.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct ForwardAuthTests {
    private static let user = "0193a1b2-0000-7000-8000-000000000001"

    private func check(_ uri: String, method: String = "GET", at path: String = "/auth/check", _ more: String = "") -> String {
        "GET \(path) HTTP/1.1\r\nHost: gate\r\nX-Forwarded-Method: \(method)\r\nX-Forwarded-Uri: \(uri)\r\n\(more)\r\n"
    }

    /// Whether the worker has not tried to reach the upstream.
    private func isUntouched(_ bench: Bench) -> Bool {
        !Line(bench.upstream).isReady(milliseconds: 20) && bench.worker.census.connections == 0
    }

    @Test func aCheckIsAnsweredWithoutAnUpstream() throws {
        let bench = try Bench()
        defer { bench.end() }
        let proxy = try Line(to: bench.worker.checkAddress)
        // Two at once, over one connection.
        try proxy.send(check("/a", "Authorization: Basic x\r\n") + check("/b"))
        let (first, second) = (try proxy.receiveMessage(), try proxy.receiveMessage())
        #expect(first.status == 200 && first.value(of: "Authorization") == "Basic x" && first.value(of: "Cache-Control") == "no-store")
        #expect(second.status == 200 && second.value(of: "Authorization") == nil && second.contentLength == 0)
        #expect(second.value(of: "X-User-Id") == nil && second.value(of: "Connection") == nil)
        #expect(isUntouched(bench))
        proxy.close()
        #expect(bench.worker.census { $0.isAtRest }.isAtRest)
    }

    @Test func theAnswerIsFramedForTheChecksMethodNotForTheDescribedOne() throws {
        let bench = try Bench { $0.auth = .required }
        defer { bench.end() }
        let proxy = try Line(to: bench.worker.checkAddress)
        // A GET that describes a HEAD has content, a HEAD that describes a GET has none.
        try proxy.send(check("/a", method: "HEAD"))
        let refusal = try proxy.receiveMessage()
        #expect(refusal.status == 401 && refusal.body.contains("UNAUTHORIZED"))
        try proxy.send(check("/a").replacing("GET /auth", with: "HEAD /auth") + check("/b"))
        #expect(try proxy.receive(until: "}").components == ["HTTP/1.1 401 Unauthorized", "HTTP/1.1 401 Unauthorized"])
        proxy.close()
    }

    @Test(arguments: ["Content-Length: 44", "Transfer-Encoding: chunked", "Content-Length: 5\r\nExpect: 100-continue"])
    func contentThatIsAnnouncedAndDoesNotComeIsNotWaitedFor(_ framing: String) throws {
        let bench = try Bench()
        defer { bench.end() }
        let proxy = try Line(to: bench.worker.checkAddress)
        try proxy.send(check("/a", method: "POST", "\(framing)\r\n"))
        let answer = try proxy.receiveMessage()
        #expect(answer.status == 200 && answer.value(of: "Connection") == "close")
        // Bytes behind it may be content or a request, so they are neither.
        try proxy.send(check("/b"))
        #expect(try proxy.receiveAll().text == "")
        proxy.close()
    }

    @Test func nothingElseIsServedThereAndChecksNowhereElse() throws {
        let bench = try Bench()
        defer { bench.end() }
        let proxy = try Line(to: bench.worker.checkAddress)
        for path in ["/", "/a", "/auth/check/", "/auth/check/x", "/metrics", "/auth/check/envoy"] {
            try proxy.send(check("/a", at: path))
            #expect(try proxy.receiveMessage().status == 404, "\(path)")
        }
        #expect(isUntouched(bench))
        // On the other listeners it is a path like any other.
        let client = try bench.client()
        try client.send(check("/a"))
        let upstream = try bench.accept()
        #expect(try upstream.receiveMessage().hasPrefix("GET /auth/check "))
        for line in [proxy, client, upstream] { line.close() }
    }

    @Test func aCheckThatDescribesNoRequestIs400() throws {
        let bench = try Bench()
        defer { bench.end() }
        let proxy = try Line(to: bench.worker.checkAddress)
        let malformed = [
            check("/a").replacing("X-Forwarded-Uri: /a\r\n", with: ""), check("/a", "X-Original-URL: /b\r\n"),
            check("/a", "X_User_Id: 1\r\n"),
            check("/..\u{2F}.."), check("/a b"), check("/a", "X-Forwarded-Host: a b\r\n"), check("/a#b"),
        ]
        for request in malformed {
            try proxy.send(request)
            #expect(try proxy.receiveMessage().status == 400, "\(request)")
        }
        for (request, status) in [(check("/a", method: "TRACE"), 405), (check("/" + String(repeating: "a", count: 9_000)), 414)] {
            try proxy.send(request)
            #expect(try proxy.receiveMessage().status == status)
        }
        // To nginx it is a 403 like any other.
        try proxy.send(check("/a", at: "/auth/check/nginx", "X-Original-URL: /b\r\n"))
        let refusal = try proxy.receiveMessage()
        #expect(
            refusal.status == 403 && refusal.value(of: "X-Tollgate-Status") == "400"
                && refusal.value(of: "X-Tollgate-Code") == "BAD_REQUEST")
        proxy.close()
    }

    /// Of what the proxy described nothing may stay: neither in the record of the refusal nor in what follows.
    @Test func aCheckWhoseDescriptionIsMalformedIsRecordedAsItself() throws {
        let bench = try Bench()
        defer { bench.end() }
        let proxy = try Line(to: bench.worker.checkAddress)
        try proxy.send(check("/a b", method: "PUT") + check("/a"))
        let (refusal, passed) = (try proxy.receiveMessage(), try proxy.receiveMessage())
        #expect(refusal.status == 400 && passed.status == 200)
        let noted = Stories()
        bench.worker.mailbox.post(.reportRefusals(RefusalQuery(limit: 9)) { stories in noted.all.withLock { $0 = stories } })
        bench.worker.settle()
        let stories = noted.all.withLock { $0 }
        let story = try #require(stories.first)
        #expect(stories.count == 1 && story.requestID == refusal.value(of: "X-Request-Id"))
        #expect(story.method == "GET" && story.host == "gate" && story.path == "/auth/check" && story.route == nil)
        proxy.close()
    }

    private final class Stories: Sendable { let all = Mutex<[ExplainedRefusal]>([]) }

    @Test func limitsAreChargedAndNginxLearnsOfThem() throws {
        let limit = try LimitPolicy(parsing: "2/m", tiers: .standard)
        let bench = try Bench { $0.limits = [limit] }
        defer { bench.end() }
        let proxy = try Line(to: bench.worker.checkAddress)
        for _ in 0..<2 {
            try proxy.send(check("/a", at: "/auth/check/nginx"))
            #expect(try proxy.receiveMessage().status == 200)
        }
        try proxy.send(check("/a", at: "/auth/check/nginx") + check("/a"))
        let (forNginx, plain) = (try proxy.receiveMessage(), try proxy.receiveMessage())
        #expect(forNginx.status == 403 && forNginx.value(of: "X-Tollgate-Status") == "429")
        #expect(forNginx.value(of: "X-Tollgate-Code") == "RATE_LIMITED" && forNginx.value(of: "Retry-After") != nil)
        #expect(plain.status == 429 && plain.value(of: "X-Tollgate-Status") == nil && plain.value(of: "Retry-After") != nil)
        #expect(
            bench.worker.samples("tollgate_forward_auth_checks_total").sorted() == [
                #"tollgate_forward_auth_checks_total{endpoint="check",code_class="4xx"} 1"#,
                #"tollgate_forward_auth_checks_total{endpoint="nginx",code_class="2xx"} 2"#,
                #"tollgate_forward_auth_checks_total{endpoint="nginx",code_class="4xx"} 1"#,
            ])
        #expect(!bench.worker.samples("tollgate_http_requests_total{route=\"all\"").isEmpty)
        proxy.close()
    }

    // MARK: waiting

    private func parked(within requests: Int = 1_000) throws -> Bench {
        let rules = [RouteRule(name: "all", path: "/", isPrefix: true, target: .upstream(0))]
        var settings = WorkerSettings()
        settings.maxRequests = requests
        let bench = try Bench(rules: rules, settings: settings)
        let trust = Trust(issuers: [Bench.issuer("tollgate", isOwn: true)])
        bench.worker.mailbox.post(.adoptPolicy(try Policy(rules: rules, trust: trust, hasAccounts: true)))
        bench.worker.settle()
        return bench
    }

    private func learn(_ bench: Bench) {
        bench.worker.mailbox.post(
            .learnedUsers([UserTier(user: TokenUser(Self.user), status: .tier(Tier(rawValue: 1), until: .max), version: 1)]))
    }

    private var bearer: String { "Authorization: Bearer \(Bench.token(Self.user))\r\n" }

    @Test func aCheckWaitsForTheTierOfItsUser() throws {
        let bench = try parked()
        defer { bench.end() }
        let proxy = try Line(to: bench.worker.checkAddress)
        try proxy.send(check("/a", method: "DELETE", bearer))
        #expect(bench.isAsked(1))
        learn(bench)
        let answer = try proxy.receiveMessage()
        #expect(answer.status == 200 && answer.value(of: "X-User-Id") == Self.user && answer.value(of: "X-User-Tier") == "premium")
        // The connection goes on, and so does what is announced without content.
        try proxy.send(check("/b", bearer) + check("/c", method: "POST", bearer + "Content-Length: 9\r\n"))
        #expect(try proxy.receiveMessage().status == 200)
        #expect(try proxy.receiveMessage().value(of: "Connection") == "close")
        #expect(isUntouched(bench))
        proxy.close()
    }

    @Test func aCheckThatWaitsCountsAsARequestUnderWay() throws {
        let bench = try parked(within: 1)
        defer { bench.end() }
        let (proxy, client) = (try Line(to: bench.worker.checkAddress), try bench.client())
        try proxy.send(check("/a", bearer))
        #expect(bench.isAsked(1))
        try client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
        let refusal = try client.receiveMessage()
        #expect(refusal.status == 503 && refusal.value(of: "Retry-After") == "1")
        learn(bench)
        #expect(try proxy.receiveMessage().status == 200)
        try proxy.send(check("/a", bearer))
        #expect(try proxy.receiveMessage().status == 200)
        for line in [proxy, client] { line.close() }
    }

    @Test func aProxyThatLeavesMeanwhileLeavesNothingBehind() throws {
        let bench = try parked()
        defer { bench.end() }
        for more in ["", "Content-Length: 9\r\n"] {
            let proxy = try Line(to: bench.worker.checkAddress)
            try proxy.send(check("/a", method: "POST", bearer + more))
            _ = bench.worker.census { $0.exchanges == 1 }
            proxy.reset()
            #expect(bench.worker.census { $0.isAtRest }.isAtRest)
        }
        learn(bench)
        bench.worker.settle()
        #expect(bench.worker.census.isAtRest)
    }

    @Test func aDrainLetsACheckThatWaitsBeAnswered() throws {
        let bench = try parked()
        let proxy = try Line(to: bench.worker.checkAddress)
        try proxy.send(check("/a", bearer))
        #expect(bench.isAsked(1))
        bench.worker.mailbox.post(.drain(within: 30_000))
        learn(bench)
        let answer = try proxy.receiveMessage()
        #expect(answer.status == 200 && answer.value(of: "Connection") == "close")
        proxy.close()
        bench.worker.join()
        bench.upstream.close()
    }
}

extension String {
    /// The status lines of all messages in it.
    fileprivate var components: [String] { split(separator: "\r\n").filter { $0.hasPrefix("HTTP/1.1 ") }.map(String.init) }
}
