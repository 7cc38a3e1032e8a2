import Credentials
import HTTP
import Testing
import Wire

@testable import Gate

/// Pages of other origins. `Cases/cors.md` says who may call, and what their browsers are told.
@Suite struct CORSTests {
    private static let app = "https://app.example.org"

    private func cors(_ origins: String..., change: (inout CORSRule) -> Void = { _ in }) throws -> CORSRule {
        var rule = CORSRule(try CORSOrigins(origins))
        change(&rule)
        return rule
    }

    private func harness(fallback: CORSRule) throws -> AdmissionHarness {
        var plain = rule("plain", "GET,POST /plain/*", auth: .optional)
        plain.cors = try cors(Self.app, "https://*.example.net")
        var cookies = rule("cookies", "/cookies/*", auth: .none)
        cookies.cors = try cors(Self.app) { $0.allowsCredentials = true }
        return AdmissionHarness(
            try Policy(rules: [plain, cookies], trust: AdmissionHarness.trust(), cors: fallback, ownOrigin: "https://gate.test"))
    }

    @Test func equalPoliciesAreOne() throws {
        var (first, second) = (rule("a", "GET /x"), rule("b", "POST /x"))
        first.cors = try cors(Self.app)
        second.cors = try cors(Self.app)
        let harness = AdmissionHarness(try Policy(rules: [first, second], trust: AdmissionHarness.trust(), cors: cors(Self.app)))
        #expect(harness.admission.policy.cors.count == 1)
        let judged = harness.ask("OPTIONS /x HTTP/1.1\nHost: h\nOrigin: \(Self.app)\nAccess-Control-Request-Method: GET")
        #expect(judged.answerLines.contains("Access-Control-Allow-Methods: GET, POST"))
    }

    @Test func newKeysLeaveItAsItIs() throws {
        let harness = try harness(fallback: cors(Self.app))
        let before = harness.get("/nowhere", "Origin: \(Self.app)").answerLines
        let policy = try harness.admission.policy.replacing(trust: AdmissionHarness.trust(), version: 2)
        harness.admission.adopt(policy)
        #expect(harness.get("/nowhere", "Origin: \(Self.app)").answerLines == before && before.count == 3)
        #expect(harness.get("/cookies/x", "Origin: https://gate.test").cors == .own)
    }

    /// Arbitrary bytes as an origin: none traps, and only a configured one comes back.
    @Test func anOriginComesBackOnlyIfItIsAConfiguredOne() throws {
        let harness = try harness(fallback: cors("https://*.example.net"))
        let seeds = [Self.app, "https://a.example.net", "https://a.b.example.net", "null", "https://gate.test", "http://h"]
        var random = SplitMix64(seed: 16)
        var counts: [OriginClass: Int] = [:]
        for _ in 0..<30_000 {
            var origin = Array(seeds[Int(random.next() % UInt64(seeds.count))].utf8)
            for _ in 0..<random.next() % 3 {
                let position = Int(random.next() % UInt64(origin.count + 1))
                switch random.next() % 3 {
                case 0: origin.insert(UInt8(truncatingIfNeeded: random.next()), at: position)
                case 1: if position < origin.count { origin[position] = UInt8(truncatingIfNeeded: random.next()) }
                default: if position < origin.count { origin.remove(at: position) }
                }
            }
            let method = ["GET", "POST", "OPTIONS"][Int(random.next() % 3)]
            let path = ["/plain/x", "/cookies/x", "/nowhere"][Int(random.next() % 3)]
            let head = "\(method) \(path) HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\nAccess-Control-Request-Method: GET\r\nOrigin: "
            let bytes = Array(head.utf8) + origin + Array("\r\n\r\n".utf8)
            guard let judged = harness.ask(raw: bytes, from: Peer(address: IPAddress(v4: 0xC000_0207))) else { continue }
            counts[judged.cors, default: 0] += 1
            let named = judged.answerLines.filter { $0.hasPrefix("Access-Control-Allow-Origin: ") }
            #expect(named.isEmpty == (judged.cors != .allowed))
            #expect(judged.answerLines.allSatisfy { $0.hasPrefix("Vary: ") || $0.hasPrefix("Access-Control-") || $0.contains("RateLimit") })
            guard let name = named.first?.dropFirst(29) else { continue }
            let isSubdomain = name.wholeMatch(of: /https:\/\/[a-z0-9_-]+(\.[a-z0-9_-]+)*\.example\.net/) != nil
            #expect(String(name) == Self.app || isSubdomain, "\(name)")
        }
        #expect(counts[.allowed, default: 0] > 3_000 && counts[.foreign, default: 0] > 3_000 && counts[.own, default: 0] > 1_000)
    }
}
