import Testing

@testable import Gate

@Suite struct TierTests {
    @Test func theFirstIsTheLowestAndPremiumBeginsAtItsName() throws {
        let list = try TierList(["free", "plus", "premium", "gold"])
        #expect(list.rank(of: "free") == .lowest)
        #expect(list.rank(of: "gold") == Tier(rawValue: 3))
        #expect(list.rank(of: "Gold") == nil)
        #expect(list.names.map { list.isPremium(list.rank(of: $0)!) } == [false, false, true, true])
        let unnamed = try TierList(["basic", "pro"])
        #expect(unnamed.names.map { unnamed.isPremium(unnamed.rank(of: $0)!) } == [false, true])
        #expect(TierList.standard.names == ["free", "premium"])
    }

    @Test(arguments: [[], ["a", "a"], ["anonymous"], ["a b"], ["a\r"], [""], Array(repeating: "x", count: 40)] as [[String]])
    func namesThatCannotServeAreRefused(_ names: [String]) {
        #expect(throws: TierList.Fault.self) { try TierList(names) }
    }
}

@Suite struct LimitPolicyTests {
    private let tiers = TierList.standard

    @Test(
        arguments: [
            ("10/s", 10, 1, 10, false), ("60/m", 60, 60, 60, false), ("10/h", 10, 3600, 10, false), ("5/d", 5, 86400, 5, false),
            ("60/m+burst=10", 60, 60, 10, false), ("60/m+lease", 60, 60, 60, true), ("60/m+burst=10+lease", 60, 60, 10, true),
            ("60/m+lease+burst=10", 60, 60, 10, true), ("1000000/s", 1_000_000, 1, 1_000_000, false),
            // Above a million a second the interval stays one microsecond: a million pass.
            ("1000000000/m", 1_000_000_000, 60, 1_000_000_000, false),
        ] as [(String, UInt32, UInt32, UInt32, Bool)])
    func aRateIsRead(_ text: String, _ count: UInt32, _ window: UInt32, _ burst: UInt32, _ lease: Bool) throws {
        let rate = try #require(LimitRate(parsing: text))
        #expect(rate == LimitRate(count: count, windowSeconds: window, burst: burst, mayLease: lease))
        #expect(LimitRate(parsing: rate.text) == rate)
        #expect(rate.interval * UInt64(count) >= UInt64(window) * 1_000_000)
    }

    @Test(arguments: [
        "", "60", "/m", "60/", "60/w", "0/m", "-1/m", "+1/m", "60/m+", "60/m+burst=0", "60/m+burst=", "60/m+burst=1+burst=2",
        "60/m+lease+lease", "60/m+x", "99999999999/d", "60 /m", "1/d+burst=4000000000", "60/m/s", "６0/m",
    ])
    func anInvalidRateIsRefused(_ text: String) {
        #expect(LimitRate(parsing: text) == nil)
    }

    @Test func oneRateIsForEveryone() throws {
        let policy = try LimitPolicy(parsing: "60/m", tiers: tiers)
        #expect([nil, .lowest, Tier(rawValue: 1)].map { policy.rule(of: $0).rate.count } == [60, 60, 60])
    }

    @Test func aTierLeftOutHasTheNearestLowerOnesLimit() throws {
        let tiers = try TierList(["free", "plus", "premium", "gold"])
        let policy = try LimitPolicy(parsing: "premium:600/m,free:60/m", tiers: tiers)
        #expect((0..<4).map { policy.rule(of: Tier(rawValue: $0)).rate.count } == [60, 60, 600, 600])
        #expect(policy.rule(of: nil).rate.count == 60)
        let named = try LimitPolicy(parsing: "anonymous:20/m,free:60/m", tiers: tiers)
        #expect(named.rule(of: nil).rate.count == 20)
        #expect(named.rule(of: .lowest).rate.count == 60)
    }

    @Test func eachRateMaySayWhomItCounts() throws {
        let plain = try LimitPolicy(parsing: "60/m+by=header:X-Key+burst=3", tiers: tiers)
        #expect(plain.rule(of: nil).by == .header("x-key"))
        #expect(plain.rule(of: nil).rate.burst == 3)
        let list = try LimitPolicy(parsing: "anonymous:5/m+by=address,free:60/m,premium:1/s+by=header:X-Key", tiers: tiers)
        #expect([nil, .lowest, Tier(rawValue: 1)].map { list.rule(of: $0).by } == [.address, nil, .header("x-key")])
        #expect(list.text == "anonymous:5/m+by=address,free:60/m,premium:1/s+by=header:X-Key")
    }

    @Test(arguments: [
        ("premium:600/m", "free"), ("free:60/m,600/m", "names no tier"), ("free:60/m,gold:1/m", "gold"),
        ("free:60/m,free:1/m", "twice"), ("anonymous:1/m,anonymous:1/m,free:1/m", "twice"), ("free:60", "no rate"),
        ("free:1/m,", "names no tier"), ("60/x", "no rate"), (":1/m", "no tier"),
        ("60/m,10/s", "limit= once"), ("60/m+by=moon", "\"+by=moon\" is not known"), ("60/m+by=", "is not known"),
        ("60/m+by=user+by=address", "two things"), ("60/m+by=header:", "is not known"), ("60/m+by=header:A+B", "no rate"),
        ("+by=user", "no rate"), ("free:60/m,premium:1/m+by=sun", "is not known"),
    ])
    func aFaultIsToldToPeople(_ text: String, _ part: String) {
        let fault = #expect(throws: LimitPolicy.Fault.self) { try LimitPolicy(parsing: text, tiers: tiers) }
        #expect(fault?.message.contains(part) == true, "\(fault?.message ?? "")")
    }
}
