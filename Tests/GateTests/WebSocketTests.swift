import Credentials
import HTTP
@testable import Limits
import Testing
import Wire

@testable import Gate

/// `websocket-max=`. `Cases/admission.md` has handshakes.
@Suite struct WebSocketTests {
    private static let fields =
        "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="

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
        rule.maxWebSockets = 2
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
        chat.maxWebSockets = 2
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
