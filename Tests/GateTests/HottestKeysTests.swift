import Credentials
import HTTP
import Testing
import Wire

@testable import Gate

/// The count of the keys that limits refuse most often.
@Suite struct HottestKeysTests {
    private let policy: Policy
    private let now = WallTime(seconds: 1_800_000_000)

    init() throws {
        var rule = RouteRule(name: "r", path: "/", isPrefix: true, target: .upstream(0), auth: .none)
        rule.limits = [try LimitPolicy(parsing: "5/m", tiers: .standard), try LimitPolicy(parsing: "9/h+by=address", tiers: .standard)]
        policy = try Policy(rules: [rule], trust: Trust(issuers: []))
    }

    private func count(
        _ keys: inout HottestKeys, _ address: IPAddress, limit: Int = 0, _ result: LimitOutcome.Result = .refused, at now: WallTime? = nil
    ) {
        keys.count(
            DecisionRecord(limited: result, by: limit, from: address, policyVersion: policy.version), policy: policy, at: now ?? self.now)
    }

    private func address(_ number: Int) -> IPAddress { IPAddress(high: 0, low: 0xFFFF_0000_0000 | UInt64(number)) }

    /// 100,000 keys that are refused once each hide none that is refused often, and the count does not grow.
    @Test func aFloodOfKeysHidesNoneThatIsRefusedOften() {
        var keys = HottestKeys()
        for number in 0..<100_000 {
            count(&keys, address(number + 1_000))
            if number % 50 == 0 { count(&keys, address(1)) }
            if number % 40 == 0 { count(&keys, address(2), limit: 1) }
        }
        let found = keys.keys(at: now)
        #expect(found.count == HottestKeys.capacity)
        let hottest = HottestKeys.merged(found, limit: 2)
        #expect(hottest.map(\.key.key) == ["0.0.0.2", "0.0.0.1"])
        #expect(hottest.map(\.key.policy) == ["r.2", "r"] && hottest.map(\.key.limit) == ["9/h+by=address", "5/m"])
        // A count is a lower bound.
        #expect(hottest[0].refused <= 2_500 && hottest[0].refused > 1_000 && hottest[1].refused <= 2_000 && hottest[1].refused > 800)
        #expect(HottestKeys.merged(found, limit: 50).count == 50)
    }

    @Test func countsOfFewKeysAreExactAndOfAllWorkersAdded() {
        var first = HottestKeys(), second = HottestKeys()
        for number in 1...100 { for _ in 0..<number { count(&first, address(number)) } }
        for _ in 0..<7 { count(&second, address(1)) }
        let merged = HottestKeys.merged(first.keys(at: now) + second.keys(at: now), limit: 100)
        #expect(merged.first?.refused == 100 && merged.first?.key.key == "0.0.0.100")
        #expect(merged.first { $0.key.key == "0.0.0.1" }?.refused == 8)
        #expect(merged.count == 100)
    }

    @Test func onlyRefusalsCount() {
        var keys = HottestKeys()
        for result in LimitOutcome.Result.allCases where result != .refused { count(&keys, address(1), result) }
        #expect(keys.keys(at: now).isEmpty)
        keys.count(DecisionRecord(limited: .refused, by: 0, from: address(1), policyVersion: policy.version + 1), policy: policy, at: now)
        #expect(keys.keys(at: now).isEmpty, "a request that another configuration decided about")
    }

    @Test func addressesOfANetworkAreOneKeyAsForTheLimit() throws {
        var keys = HottestKeys()
        for text in ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"] { count(&keys, try #require(IPAddress(parsing: text))) }
        #expect(
            HottestKeys.merged(keys.keys(at: now), limit: 9).map { "\($0.key.key) \($0.refused)" } == [
                "2001:db8::/64 2", "2001:db8:0:1::/64 1",
            ])
    }

    @Test func countsAreOfTheLastTenToTwentyMinutes() {
        var keys = HottestKeys()
        func refused(_ seconds: Int64) -> UInt64 { keys.keys(at: WallTime(seconds: now.seconds + seconds)).reduce(0) { $0 + $1.refused } }
        count(&keys, address(1))
        count(&keys, address(1), at: WallTime(seconds: now.seconds + 600))
        #expect(refused(600) == 2 && HottestKeys.since(WallTime(seconds: now.seconds + 600)) == now)
        #expect(refused(1_199) == 2)
        #expect(refused(1_200) == 1)
        #expect(refused(1_800) == 0)
        count(&keys, address(1), at: WallTime(seconds: now.seconds + 9_000))
        #expect(refused(9_000) == 1)
        #expect(refused(-5_000) == 0, "a clock that was set back")
    }
}

extension DecisionRecord {
    /// The record of an anonymous request on the first route, with this outcome of its limits.
    init(limited result: LimitOutcome.Result, by index: Int, from address: IPAddress, policyVersion: Int) {
        self.init()
        var decision = Decision()
        decision.client = ClientAddress(address: address)
        decision.routeIndex = 0
        decision.limit.result = result
        decision.limit.index = index
        record(decision, RequestHead(), [UInt8]().rawBytes, policyVersion: policyVersion, at: WallTime(seconds: 0))
    }
}
