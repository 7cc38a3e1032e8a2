import Credentials
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
    private func passing(_ house: Gatehouse, _ token: String? = nil, _ header: String = "", from: String = "192.0.2.7") -> Int {
        (0..<10).filter { _ in house.get("/p/x", token: token, header, from: from).status == 0 }.count
    }

    @Test func theAnswerSaysWhatIsLeft() throws {
        let house = try Gatehouse([try limited("60/m+burst=3")])
        #expect(
            house.get("/p/x").limitLines == [
                "RateLimit-Policy: \"passages\";q=60;w=60", "X-RateLimit-Limit: 60", "RateLimit: \"passages\";r=2;t=1",
                "X-RateLimit-Remaining: 2", "X-RateLimit-Reset: 1",
            ])
        _ = house.get("/p/x")
        _ = house.get("/p/x")
        let refused = house.get("/p/x")
        #expect(refused.status == 429 && refused.code == "RATE_LIMITED")
        #expect(refused.headers == ["Retry-After: 1"])
        #expect(refused.limitLines.contains("RateLimit: \"passages\";r=0;t=3"))
        house.advance(milliseconds: 999)
        #expect(house.get("/p/x").status == 429)
        house.advance(milliseconds: 1)
        #expect(house.get("/p/x").status == 0)
        #expect(try Gatehouse([rule("free", "/p/*", auth: .none)]).get("/p/x").limitLines == [])
    }

    @Test func retryAfterIsRoundedUp() throws {
        let house = try Gatehouse([try limited("1/h")])
        _ = house.get("/p/x")
        house.advance(milliseconds: 1_500)
        let refused = house.get("/p/x")
        #expect(refused.headers == ["Retry-After: 3599"])
        #expect(refused.limit.resetSeconds == 3_599)
    }

    @Test func eachTierHasItsOwnAndAnUpgradeCountsAtOnce() throws {
        let house = try Gatehouse([try limited("anonymous:2/h,free:3/h,premium:5/h")])
        #expect(passing(house) == 2)
        #expect(passing(house, Gatehouse.token(tier: "free")) == 3)
        #expect(passing(house, Gatehouse.token(tier: "premium")) == 5)
        #expect(passing(house, Gatehouse.token(tier: "free")) == 0)
    }

    @Test func usersAreCountedByUserAndNobodyByAddress() throws {
        let house = try Gatehouse([try limited("3/h")])
        #expect(passing(house, Gatehouse.token("a"), from: "192.0.2.1") == 3)
        #expect(passing(house, Gatehouse.token("a") { $0.email = "x@y" }, from: "192.0.2.2") == 0)
        #expect(passing(house, Gatehouse.token("b"), from: "192.0.2.1") == 3)
        #expect(passing(house, from: "192.0.2.1") == 3)
        #expect(passing(house, from: "192.0.2.1") == 0)
        #expect(passing(house, from: "192.0.2.2") == 3)
    }

    @Test func theSameIdOfTwoIssuersIsTwoUsers() throws {
        let trust = Gatehouse.trust([
            Gatehouse.trusted(), Gatehouse.trusted(Gatehouse.otherKey, name: "second", issuer: "https://second.test"),
        ])
        let house = try Gatehouse([try limited("3/h")], trust: trust)
        #expect(passing(house, Gatehouse.token("a")) == 3)
        #expect(passing(house, Gatehouse.token("a", issuer: "https://second.test", key: Gatehouse.otherKey)) == 3)
    }

    @Test func addressesOfIPv6CountByTheir64() throws {
        let house = try Gatehouse([try limited("3/h", .none, by: .address)])
        #expect(passing(house, from: "2001:db8:0:1::1") == 3)
        #expect(passing(house, from: "2001:db8:0:1:ffff::9") == 0)
        #expect(passing(house, from: "2001:db8:0:2::1") == 3)
        #expect(passing(house, from: "192.0.2.1") == 3)
        #expect(passing(house, from: "::ffff:192.0.2.1") == 0)
        #expect(passing(house, from: "192.0.2.2") == 3)
    }

    @Test func byAddressAUserIsNoMoreThanTheAddress() throws {
        let house = try Gatehouse([try limited("3/h", by: .address)])
        #expect(passing(house, Gatehouse.token("a")) == 3)
        #expect(passing(house, Gatehouse.token("b")) == 0)
    }

    @Test func sessionsAreCountedApart() throws {
        let house = try Gatehouse([try limited("3/h", by: .session)])
        #expect(passing(house, Gatehouse.token("a") { $0.sessionID = "1" }) == 3)
        #expect(passing(house, Gatehouse.token("a") { $0.sessionID = "2" }) == 3)
        #expect(passing(house, Gatehouse.token("a")) == 3)
        #expect(passing(house) == 3)
        #expect(passing(house, Gatehouse.token("a")) == 0)
    }

    @Test func aHeaderCountsByItsValueAndWithoutOneTheAddressDoes() throws {
        let house = try Gatehouse([try limited("3/h", by: #require(LimitBy(parsing: "header:X-Device")))])
        #expect(passing(house, nil, "x-device: one") == 3)
        #expect(passing(house, nil, "X-DEVICE: two") == 3)
        #expect(passing(house, nil, "X-Device: one") == 0)
        #expect(passing(house) == 3)
        #expect(passing(house, nil, "X-Device:") == 0)
        #expect(passing(house, nil, "X-Device: 192.0.2.7") == 3)
    }

    /// The upstream may go by another one than was counted.
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
        let house = try Gatehouse([rule, several, open])
        let refused = house.get("/p/x", fields)
        #expect(refused.status == 400 && refused.code == "BAD_REQUEST" && refused.dialect == .apple)
        #expect(refused.limit.result == .none && refused.limitLines == [])
        #expect(house.keys("/p/x", fields.replacing("\n", with: "\r\n")) == [])
        #expect(house.get("/p/x", "X-Device: one").limit.remaining == 2, "a refusal costs nothing")
        #expect(house.get("/free", fields).status == 0)
        // Of a list by tier, only the limit of the caller's own tier reads it.
        #expect(house.get("/s/x", token: Gatehouse.token(tier: "free"), fields).status == 0)
        #expect(house.get("/s/x", token: Gatehouse.token(tier: "premium"), fields).status == 400)
        rule.shadow = .limit
        let watched = try Gatehouse([rule]).get("/p/x", fields)
        #expect(watched.status == 0 && watched.shadowed == .limit)
    }

    @Test func anotherSpellingOfTheFieldCountsAsTheField() throws {
        let house = try Gatehouse([try limited("3/h", by: #require(LimitBy(parsing: "header:X-Device")))])
        #expect(passing(house, nil, "X_Device: one") == 3)
        #expect(passing(house, nil, "X-Device: one") == 0)
        // The upstream gets none, so there is none.
        #expect(passing(house, nil, "Connection: X-Device\nX-Device: two") == 3)
        #expect(passing(house, nil, "Connection: X-Device\nX-Device: three") == 0)
        #expect(passing(house) == 0)
    }

    @Test(arguments: ["", "users", "header:", "header:a b", "User"])
    func whatALimitCannotCountByIsRefused(_ text: String) {
        #expect(LimitBy(parsing: text) == nil)
    }

    @Test func routesAreCountedApart() throws {
        var other = try limited("3/h", .none)
        other.name = "other"
        other.path = "/o/"
        let house = try Gatehouse([try limited("3/h", .none), other])
        #expect(passing(house) == 3)
        #expect(house.get("/o/x").limit.remaining == 2)
    }

    @Test func refusedRequestsAreNotCharged() throws {
        var premium = try limited("3/h")
        premium.tier = Tier(rawValue: 1)
        let house = try Gatehouse([premium])
        let token = Gatehouse.token("a", tier: "premium")
        for _ in 0..<20 {
            #expect(house.get("/p/x", token: Gatehouse.token("a")).status == 403)
            #expect(house.get("/p/x").status == 401)
            #expect(house.get("/p/x", token: "bad").status == 401)
        }
        #expect(passing(house, token) == 3)
    }

    @Test func aShadowedLimitIsOnlyWatched() throws {
        var watched = try limited("2/h")
        watched.shadow = .limit
        let house = try Gatehouse([watched])
        let results = (0..<4).map { _ in house.get("/p/x") }
        #expect(results.map(\.status) == [0, 0, 0, 0])
        #expect(results.map(\.limit.result) == [.admitted, .admitted, .shadowRefused, .shadowRefused])
        #expect(results[3].shadowed == .limit && results[3].limit.retryAfterSeconds > 0)
    }

    /// Two workers share one count, and a reload keeps it.
    @Test func workersOfOneProcessCountTogether() throws {
        let limiter = SharedLimiter(capacity: 64)
        let policy = try Policy(rules: [try limited("4/h", .none)], trust: Gatehouse.trust())
        let first = Gatehouse(policy, limiter: limiter)
        let second = Gatehouse(policy, limiter: limiter)
        #expect([first, second, first].map { $0.get("/p/x").limit.remaining } == [3, 2, 1])
        second.admission.adopt(try policy.replacing(trust: Gatehouse.trust(), version: 2))
        #expect([second, first, second].map { $0.get("/p/x").status } == [0, 429, 429])
    }

    @Test func aStoreThatCannotCountIsOpenOrClosed() throws {
        let house = try Gatehouse([try limited("3/h")])
        let open = house.get("/p/x", answer: .open)
        #expect(open.status == 0 && open.limit.result == .open && open.limit.source == .fallback)
        #expect(open.limitLines == [])
        let closed = house.get("/p/x", answer: .closed(retryAfterSeconds: 0))
        #expect(closed.verdict == .refuse(.unavailable(.limits, retryAfterSeconds: 1)))
        #expect(closed.limit.result == .closed && closed.limitLines == [])
        var watched = try limited("3/h")
        watched.shadow = .limit
        let shadowed = try Gatehouse([watched]).get("/p/x", answer: .closed(retryAfterSeconds: 9))
        #expect(shadowed.status == 0 && shadowed.limit.result == .open)
    }
}
