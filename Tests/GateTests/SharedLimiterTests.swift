import Synchronization
import Testing
import Wire

@testable import Gate

private func microseconds(_ value: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: value * 1_000) }

extension SharedLimiter {
    fileprivate func take(_ item: LimitCharge.Item, now: MonotonicTime) -> GCRA.Outcome { take(item, now: now, want: 1) }
}

@Suite struct SharedLimiterTests {
    private let hash = KeyedHash(first: 1, second: 2)
    private let rate = LimitRate(count: 10, windowSeconds: 1, burst: 5)!

    private func charge(_ subject: UInt64, _ rate: LimitRate? = nil) -> LimitCharge.Item {
        LimitCharge.Item(key: hash.hash128(0, subject, domain: 0), rate: rate ?? self.rate)
    }

    @Test func everyKeyHasACountOfItsOwn() {
        let limiter = SharedLimiter(capacity: 4_096, hash: hash)
        for subject in 0..<1_000 as Range<UInt64> {
            for turn in 0..<7 {
                #expect(limiter.take(charge(subject), now: microseconds(100)).granted == (turn < 5 ? 1 : 0))
            }
        }
    }

    @Test func aKeyThatWasIdleHasItsFullBurstAgain() {
        let limiter = SharedLimiter(capacity: 64, hash: hash)
        for _ in 0..<8 { _ = limiter.take(charge(1), now: microseconds(1)) }
        #expect(limiter.take(charge(1), now: microseconds(2)).granted == 0)
        #expect(limiter.take(charge(1), now: microseconds(100_002), want: 9).granted == 1)
        #expect(limiter.take(charge(1), now: microseconds(90_000_000), want: 9).granted == 5)
    }

    @Test func aSmallTableServesManyKeysOneAfterTheOther() {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        var now: UInt64 = 1
        for subject in 0..<5_000 as Range<UInt64> {
            // Longer than any count lasts, with what clocks may differ.
            if subject % 8 == 0 { now += 2_000_000 }
            #expect(limiter.take(charge(subject), now: microseconds(now), want: 9).granted == 5)
        }
    }

    /// More live keys than fit may be refused too much, never too little.
    @Test func aFullTableFailsClosed() {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        var random = SplitMix64(seed: 9)
        var granted: [UInt64: [UInt64]] = [:]
        var now: UInt64 = 1_000_000
        for _ in 0..<30_000 {
            now += random.next() % 2_000
            let subject = random.next() % 24
            if limiter.take(charge(subject), now: microseconds(now)).granted == 1 { granted[subject, default: []].append(now) }
        }
        for times in granted.values {
            #expect(times.count < 700)
            #expect(keepsItsBound(times, burst: 5, count: 10, windowSeconds: 1))
        }
        #expect(granted.count == 24)
    }

    @Test func whatWasSharedFollowsAKeyToItsOwnCount() {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        for subject in 0..<8 as Range<UInt64> { _ = limiter.take(charge(subject), now: microseconds(1_000)) }
        #expect(limiter.take(charge(100), now: microseconds(1_000), want: 9).granted == 5)
        #expect(limiter.take(charge(101), now: microseconds(1_000), want: 9).granted == 0)
    }

    @Test func whatIsGivenBackCanBeTakenAgain() {
        let limiter = SharedLimiter(capacity: 64, hash: hash)
        let now = microseconds(1_000_000)
        #expect(limiter.take(charge(1), now: now, want: 9).granted == 5)
        limiter.giveBack(charge(1), microseconds: 2 * rate.interval, now: now)
        #expect(limiter.take(charge(1), now: now, want: 9).granted == 2)
    }

