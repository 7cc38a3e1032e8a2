import Credentials
import HTTP
@testable import Limits
import Testing
import Wire

@testable import Gate

@Suite struct WebSocketTests {
    private static let fields = "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="

    private func harness(_ change: (inout RouteRule) -> Void = { _ in }) throws -> AdmissionHarness {
        var rule = RouteRule(name: "chat", path: "/chat", isPrefix: false, target: .upstream(0))
        rule.takesWebSockets = true
        change(&rule)
        return try AdmissionHarness([rule])
    }

    private func open(_ harness: AdmissionHarness, token: String? = nil, _ more: String = "") -> Judged {
        harness.get("/chat", token: token, Self.fields + (more.isEmpty ? "" : "\n" + more))
    }

    @Test func theTokenComesAsABearerOrWithTheSubprotocol() throws {
        let harness = try harness()
        let token = AdmissionHarness.token()
        #expect(open(harness, token: token).userID == "user-1")
        #expect(open(harness, "Sec-WebSocket-Protocol: bearer, \(token), chat").userID == "user-1")
        #expect(open(harness).status == 401)
        #expect(open(harness, "Sec-WebSocket-Protocol: chat").status == 401)
        #expect(open(harness, "Sec-WebSocket-Protocol: bearer").reason == .malformed)
        #expect(open(harness, "Sec-WebSocket-Protocol: bearer, x.y.z").status == 401)
        #expect(open(harness, "Sec-WebSocket-Protocol: chat, bearer, \(token)").status == 400)
        // Without a handshake it is no token.
        #expect(harness.get("/chat", "Sec-WebSocket-Protocol: bearer, \(token)").status == 401)
    }

    @Test func oneTokenInTwoPlacesIsRefused() throws {
        let token = AdmissionHarness.token()
        let judged = open(try harness(), token: token, "Sec-WebSocket-Protocol: bearer, \(token)")
        #expect(judged.status == 400 && judged.reason == .severalAuthorizations)
    }

    @Test func theUpstreamGetsTheTokenOnlyWhereTheRouteSaysSo() throws {
        let token = AdmissionHarness.token()
        #expect(!open(try harness(), "Sec-WebSocket-Protocol: bearer, \(token)").identity.contains { $0.contains(token) })
        let forwarding = try harness { $0.forwardsAuthorization = true }
        #expect(open(forwarding, "Sec-WebSocket-Protocol: bearer, \(token)").hasIdentity("Authorization: Bearer \(token)"))
    }

    @Test func aMalformedHandshakeIsRefusedBeforeTheTokenIsLookedAt() throws {
        let harness = try harness()
        #expect(harness.get("/chat", "Upgrade: websocket\nConnection: Upgrade").code == "BAD_REQUEST")
        let old = harness.get("/chat", Self.fields.replacing("13", with: "8"))
        #expect(old.status == 426 && old.code == "UPGRADE_REQUIRED" && old.headers == ["Sec-WebSocket-Version: 13"])
    }

    @Test func elsewhereUpgradesAreIgnored() throws {
        let token = AdmissionHarness.token()
        let plain = try harness { $0.takesWebSockets = false }
        #expect(open(plain, token: token).status == 0)
        #expect(open(plain, "Sec-WebSocket-Protocol: bearer, \(token)").status == 401)
        #expect(try harness().get("/chat", token: token, "Upgrade: h2c\nConnection: Upgrade, HTTP2-Settings").status == 0)
    }

    @Test func whereIdentityIsNotLookedAtTheListIsTheUpstreams() throws {
        let judged = open(try harness { $0.auth = .none }, "Sec-WebSocket-Protocol: chat, bearer, x")
        #expect(judged.status == 0 && judged.auth == .notLooked)
    }

    // MARK: websocket-max

    /// A gateway's worker that holds what it has opened.
    private final class Worker {
        var admission: Admission
        var head = RequestHead()
        var decision = Decision()
        var open: [LimitKey] = []

        init(_ policy: Policy, _ limiter: SharedLimiter) {
            admission = Admission(policy: policy, limiter: limiter, cacheCapacity: 8)
        }

