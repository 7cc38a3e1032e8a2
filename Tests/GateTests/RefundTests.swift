@testable import Limits
import Testing
import Wire

@testable import Gate

/// Charges that are given back, because the attempt turned out not to count.
@Suite struct RefundTests {
    private let rate = LimitRate(count: 180, windowSeconds: 3_600, burst: 30)!

    private func item(_ number: UInt64, _ rate: LimitRate? = nil) -> LimitCharge.Item {
        LimitCharge.Item(key: LimitKey(number), rate: rate ?? self.rate)
    }

    private func time(_ microseconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: microseconds * 1_000) }

    @Test(
        arguments: [
            (chargedAt: 100, now: 100, credit: 50), (100, 120, 30), (100, 149, 1), (100, 150, 0), (100, 9_000, 0), (100, 60, 50),
        ] as [(UInt64, UInt64, UInt64)])
    func aDrainedChargeIsNotRefunded(_ chargedAt: UInt64, _ now: UInt64, _ credit: UInt64) {
        #expect(GCRA.credit(interval: 50, chargedAt: chargedAt, now: now) == credit)
    }

    @Test func aCountIsNeverFullerThanFull() {
        #expect(GCRA.refund(now: 100, tat: 170, credit: 50) == 120)
        #expect(GCRA.refund(now: 100, tat: 130, credit: 50) == 100)
        #expect(GCRA.refund(now: 100, tat: 30, credit: 50) == 100)
        #expect(GCRA.refund(now: 100, tat: 0, credit: 0) == 100)
    }

    /// A count whose right guesses are given back by some rule, each so long after it was admitted.
    private struct Guessing {
        let rate: LimitRate
        let flight: UInt64
        let givesBackAll: Bool
        private var tat: UInt64 = 0
        private var underWay: [UInt64] = []
        private(set) var wrong: [UInt64] = []

        init(_ rate: LimitRate, flight: UInt64, givesBackAll: Bool = false) {
            self.rate = rate
            self.flight = flight
            self.givesBackAll = givesBackAll
        }

        mutating func settle(_ now: UInt64) {
            while let chargedAt = underWay.first, chargedAt + flight <= now {
                let credit = GCRA.credit(interval: rate.interval, chargedAt: chargedAt, now: now)
                tat = GCRA.refund(now: now, tat: tat, credit: givesBackAll ? rate.interval : credit)
                underWay.removeFirst()
            }
        }

        /// Whether it was admitted.
        mutating func guess(_ now: UInt64, isRight: Bool) -> Bool {
            settle(now)
            let outcome = GCRA.take(now: now, tat: tat, interval: rate.interval, tolerance: rate.tolerance, want: 1)
            if outcome.granted == 0 { return false }
            tat = outcome.tat
            if isRight { underWay.append(now) } else { wrong.append(now) }
            return true
        }

        var keepsBound: Bool {
            keepsItsBound(wrong, burst: rate.burst, count: rate.count, windowSeconds: rate.windowSeconds)
        }
    }

    /// Right guesses for eleven minutes, 25 of them under way at a time, and then as many wrong ones as pass. Were whole
    /// intervals given back, far more would pass than the burst.
    @Test(arguments: [false, true])
    func aStreamOfRightGuessesAdmitsNoExtraWrongOnes(_ givesBackAll: Bool) {
        var guessing = Guessing(rate, flight: 3_000_000, givesBackAll: givesBackAll)
        for step in 0..<5_500 as Range<UInt64> { _ = guessing.guess(1_000_000 + step * 120_000, isRight: true) }
        let end: UInt64 = 1_000_000 + 5_500 * 120_000
        for step in 0..<400 as Range<UInt64> { _ = guessing.guess(end + step * 10_000, isRight: false) }
        #expect(guessing.keepsBound != givesBackAll)
    }

    @Test func rightGuessesOneAfterTheOtherAreNeverRefused() {
        var guessing = Guessing(rate, flight: 90_000)
        var refused = 0
        for step in 0..<20_000 as Range<UInt64> {
            let isAdmitted = guessing.guess(1_000_000 + step * 100_000, isRight: true)
            if !isAdmitted { refused += 1 }
        }
        #expect(refused == 0)
        // And leave room for as many wrong ones as if there had been none.
        let end: UInt64 = 1_000_000 + 20_000 * 100_000
        for _ in 0..<40 { _ = guessing.guess(end, isRight: false) }
        #expect(guessing.wrong.count >= 29)
    }

    /// A count A with charges that are given back, and B without them: A never admits what B would not.
    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func aCountIsNeverBehindOneThatWasNeverCharged(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let (interval, tolerance): (UInt64, UInt64) = (1_000, 5_000)
        var (all, wrongs): (UInt64, UInt64) = (0, 0)
        var now: UInt64 = 1
        var pending: [UInt64] = []
        var given = 0
        for _ in 0..<50_000 {
            now += random.next() % 3 == 0 ? random.next() % 2_000 : random.next() % 50
            if random.next() % 2 == 0, !pending.isEmpty {
                let chargedAt = pending.remove(at: Int(random.next() % UInt64(pending.count)))
                all = GCRA.refund(now: now, tat: all, credit: GCRA.credit(interval: interval, chargedAt: chargedAt, now: now))
                given += 1
            } else {
                let outcome = GCRA.take(now: now, tat: all, interval: interval, tolerance: tolerance, want: 1)
                guard outcome.granted == 1 else { continue }
                all = outcome.tat
                if random.next() % 3 == 0 {
                    let other = GCRA.take(now: now, tat: wrongs, interval: interval, tolerance: tolerance, want: 1)
                    #expect(other.granted == 1)
                    wrongs = other.tat
                } else {
                    pending.append(now)
                }
            }
            #expect(max(all, now) >= max(wrongs, now))
        }
        #expect(given > 5_000)
    }

    @Test func theTableRefundsACharge() {
        let limiter = SharedLimiter(capacity: 64)
        for now in 100...200 as ClosedRange<UInt64> {
            #expect(limiter.take(item(1), now: time(now), want: 1).granted == 1)
            limiter.refund(item(1), credit: rate.interval, now: time(now))
        }
        #expect(limiter.take(item(1), now: time(200), want: 99).granted == 30)
        limiter.refund(item(1), credit: rate.interval, now: time(200))
        #expect(limiter.take(item(1), now: time(200), want: 99).granted == 1)
        limiter.refund(item(2), credit: rate.interval, now: time(200))
        #expect(limiter.take(item(2), now: time(200), want: 99).granted == 30)
    }

    @Test func threadsThatRefundEverythingHaveChargedNothing() {
        let limiter = SharedLimiter(capacity: 64)
        let (item, now) = (item(1), time(1_000))
        let interval = rate.interval
        runThreads(4) { _ in
            for _ in 0..<20_000 where limiter.take(item, now: now, want: 1).granted == 1 {
                limiter.refund(item, credit: interval, now: now)
            }
        }
        #expect(limiter.take(item, now: now, want: 99).granted == 30)
    }
}