    /// Neither a late credit nor a large one makes a count better than full.
    @Test func noCreditExceedsAFullBurst() {
        let limiter = SharedLimiter(capacity: 64, hash: hash)
        _ = limiter.take(charge(1), now: microseconds(1_000_000), want: 3)
        limiter.giveBack(charge(1), microseconds: .max, now: microseconds(1_000_000))
        #expect(limiter.take(charge(1), now: microseconds(1_000_000), want: 9).granted == 5)
        limiter.giveBack(charge(1), microseconds: .max, now: microseconds(9_000_000))
        #expect(limiter.take(charge(1), now: microseconds(9_000_000), want: 9).granted == 5)
    }

    @Test func aCreditForAnUnknownKeyDoesNothing() {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        _ = limiter.take(charge(1), now: microseconds(1_000_000), want: 5)
        limiter.giveBack(charge(2), microseconds: .max, now: microseconds(1_000_000))
        #expect(limiter.take(charge(1), now: microseconds(1_000_000)).granted == 0)
        #expect(limiter.take(charge(2), now: microseconds(1_000_000), want: 9).granted == 5)
    }

    /// Threads that return each grant, while others take: no charge and no credit is lost.
    @Test func creditsOfManyThreadsAddUp() {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        let rate = LimitRate(count: 1, windowSeconds: 3_600, burst: 100)!
        let now = microseconds(5_000_000)
        let kept = Counter()
        runThreads(4) { thread in
            for turn in 0..<10_000 {
                guard limiter.take(charge(1, rate), now: now).granted == 1 else { continue }
                if turn % 500 == thread { kept.add() } else { limiter.giveBack(charge(1, rate), microseconds: rate.interval, now: now) }
            }
        }
        #expect(limiter.take(charge(1, rate), now: now, want: 200).granted == 100 - UInt32(kept.value))
    }

    /// Four threads, few keys, a table so small that slots change hands all the time.
    @Test(arguments: [8, 64, 4_096])
    func threadsTogetherKeepTheBound(_ capacity: Int) {
        let limiter = SharedLimiter(capacity: capacity, hash: hash)
        let clock = Atomic<UInt64>(10_000_000)
        let log = Mutex<[UInt64: [UInt64]]>([:])
        let charges = (0..<12 as Range<UInt64>).map { charge($0) }
        runThreads(4) { thread in
            var random = SplitMix64(seed: UInt64(thread))
            var mine: [(UInt64, UInt64)] = []
            for _ in 0..<40_000 {
                // Each thread reads the common clock, which only goes forward, and then lags a little.
                let now = clock.wrappingAdd(random.next() % 60, ordering: .relaxed).oldValue - random.next() % 500
                let subject = random.next() % 12
                let verdict = limiter.take(charges[Int(subject)], now: microseconds(now))
                if verdict.granted == 1 { mine.append((subject, now)) }
            }
            log.withLock { log in for (subject, now) in mine { log[subject, default: []].append(now) } }
        }
        log.withLock { log in
            #expect(log.count == 12)
            for times in log.values { #expect(keepsItsBound(times, burst: 5, count: 10, windowSeconds: 1)) }
        }
    }

    /// All threads meet the same new key at the same instant, again and again, as old keys expire.
    @Test func rivalsForANewKeyShareOneCount() {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        let once = LimitRate(count: 1, windowSeconds: 1, burst: 1)!
        let rounds = 3_000
        let granted = (0..<rounds).map { _ in Counter() }
        let arrived = Atomic<Int>(0)
        runThreads(2) { _ in
            for round in 0..<rounds {
                arrived.wrappingAdd(1, ordering: .sequentiallyConsistent)
                while arrived.load(ordering: .sequentiallyConsistent) < (round + 1) * 2 {}
                let now = microseconds(10_000_000 + UInt64(round) * 700_000)
                if limiter.take(charge(UInt64(round), once), now: now).granted == 1 { granted[round].add() }
            }
        }
        #expect(granted.filter { $0.value > 1 }.count == 0)
    }
}

/// A number that threads add to.
private final class Counter: Sendable {
    private let count = Atomic<Int>(0)
    func add() { count.wrappingAdd(1, ordering: .relaxed) }
    var value: Int { count.load(ordering: .relaxed) }
}