        func open(_ fields: String) -> UInt16 { ask("/chat", "\(WebSocketTests.fields)\n\(fields)\n") }

        func ask(_ path: String, _ fields: String = "") -> UInt16 {
            let text = "GET \(path) HTTP/1.1\nHost: h\n\(fields)\n"
            let bytes = Array(text.replacing("\n", with: "\r\n").utf8)
            precondition(head.parse(bytes.rawBytes, limits: HeadLimits()) == .complete)
            _ = admission.admit(
                head, bytes.rawBytes, peer: Peer(address: IPAddress(v4: 0x7F00_0001)), at: AdmissionHarness.now, &decision)
            if let key = admission.openSocket(&decision) { open.append(key) }
            return decision.refusal?.status ?? 0
        }

        func close() { admission.closeSocket(open.removeLast()) }
    }

    private func workers(_ change: (inout RouteRule) -> Void) throws -> (Policy, SharedLimiter) {
        var rule = RouteRule(name: "chat", path: "/chat", isPrefix: false, target: .upstream(0), auth: .optional)
        rule.takesWebSockets = true
        rule.mostWebSockets = 2
        change(&rule)
        return (try Policy(rules: [rule], trust: AdmissionHarness.trust()), SharedLimiter(capacity: 64))
    }

    @Test func aUserHoldsNoMoreThanTheRouteAllowsOverAllWorkers() throws {
        let (policy, limiter) = try workers { _ in }
        let first = Worker(policy, limiter)
        let second = Worker(policy, limiter)
        let ada = "Authorization: Bearer \(AdmissionHarness.token("ada"))"
        let bob = "Authorization: Bearer \(AdmissionHarness.token("bob"))"
        #expect(first.open(ada) == 0 && second.open(ada) == 0)
        #expect(first.open(ada) == 429 && second.open(ada) == 429)
        #expect(first.open(bob) == 0)
        second.close()
        #expect(first.open(ada) == 0 && second.open(ada) == 429)
        // By address, where no token says who it is.
        #expect(first.open("X-A: 1") == 0 && first.open("X-A: 1") == 0 && first.open("X-A: 1") == 429)
        // A reload keeps the counts.
        first.admission.adopt(try Policy(version: 2, rules: policy.rules, trust: policy.trust))
        #expect(first.open(ada) == 429)
        while !first.open.isEmpty { first.close() }
        #expect(first.open(ada) == 0 && first.open(ada) == 0)
    }

    @Test func theyCountByWhatTheRouteLimitsBy() throws {
        let (policy, limiter) = try workers { $0.limitBy = .header("X-Device") }
        let worker = Worker(policy, limiter)
        #expect(worker.open("X-Device: a") == 0 && worker.open("X-Device: a") == 0 && worker.open("X-Device: a") == 429)
        #expect(worker.open("X-Device: b") == 0)
        #expect(worker.open("X-Device: b\nX-Device: c") == 400)
    }

    /// A repeated field has no subject to count, whatever was decided about the request before.
    @Test func theShadowOfAnotherRoutesLimitDoesNotFallOnThem() throws {
        let limiter = SharedLimiter(capacity: 64)
        var chat = RouteRule(name: "chat", path: "/chat", isPrefix: false, target: .upstream(0), auth: .optional)
        chat.takesWebSockets = true
        chat.mostWebSockets = 2
        chat.limitBy = .header("X-Device")
        var trial = RouteRule(name: "trial", path: "/trial", isPrefix: false, target: .upstream(0), auth: .optional)
        trial.limits = [try LimitPolicy(parsing: "5/s", tiers: .standard)]
        trial.shadow = .limit
        let worker = Worker(try Policy(rules: [chat, trial], trust: AdmissionHarness.trust()), limiter)
        #expect(worker.open("X-Device: b\nX-Device: c") == 400)
        #expect(worker.ask("/trial") == 0)
        #expect(worker.open("X-Device: b\nX-Device: c") == 400)
    }
}
