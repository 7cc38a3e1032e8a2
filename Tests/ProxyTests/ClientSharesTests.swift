import Testing
import Wire

@testable import Proxy

/// How much of a shared bound one client may hold: the rule, and the counts behind it.
@Suite struct ClientSharesTests {
    private static func client(_ number: Int) -> ClientKey { ClientKey(IPAddress(v4: 0x0A00_0000 + UInt32(number))) }

    /// Lets a client take all that it may; returns how many places that are.
    private static func fill(_ held: Int, taken: Int, limit: Int, _ rule: ShareRule) -> Int {
        var held = held, taken = taken
        while taken < limit, rule.allows(held: held, taken: taken, limit: limit) {
            held += 1
            taken += 1
        }
        return held
    }

    @Test func oneAloneHoldsItsPercentageAndLeavesAPlace() {
        // Limit, percent, places.
        let rows = [
            (100, 80, 80), (20_000, 80, 16_000), (5, 80, 4), (4, 80, 3), (3, 80, 2), (2, 80, 1), (1, 80, 1), (100, 50, 50), (100, 1, 1),
            (10, 1, 1), (1_000, 99, 990), (100, 100, 100), (1, 100, 1),
        ]
        for (limit, percent, places) in rows {
            let held = Self.fill(0, taken: 0, limit: limit, ShareRule(percent: percent))
            #expect(held == places, "\(percent) % of \(limit)")
        }
        #expect(ShareRule(percent: 80).allows(held: 1 << 50, taken: 1 << 50, limit: .max), "no product overflows")
    }

    /// Each client leaves a part of what it found free, and the last place goes only to one that holds none.
    @Test func amongAnyMixtureOfClientsANewOneFindsRoom() {
        var random = SplitMix64(seed: 7)
        var failures: [String] = []
        for _ in 0..<200 {
            let percent = [50, 67, 80][Int(random.next() % 3)]
            let (rule, clients) = (ShareRule(percent: percent), 1 + Int(random.next() % 3))
            // So large that the part that each leaves of the one before is at least a place.
            var limit = 1
            for _ in 0...clients { limit = limit * 100 / (100 - percent) + 1 }
            var held = [Int](repeating: 0, count: clients)
            for _ in 0..<2 * limit {
                let client = Int(random.next() % UInt64(clients))
                // Some go away again, most come.
                if random.next() % 8 == 0 {
                    held[client] = held[client] * Int(random.next() % 4) / 4
                } else if rule.allows(held: held[client], taken: held.reduce(0, +), limit: limit) {
                    held[client] += 1
                }
                if !rule.allows(held: 0, taken: held.reduce(0, +), limit: limit) { failures.append("\(held) of \(limit) at \(percent) %") }
            }
        }
        #expect(failures.isEmpty, "\(failures.prefix(3))")
    }

    // MARK: the counts

    @Test func workersCountOneClientTogetherAndEachClientForItself() {
        let holdings = ClientHoldings()
        var one = ClientShares(holdings), other = ClientShares(holdings)
        let rule = ShareRule(percent: 80)
        let greedy = [one.acquire(Self.client(1)), other.acquire(Self.client(1))]
        let second = other.acquire(Self.client(2))
        var taken = 0
        while one.takeRequest(greedy[0], taken: taken, limit: 10, chunk: 1, rule) {
            taken += 1
            guard other.takeRequest(greedy[1], taken: taken, limit: 10, chunk: 1, rule) else { break }
            taken += 1
        }
        let mayOther = other.takeRequest(second, taken: taken, limit: 10, chunk: 1, rule)
        #expect(taken == 8 && mayOther)
        one.releaseRequest(greedy[0], chunk: 1)
        let mayAgain = other.takeRequest(greedy[1], taken: taken, limit: 10, chunk: 1, rule)
        #expect(mayAgain, "a place that one worker gives back is free in the other")
    }

    @Test func aSteadyClientTouchesTheSharedCountsOnce() {
        let holdings = ClientHoldings()
        var shares = ClientShares(holdings)
        let client = shares.acquire(Self.client(1))
        let held = { holdings.held(of: .requests, by: holdings.hash(Self.client(1))) }
        var counts: Set<Int> = []
        for _ in 0..<1_000 {
            if !shares.takeReserved(client) { _ = shares.takeRequest(client, taken: 0, limit: 20_000, chunk: 16, .all) }
            counts.insert(held())
            shares.releaseRequest(client, chunk: 16)
            counts.insert(held())
        }
        #expect(counts == [4])
        shares.release(client)
        let left = shares.count
        #expect(held() == 0 && left == 0)
    }

    /// Entries come and go at random; the table finds each of them, and none that has gone.
    @Test func eachClientHasOneEntryWhileItHasAnything() {
        var shares = ClientShares(ClientHoldings())
        var random = SplitMix64(seed: 3)
        var kept: [Int: (index: ShareIndex, times: Int)] = [:]
        var faults = 0
        for _ in 0..<20_000 {
            let number = Int(random.next() % 600)
            if random.next() % 2 == 0 || kept[number] == nil {
                let index = shares.acquire(Self.client(number))
                if let known = kept[number], known.index != index { faults += 1 }
                if shares[index].key != Self.client(number) { faults += 1 }
                kept[number] = (index, (kept[number]?.times ?? 0) + 1)
            } else if let known = kept[number] {
                shares.release(known.index)
                kept[number] = known.times == 1 ? nil : (known.index, known.times - 1)
            }
            if shares.count != kept.count { faults += 1 }
        }
        #expect(faults == 0)
    }

    @Test func anIPv6ClientIsItsNetwork() {
        let address = { (text: String) in IPAddress(parsing: text)! }
        #expect(ClientKey(address("2001:db8::1")) == ClientKey(address("2001:db8::ffff:2")))
        #expect(ClientKey(address("2001:db8::1")) != ClientKey(address("2001:db8:0:1::1")))
        #expect(ClientKey(address("10.0.0.1")) != ClientKey(address("10.0.0.2")) && ClientKey(caller: 0) != ClientKey(caller: 1))
    }
}
