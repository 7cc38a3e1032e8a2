@testable import Limits
import Testing
import Wire

@testable import Gate

/// Checks a log of grants against the promise: any j − i + 1 of them span at least (j − i + 1 − burst) intervals.
func keepsItsBound(_ times: [UInt64], burst: UInt32, count: UInt32, windowSeconds: UInt32) -> Bool {
    let times = times.sorted()
    let window = UInt64(windowSeconds) * 1_000_000
    for i in times.indices {
        for j in i..<times.count {
            let excess = UInt64(j - i + 1) > UInt64(burst) ? UInt64(j - i + 1) - UInt64(burst) : 0
            // grants ≤ burst + T × count / window, without rounding.
            if excess * window > (times[j] - times[i]) * UInt64(count) { return false }
        }
    }
    return true
}

@Suite struct GCRATests {
    private func take(_ now: UInt64, _ tat: UInt64, _ rate: LimitRate, _ want: UInt32 = 1) -> GCRA.Outcome {
        GCRA.take(now: now, tat: tat, interval: rate.interval, tolerance: rate.tolerance, want: want)
    }

    @Test func aNewCallerHasItsFullBurstAndThenTheRate() throws {
        let rate = try #require(LimitRate(parsing: "60/m+burst=3"))
        var tat: UInt64 = 0
        var left: [UInt32] = []
        for _ in 0..<3 {
            let outcome = take(1_000_000, tat, rate)
            #expect(outcome.granted == 1)
            left.append(outcome.remaining)
            tat = outcome.tat
        }
        #expect(left == [2, 1, 0])
        let refused = take(1_000_000, tat, rate)
        #expect(refused == GCRA.Outcome(granted: 0, tat: tat, remaining: 0, reset: 3_000_000, retryAfter: 1_000_000))
        #expect(take(1_999_999, tat, rate).granted == 0)
        #expect(take(1_999_999, tat, rate).retryAfter == 1)
        #expect(take(2_000_000, tat, rate).granted == 1)
        #expect(take(9_000_000, tat, rate).remaining == 2)
    }

    @Test func refusalsMoveNothing() throws {
        let rate = try #require(LimitRate(parsing: "1/h"))
        let first = take(5, 0, rate)
        for now in 6..<2_000 as Range<UInt64> { #expect(take(now, first.tat, rate).tat == first.tat) }
    }

    @Test func aGrantUpToSomeIsAsManyOneByOne() throws {
        var random = SplitMix64(seed: 3)
        let rates = ["10/s", "60/m+burst=7", "7/s+burst=3", "1000/s", "3/d"].compactMap { LimitRate(parsing: $0) }
        for _ in 0..<4_000 {
            let rate = rates[Int(random.next() % 5)]
            let now = 1 + random.next() % 100_000_000
            let tat = random.next() % 2 == 0 ? 0 : now &+ random.next() % (rate.tolerance * 2) &- min(now, rate.tolerance)
            let want = UInt32(random.next() % 20)
            let many = take(now, tat, rate, want)
            var single = tat
            var granted: UInt32 = 0
            for _ in 0..<want {
                let one = take(now, single, rate)
                granted += one.granted
                single = one.tat
            }
            #expect(many.granted == granted)
            #expect(many.tat == single)
            if many.granted == want { #expect(take(now, single, rate, UInt32.max).granted == many.remaining) }
        }
    }

    /// Retry-After is exact: not a microsecond earlier, and then it does pass.
    @Test func aCallerWhoWaitsForRetryAfterPasses() throws {
        var random = SplitMix64(seed: 4)
        let rates = ["10/s+burst=2", "60/m+burst=7", "7/s+burst=1", "3/d"].compactMap { LimitRate(parsing: $0) }
        for _ in 0..<4_000 {
            let rate = rates[Int(random.next() % 4)]
            let now = 1_000 + random.next() % 1_000_000_000
            let tat = now + random.next() % (rate.tolerance + 1)
            let outcome = take(now, tat, rate)
            guard outcome.granted == 0 else { continue }
            #expect(outcome.retryAfter > 0)
            #expect(take(now + outcome.retryAfter, tat, rate).granted == 1)
            #expect(take(now + outcome.retryAfter - 1, tat, rate).granted == 0)
            #expect(take(now + outcome.reset, tat, rate, UInt32.max).granted == rate.burst)
        }
    }

    /// Thousands of arrival patterns, with clocks that lag, against a log of every grant.
    @Test func noWindowAdmitsMoreThanBurstAndRate() {
        var random = SplitMix64(seed: 5)
        for pattern in 0..<3_000 {
            let count = UInt32(1 + random.next() % 50)
            let burst = UInt32(1 + random.next() % 12)
            let window: UInt32 = [1, 1, 60][Int(random.next() % 3)]
            guard let rate = LimitRate(count: count, windowSeconds: window, burst: burst) else { continue }
            let gap = 1 + random.next() % (rate.interval * 2)
            let lag = pattern % 3 == 0 ? rate.interval * 2 : 0
            var now: UInt64 = 10_000_000_000
            var tat: UInt64 = 0
            var granted: [UInt64] = []
            for _ in 0..<60 {
                now += random.next() % 4 == 0 ? random.next() % (gap * 8) : random.next() % gap
                let seen = lag == 0 ? now : now - random.next() % lag
                let outcome = take(seen, tat, rate, UInt32(1 + random.next() % 3))
                tat = outcome.tat
                granted += Array(repeating: seen, count: Int(outcome.granted))
            }
            #expect(keepsItsBound(granted, burst: burst, count: count, windowSeconds: window), "pattern \(pattern)")
        }
    }

    @Test func theLimitIsReachedNotOnlyKept() throws {
        let rate = try #require(LimitRate(parsing: "500/s"))
        var tat: UInt64 = 0
        var granted = 0
        for millisecond in 0..<10_000 as Range<UInt64> {
            let outcome = take(1_000 + millisecond * 1_000, tat, rate)
            tat = outcome.tat
            granted += Int(outcome.granted)
        }
        #expect((5_480...5_500).contains(granted))
    }

    @Test func noNumbersMakeItTrap() {
        var random = SplitMix64(seed: 6)
        for _ in 0..<20_000 {
            let now = random.next() >> (random.next() % 63 + 1)
            let tat = random.next() >> (random.next() % 64)
            let outcome = GCRA.take(
                now: now, tat: tat, interval: 1 + random.next() % 86_400_000_000, tolerance: random.next() % (1 << 50),
                want: UInt32(truncatingIfNeeded: random.next()))
            #expect(outcome.granted == 0 || outcome.tat > 0)
        }
    }
}
