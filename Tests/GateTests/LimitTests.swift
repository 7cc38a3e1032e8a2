import Credentials
@testable import Limits
import Testing
import Wire

@testable import Gate

@Suite struct LimitTests {
    private func limited(_ limit: String, _ auth: AuthMode = .optional, by: LimitBy = .user) throws -> RouteRule {
        var rule = rule("passages", "/p/*", auth: auth)
        rule.limits = try limit.split(separator: " ").map { try LimitPolicy(parsing: String($0), tiers: .standard) }
        rule.limitBy = by
        return rule
    }

    /// How many of ten pass.
    private func passing(_ harness: AdmissionHarness, _ token: String? = nil, _ header: String = "", from: String = "192.0.2.7") -> Int {
        (0..<10).filter { _ in harness.get("/p/x", token: token, header, from: from).status == 0 }.count
    }

    @Test func theAnswerShowsTheRemainingRequests() throws {
        let harness = try AdmissionHarness([try limited("60/m+burst=3")])
        #expect(
            harness.get("/p/x").limitLines == [
                "RateLimit-Policy: \"passages\";q=60;w=60", "X-RateLimit-Limit: 60", "RateLimit: \"passages\";r=2;t=1",
                "X-RateLimit-Remaining: 2", "X-RateLimit-Reset: 1",
            ])
        _ = harness.get("/p/x")
        _ = harness.get("/p/x")
        let refused = harness.get("/p/x")
        #expect(refused.status == 429 && refused.code == "RATE_LIMITED")
        #expect(refused.headers == ["Retry-After: 1"])
        #expect(refused.limitLines.contains("RateLimit: \"passages\";r=0;t=3"))
        harness.advance(milliseconds: 999)
        #expect(harness.get("/p/x").status == 429)
        harness.advance(milliseconds: 1)
        #expect(harness.get("/p/x").status == 0)
        #expect(try AdmissionHarness([rule("free", "/p/*", auth: .none)]).get("/p/x").limitLines == [])
    }

    @Test func retryAfterIsRoundedUp() throws {
        let harness = try AdmissionHarness([try limited("1/h")])
        _ = harness.get("/p/x")
        harness.advance(milliseconds: 1_500)
        let refused = harness.get("/p/x")
        #expect(refused.headers == ["Retry-After: 3599"])
        #expect(refused.limit.resetSeconds == 3_599)
    }

    @Test func eachTierHasItsOwnAndAnUpgradeCountsAtOnce() throws {
        let harness = try AdmissionHarness([try limited("anonymous:2/h,free:3/h,premium:5/h")])
        #expect(passing(harness) == 2)
        #expect(passing(harness, AdmissionHarness.token(tier: "free")) == 3)
        #expect(passing(harness, AdmissionHarness.token(tier: "premium")) == 5)
        #expect(passing(harness, AdmissionHarness.token(tier: "free")) == 0)
    }

    @Test func usersAreCountedByUserAndAnonymousCallersByAddress() throws {
        let harness = try AdmissionHarness([try limited("3/h")])
        #expect(passing(harness, AdmissionHarness.token("a"), from: "192.0.2.1") == 3)
        #expect(passing(harness, AdmissionHarness.token("a") { $0.email = "x@y" }, from: "192.0.2.2") == 0)
        #expect(passing(harness, AdmissionHarness.token("b"), from: "192.0.2.1") == 3)
        #expect(passing(harness, from: "192.0.2.1") == 3)
        #expect(passing(harness, from: "192.0.2.1") == 0)
        #expect(passing(harness, from: "192.0.2.2") == 3)
    }

    @Test func theSameIdOfTwoIssuersIsTwoUsers() throws {
        let trust = AdmissionHarness.trust([
            AdmissionHarness.trusted(), AdmissionHarness.trusted(AdmissionHarness.otherKey, name: "second", issuer: "https://second.test"),
        ])
        let harness = try AdmissionHarness([try limited("3/h")], trust: trust)
        #expect(passing(harness, AdmissionHarness.token("a")) == 3)
        #expect(passing(harness, AdmissionHarness.token("a", issuer: "https://second.test", key: AdmissionHarness.otherKey)) == 3)
    }

    @Test func addressesOfIPv6CountByTheir64() throws {
        let harness = try AdmissionHarness([try limited("3/h", .none, by: .address)])
        #expect(passing(harness, from: "2001:db8:0:1::1") == 3)
        #expect(passing(harness, from: "2001:db8:0:1:ffff::9") == 0)
        #expect(passing(harness, from: "2001:db8:0:2::1") == 3)
        #expect(passing(harness, from: "192.0.2.1") == 3)
        #expect(passing(harness, from: "::ffff:192.0.2.1") == 0)
        #expect(passing(harness, from: "192.0.2.2") == 3)
    }

    @Test func byAddressAUserIsNoMoreThanTheAddress() throws {
        let harness = try AdmissionHarness([try limited("3/h", by: .address)])
        #expect(passing(harness, AdmissionHarness.token("a")) == 3)
        #expect(passing(harness, AdmissionHarness.token("b")) == 0)
    }

    @Test func sessionsAreCountedApart() throws {
        let harness = try AdmissionHarness([try limited("3/h", by: .session)])
        #expect(passing(harness, AdmissionHarness.token("a") { $0.sessionID = "1" }) == 3)
        #expect(passing(harness, AdmissionHarness.token("a") { $0.sessionID = "2" }) == 3)
        #expect(passing(harness, AdmissionHarness.token("a")) == 3)
        #expect(passing(harness) == 3)
        #expect(passing(harness, AdmissionHarness.token("a")) == 0)
    }

    @Test func aHeaderCountsByItsValueAndWithoutOneTheAddressDoes() throws {
        let harness = try AdmissionHarness([try limited("3/h", by: #require(LimitBy(parsing: "header:X-Device")))])
        #expect(passing(harness, nil, "x-device: one") == 3)
        #expect(passing(harness, nil, "X-DEVICE: two") == 3)
        #expect(passing(harness, nil, "X-Device: one") == 0)
        #expect(passing(harness) == 3)
        #expect(passing(harness, nil, "X-Device:") == 0)
        #expect(passing(harness, nil, "X-Device: 192.0.2.7") == 3)
    }

    /// The upstream may read another one than was counted.
    @Test(arguments: [
        "X-Device: one\nX-Device: two", "X-Device: one\nx-device: one", "X-Device: one\nX_Device: two", "X_DEVICE: one\nx.device: two",
        "X-Device:\nX-Device: one", "X-Device: one\nX-Other: 1\nX-Device:",
    ])
    func aFieldThatALimitReadsMayComeOnce(_ fields: String) throws {
        var rule = try limited("3/h", .none, by: #require(LimitBy(parsing: "header:X-Device")))
        rule.errors = .apple
        var several = try limited("anonymous:9/h,free:9/h,premium:9/h+by=header:x_device 100/h")
        (several.name, several.path) = ("several", "/s/")
        let open = GateTests.rule("free", "/free", auth: .none)
        let harness = try AdmissionHarness([rule, several, open])
        let refused = harness.get("/p/x", fields)
        #expect(refused.status == 400 && refused.code == "BAD_REQUEST" && refused.dialect == .apple)
        #expect(refused.limit.result == .none && refused.limitLines == [])
        #expect(harness.keys("/p/x", fields.replacing("\n", with: "\r\n")) == [])
        #expect(harness.get("/p/x", "X-Device: one").limit.remaining == 2, "a refusal costs nothing")
        #expect(harness.get("/free", fields).status == 0)
        // Of a list by tier, only the limit of the caller's own tier reads it.
        #expect(harness.get("/s/x", token: AdmissionHarness.token(tier: "free"), fields).status == 0)
        #expect(harness.get("/s/x", token: AdmissionHarness.token(tier: "premium"), fields).status == 400)
        rule.shadow = .limit
        let watched = try AdmissionHarness([rule]).get("/p/x", fields)
        #expect(watched.status == 0 && watched.shadowed == .limit)
    }

    @Test func anotherSpellingOfTheFieldCountsAsTheField() throws {
        let harness = try AdmissionHarness([try limited("3/h", by: #require(LimitBy(parsing: "header:X-Device")))])
        #expect(passing(harness, nil, "X_Device: one") == 3)
        #expect(passing(harness, nil, "X-Device: one") == 0)
        // The upstream does not receive it, so it does not count.
        #expect(passing(harness, nil, "Connection: X-Device\nX-Device: two") == 3)
        #expect(passing(harness, nil, "Connection: X-Device\nX-Device: three") == 0)
        #expect(passing(harness) == 0)
    }

    @Test(arguments: ["", "users", "header:", "header:a b", "User"])
    func anInvalidSubjectIsRefused(_ text: String) {
        #expect(LimitBy(parsing: text) == nil)
    }

    @Test func routesAreCountedApart() throws {
        var other = try limited("3/h", .none)
        other.name = "other"
        other.path = "/o/"
        let harness = try AdmissionHarness([try limited("3/h", .none), other])
        #expect(passing(harness) == 3)
        #expect(harness.get("/o/x").limit.remaining == 2)
    }

    @Test func refusedRequestsAreNotCharged() throws {
        var premium = try limited("3/h")
        premium.tier = Tier(rawValue: 1)
        let harness = try AdmissionHarness([premium])
        let token = AdmissionHarness.token("a", tier: "premium")
        for _ in 0..<20 {
            #expect(harness.get("/p/x", token: AdmissionHarness.token("a")).status == 403)
            #expect(harness.get("/p/x").status == 401)
            #expect(harness.get("/p/x", token: "bad").status == 401)
        }
        #expect(passing(harness, token) == 3)
    }

    @Test func aLimitInShadowModeRefusesNothing() throws {
        var watched = try limited("2/h")
        watched.shadow = .limit
        let harness = try AdmissionHarness([watched])
        let results = (0..<4).map { _ in harness.get("/p/x") }
        #expect(results.map(\.status) == [0, 0, 0, 0])
        #expect(results.map(\.limit.result) == [.admitted, .admitted, .shadowRefused, .shadowRefused])
        #expect(results[3].shadowed == .limit && results[3].limit.retryAfterSeconds > 0)
    }

    /// Two workers share one count, and a reload keeps it.
    @Test func workersOfOneProcessCountTogether() throws {
        let limiter = SharedLimiter(capacity: 64)
        let policy = try Policy(rules: [try limited("4/h", .none)], trust: AdmissionHarness.trust())
        let first = AdmissionHarness(policy, limiter: limiter)
        let second = AdmissionHarness(policy, limiter: limiter)
        #expect([first, second, first].map { $0.get("/p/x").limit.remaining } == [3, 2, 1])
        second.admission.adopt(try policy.replacing(trust: AdmissionHarness.trust(), version: 2))
        #expect([second, first, second].map { $0.get("/p/x").status } == [0, 429, 429])
    }

    @Test func aStoreThatCannotCountIsOpenOrClosed() throws {
        let harness = try AdmissionHarness([try limited("3/h")])
        let open = harness.get("/p/x", answer: .open)
        #expect(open.status == 0 && open.limit.result == .open && open.limit.source == .fallback)
        #expect(open.limitLines == [])
        let closed = harness.get("/p/x", answer: .closed(retryAfterSeconds: 0))
        #expect(closed.verdict == .refuse(.unavailable(.limits, retryAfterSeconds: 1)))
        #expect(closed.limit.result == .closed && closed.limitLines == [])
        var watched = try limited("3/h")
        watched.shadow = .limit
        let shadowed = try AdmissionHarness([watched]).get("/p/x", answer: .closed(retryAfterSeconds: 9))
        #expect(shadowed.status == 0 && shadowed.limit.result == .open)
    }
}