/// The script in a real server, beside the pure function.
@Suite struct RefundScriptTests {
    private let link: RedisLink
    private let server: RedisServer

    init() throws {
        server = try RedisServer()
        link = try server.connect()
    }

    /// The script with a fixed time. Its keys live an hour longer, because the server's
    /// clock runs on between two steps of the test.
    private static let timed = RefundScript.source(
        clock: """
            local time = {ARGV[#ARGV - 1], ARGV[#ARGV]}
            local call = function(command, key, value, px, life)
              if command == 'DEL' then return redis.call('DEL', key) end
              return redis.call(command, key, value, px, life + 3600000)
            end
            """)

    private func refund(_ items: [LimitCharge.Item], chargedAt: UInt64, now: UInt64? = nil) throws {
        let numbers = ["\(chargedAt)"] + items.map { "\($0.rate.interval)" }
        #expect(try link.run(RefundScript.source, timed: Self.timed, keys: items.map(\.key), numbers, now: now) == .integer(1))
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func theScriptAndTheFunctionAgree(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let rates = ["10/s", "60/m+burst=7", "180/h+burst=30", "1000/h"].compactMap { LimitRate(parsing: $0) }
        var store = SimulatedRedis()
        var now: UInt64 = 1_800_000_000_000_000
        var charges: [(items: [LimitCharge.Item], at: UInt64)] = []
        var given = 0
        for step in 0..<2_000 {
            now += random.next() % 3 == 0 ? random.next() % 5_000_000 : random.next() % 2_000
            if random.next() % 2 == 0, !charges.isEmpty {
                let charge = charges.remove(at: Int(random.next() % UInt64(charges.count)))
                // After a failover the server's clock may be behind.
                let chargedAt = random.next() % 9 == 0 ? now + 1_000 : charge.at
                try refund(charge.items, chargedAt: chargedAt, now: now)
                store.refund(charge.items, chargedAt: chargedAt, now: now)
                given += 1
            } else {
                let first = random.next() % 4
                let items = (0..<1 + random.next() % 4).map { index in
                    let number = (first + index) % 4
                    return LimitCharge.Item(key: LimitKey(number), rate: rates[Int(number)])
                }
                let reply = store.take(LimitCharge(items), want: 1, now: now)
                if reply.granted == 1 { charges.append((items, now)) }
                for item in items {
                    guard let tat = store.tats[item.key], tat > now else { continue }
                    try link.ask("SET", item.key.name, "\(tat)")
                }
            }
            for number in 0..<4 as Range<UInt64> {
                let tat = store.tats[LimitKey(number)] ?? 0
                let kept = try link.ask("GET", LimitKey(number).name).text.flatMap { UInt64($0) } ?? 0
                #expect(max(kept, now) == max(tat, now), "step \(step)")
            }
        }
        #expect(given > 500)
    }

    @Test func itGoesByTheServersClockAndKeepsTheLifeOfACount() throws {
        let now = try link.time()
        let item = LimitCharge.Item(key: LimitKey(1), rate: try #require(LimitRate(parsing: "1/h+burst=9")))
        let tat = now + 5 * 3_600_000_000
        try link.ask("SET", LimitKey(1).name, "\(tat)", "PX", "99999999")
        try refund([item], chargedAt: now - 600_000_000)
        let kept = try #require(try link.ask("GET", LimitKey(1).name).text.flatMap { UInt64($0) })
        let drained = try link.time() - now
        #expect((0...drained).contains(kept - (tat - 3_000_000_000)), "ten minutes of the hour have drained, and what has passed since")
        let life = UInt64(try #require(try link.ask("PTTL", LimitKey(1).name).integer))
        let passed = try link.time() - now
        #expect((0...passed / 1_000 + 2).contains((kept - now) / 1_000 + 2 - life))
        for _ in 0..<9 { try refund([item], chargedAt: now) }
        #expect(try link.ask("EXISTS", LimitKey(1).name) == .integer(0), "a full count is none")
    }

    @Test(arguments: [
        ["SET", "no number"], ["SET", ""], ["SET", "1e300"], ["SET", "-5"], ["SET", "9007199254740993"], ["SET", "inf"], ["SET", "nan"],
        ["RPUSH", "x"],
        ["HSET", "f", "v"], ["SADD", "x"], ["ZADD", "1", "x"],
    ])
    func keysThatAreNoCountAreUnchanged(_ words: [String]) throws {
        try link.ask([words[0], LimitKey(1).name] + words.dropFirst())
        let before = try link.ask("DUMP", LimitKey(1).name)
        let item = LimitCharge.Item(key: LimitKey(1), rate: try #require(LimitRate(parsing: "1/h")))
        try refund([item], chargedAt: 1_800_000_000_000_000, now: 1_800_000_000_000_000)
        #expect(try link.ask("DUMP", LimitKey(1).name) == before)
    }
}
