import Credentials
import HTTP
import Testing
import Wire

@testable import Gate

/// `split=`: which requests of a route go to another upstream.
@Suite struct RouteSplitTests {
    private static let users = (0..<2_000).map { "user-\($0)" }

    private static func rule(
        _ name: String, _ percent: Int, by subject: RouteSplit.Subject = .user, when conditions: String..., auth: AuthMode = .optional
    ) throws -> RouteRule {
        var rule = GateTests.rule(name, "/\(name)/*", auth: auth)
        rule.split = RouteSplit(percent: percent, upstreamName: "next")
        rule.split?.upstream = 7
        rule.splitBy = subject
        rule.splitWhen = try conditions.map { try SplitCondition(parsing: $0, tiers: .standard) }
        return rule
    }

    private static func plan(_ name: String, _ percent: Int, by subject: RouteSplit.Subject = .user) throws -> SplitPlan {
        let rule = try rule(name, percent, by: subject)
        return try #require(SplitPlan(rule, AttributeTable([rule])))
    }

    private static func split(_ plan: SplitPlan) -> Set<String> {
        Set(users.filter { $0.withRawBytes { plan.side(plan.key($0, RawSpan(), IPAddress(v4: 1))) == .split } })
    }

    @Test func aShareThatGrowsMovesNoUserBack() throws {
        var former: Set<String> = []
        for percent in [0, 1, 5, 10, 50, 99, 100] {
            let now = Self.split(try Self.plan("feed", percent))
            #expect(former.isSubset(of: now), "\(percent)")
            #expect(abs(now.count - percent * 20) <= 90, "\(percent): \(now.count)")
            former = now
        }
        #expect(former.count == Self.users.count)
    }

    @Test func splitsOfTwoRoutesAreIndependent() throws {
        let (one, two) = (Self.split(try Self.plan("feed", 50)), Self.split(try Self.plan("search", 50)))
        #expect(abs(one.intersection(two).count - 500) < 90)
    }

    /// The gateways share no key: those of limits are random in each.
    @Test func allGatewaysAgree() throws {
        let rules = try [Self.rule("feed", 30)]
        let (one, two) = (try AdmissionHarness(rules), try AdmissionHarness(rules))
        let verdicts = Self.users.prefix(100).map { user -> Verdict in
            let token = AdmissionHarness.token(user)
            let verdict = one.get("/feed/x", token: token).verdict
            #expect(two.get("/feed/x", token: token).verdict == verdict)
            return verdict
        }
        #expect(verdicts.contains(.forward(upstream: 7)) && verdicts.contains(.forward(upstream: 0)))
    }

    /// Of the same user from two addresses, of two users from the same, and of two sessions of one user.
    @Test func theSubjectAloneDecides() throws {
        let harness = try AdmissionHarness(
            [Self.rule("user", 50), Self.rule("session", 50, by: .session), Self.rule("address", 50, by: .address)])
        func sides(_ route: String, _ users: [String], _ sessions: [String], _ addresses: [String]) -> Int {
            var seen: Set<String> = []
            for user in users {
                for session in sessions {
                    for address in addresses {
                        let token = AdmissionHarness.token(user) { $0.sessionID = session }
                        let bearer = user.isEmpty ? "" : "\nAuthorization: Bearer \(token)"
                        seen.insert("\(harness.ask("GET /\(route)/x HTTP/1.1\nHost: a\(bearer)", from: address).verdict)")
                    }
                }
            }
            return seen.count
        }
        let (users, addresses) = ((0..<12).map { "u\($0)" }, (0..<12).map { "198.51.100.\($0)" })
        #expect(sides("user", ["u1"], users, addresses) == 1 && sides("user", users, ["s"], ["192.0.2.1"]) == 2)
        #expect(sides("session", ["u1"], ["s"], addresses) == 1 && sides("session", ["u1"], users, ["192.0.2.1"]) == 2)
        #expect(sides("address", users, users, ["192.0.2.1"]) == 1 && sides("address", ["u1"], ["s"], addresses) == 2)
        #expect(sides("user", [""], [""], addresses) == 2, "without a user the address decides")
        #expect(sides("address", [""], [""], (0..<12).map { "2001:db8::\($0)" }) == 1, "a client has a whole /64")
    }

    @Test(arguments: [
        ("tier", "", "free", false), ("tier", "", "premium", true),
        ("field", "", "free", false), ("field", "X-Channel: beta", "free", true), ("field", "x-channel: beta", "free", true),
        ("field", "X-Channel: Beta", "free", false), ("field", "X-Channel: beta\nX-Channel: beta", "free", true),
        ("field", "X-Channel: beta\nX-Channel: stable", "free", false),
        ("both", "X-Channel: a, b", "free", false), ("both", "X-Channel: a, b", "premium", true),
    ]) func conditionsMustHold(_ route: String, _ field: String, _ tier: String, _ isSplit: Bool) throws {
        let harness = try AdmissionHarness([
            Self.rule("tier", 100, when: "tier:premium"), Self.rule("field", 100, when: "header:X-Channel=beta"),
            Self.rule("both", 100, when: "tier:premium", "header:X-Channel=a%2C%20b"),
        ])
        let bearer = AdmissionHarness.token("u", tier: tier)
        let judged = harness.ask(
            "GET /\(route)/x HTTP/1.1\nHost: a\nAuthorization: Bearer \(bearer)\(field.isEmpty ? "" : "\n" + field)")
        #expect(judged.verdict == .forward(upstream: isSplit ? 7 : 0))
        let ending = isSplit ? ", and so does this one" : ", which does not hold here"
        #expect(judged.explanation.step("split")?.hasPrefix("100% by user go to next") == true)
        #expect(judged.explanation.step("split")?.hasSuffix(ending) == true)
    }
}
