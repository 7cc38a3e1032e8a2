import Glibc
@testable import Limits
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
            // Longer than any count lives, including the clocks' difference.
            if subject % 8 == 0 { now += 2_000_000 }
            #expect(limiter.take(charge(subject), now: microseconds(now), want: 9).granted == 5)
        }
    }

    /// Beside a model of one bucket, which remembers eight of 24 keys: it answers for each key by what it remembers of that
    /// key alone, and forgets the one with the smallest TAT.
    @Test func aFullBucketEvictsTheSmallestTAT() throws {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        let rates = try ["10/s+burst=5", "60/m", "7/s+burst=40", "2/m", "30/m+burst=3"].map { try #require(LimitRate(parsing: $0)) }
        var random = SplitMix64(seed: 9)
        var tats: [UInt64: UInt64] = [:]
        var now: UInt64 = 1_000_000
        var evictions: UInt64 = 0
        for step in 0..<20_000 {
            now += random.next() % 60_000
            let subject = random.next() % 24
            let item = charge(subject, rates[Int(subject) % rates.count])
            let expected = GCRA.take(
                now: now + 1, tat: tats[subject] ?? 0, interval: item.rate.interval, tolerance: item.rate.tolerance,
                want: UInt32(1 + random.next() % 3))
            #expect(
                limiter.take(item, now: microseconds(now), want: expected.granted == 0 ? 1 : expected.granted) == expected, "step \(step)")
            guard expected.granted > 0 else { continue }
            if tats[subject] == nil, tats.count == 8, let victim = tats.min(by: { $0.value < $1.value }) {
                tats[victim.key] = nil
                if victim.value > now + 1 { evictions += 1 }
            }
            tats[subject] = expected.tat
        }
        #expect(evictions > 1_000)
        #expect(limiter.evictions == evictions)
    }

    /// An overfull table refuses no key for the charges of others.
    @Test func aNewKeyHasItsFullBurstInAFullTable() {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        for subject in 0..<200 as Range<UInt64> {
            #expect(limiter.take(charge(subject), now: microseconds(1_000), want: 9).granted == 5)
        }
        #expect(limiter.evictions == 192)
    }

    @Test func creditsOfEvictedKeysChangeNoOtherKey() {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        let narrow = LimitRate(count: 1, windowSeconds: 60, burst: 1)!
        for subject in 0..<8 as Range<UInt64> { _ = limiter.take(charge(subject, narrow), now: microseconds(1_000)) }
        limiter.refund(charge(3, narrow), credit: 1, now: microseconds(1_000))
        _ = limiter.take(charge(8, narrow), now: microseconds(1_000))
        limiter.refund(charge(3, narrow), credit: .max, now: microseconds(1_000))
        for subject in [0, 1, 2, 4, 5, 6, 7, 8] as [UInt64] {
            #expect(limiter.take(charge(subject, narrow), now: microseconds(1_000)).granted == 0)
        }
    }

    /// Not even if the key was inserted again, into the same slot and with the same TAT.
    @Test func aChargeOfAnEvictedKeyIsNotReverted() {
        let table = CountTable(partitions: LimitCharge.Item.partitions, capacity: 8)
        let (narrow, wide) = (LimitRate(count: 1, windowSeconds: 60, burst: 1)!, LimitRate(count: 2, windowSeconds: 60)!)
        var (undo, other) = (CountTable.UndoRecord(), CountTable.UndoRecord())
        for subject in 1..<8 as Range<UInt64> { _ = table.take(charge(subject, wide), now: 1_000, want: 2, &other) }
        #expect(table.take(charge(0, narrow), now: 900, want: 1, &undo).granted == 1)
        #expect(table.take(charge(8, narrow), now: 800, want: 1, &other).granted == 1)
        #expect(table.take(charge(0, narrow), now: 900, want: 1, &other).granted == 1)
        #expect(other.slot == undo.slot && other.left.tat == undo.left.tat)
        table.revert(undo)
        #expect(table.take(charge(0, narrow), now: 900, want: 1, &other).granted == 0)
        table.revert(CountTable.UndoRecord(slot: undo.slot, left: other.left, before: 0))
        #expect(table.take(charge(0, narrow), now: 900, want: 1, &other).granted == 1)
    }

    @Test func refundedUnitsCanBeTakenAgain() {
        let limiter = SharedLimiter(capacity: 64, hash: hash)
        let now = microseconds(1_000_000)
        #expect(limiter.take(charge(1), now: now, want: 9).granted == 5)
        limiter.refund(charge(1), credit: 2 * rate.interval, now: now)
        #expect(limiter.take(charge(1), now: now, want: 9).granted == 2)
    }

    /// Neither a late credit nor a large one makes a count better than full.
    @Test func noCreditExceedsAFullBurst() {
        let limiter = SharedLimiter(capacity: 64, hash: hash)
        _ = limiter.take(charge(1), now: microseconds(1_000_000), want: 3)
        limiter.refund(charge(1), credit: .max, now: microseconds(1_000_000))
        #expect(limiter.take(charge(1), now: microseconds(1_000_000), want: 9).granted == 5)
        limiter.refund(charge(1), credit: .max, now: microseconds(9_000_000))
        #expect(limiter.take(charge(1), now: microseconds(9_000_000), want: 9).granted == 5)
    }

    @Test func aCreditForAnUnknownKeyDoesNothing() {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        _ = limiter.take(charge(1), now: microseconds(1_000_000), want: 5)
        limiter.refund(charge(2), credit: .max, now: microseconds(1_000_000))
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
                if turn % 500 == thread { kept.add() } else { limiter.refund(charge(1, rate), credit: rate.interval, now: now) }
            }
        }
        #expect(limiter.take(charge(1, rate), now: now, want: 200).granted == 100 - UInt32(kept.value))
    }

    /// Four threads, few keys, none of them evicted.
    @Test(arguments: [64, 4_096])
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
        #expect(limiter.evictions == 0)
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

    /// The same in a table that is full of live keys, whose order changes all the time and of which others are evicted.
    @Test func rivalsForANewKeyOfAFullTableShareOneCount() {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        let (once, sooner) = (LimitRate(count: 1, windowSeconds: 60, burst: 1)!, LimitRate(count: 2, windowSeconds: 60, burst: 1)!)
        let rounds = 4_000
        let granted = (0..<rounds).map { _ in Counter() }
        let arrived = Atomic<Int>(0)
        runThreads(3) { thread in
            var random = SplitMix64(seed: UInt64(thread))
            for round in 0..<rounds {
                // The round's key has the largest TAT, so nothing may evict it.
                let now = microseconds(10_000_000 + UInt64(round) * 4 + random.next() % 2)
                let older = UInt64(max(0, round - 1 - Int(random.next() % 6)))
                arrived.wrappingAdd(1, ordering: .sequentiallyConsistent)
                while arrived.load(ordering: .sequentiallyConsistent) < (round + 1) * 3 { sched_yield() }
                if older < round, random.next() % 2 == 0 {
                    limiter.refund(charge(older, once), credit: random.next() % 60_000_000, now: now)
                }
                if random.next() % 2 == 0 { _ = limiter.take(charge(1 << 32 + UInt64(3 * round + thread), sooner), now: now) }
                if limiter.take(charge(UInt64(round), once), now: now).granted == 1 { granted[round].add() }
            }
        }
        #expect(granted.filter { $0.value != 1 }.count == 0)
        #expect(limiter.evictions > rounds)
    }

    /// Seven keys that are far from full, and forty that evict each other from the eighth place.
    @Test func onlyAnEvictedKeyGainsAndAtMostABurst() {
        let limiter = SharedLimiter(capacity: 8, hash: hash)
        let start: UInt64 = 10_000_000
        let (resident, passing) = (LimitRate(count: 1_000, windowSeconds: 60)!, LimitRate(count: 20, windowSeconds: 1, burst: 1)!)
        for subject in 0..<7 as Range<UInt64> {
            #expect(limiter.take(charge(subject, resident), now: microseconds(start), want: 500).granted == 500)
        }
        let clock = Atomic<UInt64>(start)
        let grants = (0..<47).map { _ in Counter() }
        runThreads(4) { thread in
            var random = SplitMix64(seed: UInt64(thread) + 7)
            for _ in 0..<20_000 {
                let now = clock.wrappingAdd(random.next() % 60, ordering: .relaxed).oldValue
                let isResident = random.next() % 2 == 0
                let subject = isResident ? random.next() % 7 : 7 + random.next() % 40
                if limiter.take(charge(subject, isResident ? resident : passing), now: microseconds(now)).granted == 1 {
                    grants[Int(subject)].add()
                }
            }
        }
        let elapsed = clock.load(ordering: .relaxed) - start
        for subject in 0..<7 {
            // Asked for far more than the rate gives: so what it gives, to the last one.
            let bound = 500 + Int(elapsed / resident.interval)
            #expect((bound - 1...bound).contains(grants[subject].value), "resident \(subject)")
        }
        #expect(limiter.evictions > 1_000)
        let bound = 40 * (1 + Int(elapsed / passing.interval))
        #expect(grants[7...].reduce(0) { $0 + $1.value } <= bound + Int(limiter.evictions))
    }
}

/// A number that threads add to.
final class Counter: Sendable {
    private let count = Atomic<Int>(0)
    func add() { count.wrappingAdd(1, ordering: .relaxed) }
    var value: Int { count.load(ordering: .relaxed) }
}
