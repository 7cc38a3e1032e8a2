import Testing
import Wire

@testable import Gate

extension LimitCharge {
    init(_ items: [Item]) {
        self.init()
        for item in items { append(item) }
    }
}

/// The script in a real server, beside the pure function.
@Suite struct GCRAScriptTests {
    private let server: RedisServer
    private let link: RedisLink

    init() throws {
        server = try RedisServer()
        link = try server.connect()
    }

    /// The product's script, but for the one line that reads the clock.
    private static let timed = GCRAScript.source(clock: "local time = {ARGV[#ARGV - 1], ARGV[#ARGV]}")

    private func words(_ charge: LimitCharge, want: UInt32) -> [String] {
        var command = LimitCommand()
        command.charge = charge
        command.want = want
        let keys = (0..<command.count).map { index in
            var out = ByteBuffer()
            command.writeKey(index, into: &out)
            return out.readable.text
        }
        var arguments = LimitArguments(repeating: 0)
        _ = command.update(&arguments)
        return keys + (0...2 * charge.count).map { "\(arguments[$0])" }
    }

    /// What the server answers at `now`, or by its own clock.
    private func take(_ charge: LimitCharge, want: UInt32, now: UInt64? = nil) throws -> GCRAReply {
        let call = ["EVAL", now == nil ? GCRAScript.source : Self.timed, "\(charge.count)"] + words(charge, want: want)
        let answer = try link.ask(call + (now.map { ["\($0 / 1_000_000)", "\($0 % 1_000_000)"] } ?? []))
        let text = try #require(answer.text, "\(answer)")
        return try #require(GCRAReply(counts: charge.count, text), "\(answer)")
    }

    private func rate(_ text: String) throws -> LimitRate { try #require(LimitRate(parsing: text)) }

    private func key(_ number: UInt64) -> LimitKey { LimitKey(high: number, low: ~number) }

    private func name(_ key: LimitKey) -> String {
        var out = ByteBuffer()
        GCRAScript.writeKey(key, into: &out)
        return out.readable.text
    }

    /// The same seeded traffic, one to four counts at a time, gives the same answers and the same counts in both.
    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func theScriptAndTheFunctionAgree(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let rates = try ["10/s", "60/m+burst=7", "7/s+burst=3", "1000000/s", "3/d", "100/s+lease", "1/d+burst=10000", "9/m+burst=1"].map(rate)
        var store = VirtualStore()
        // A time as it is now, in microseconds since 1970.
        var now: UInt64 = 1_800_000_000_000_000
        var granted: UInt32 = 0
        for step in 0..<1_500 {
            now += random.next() % 3 == 0 ? random.next() % 5_000_000 : random.next() % 2_000
            let first = random.next() % 8
            let charge = LimitCharge(
                (0..<1 + random.next() % 4).map { index in
                    let number = (first + index) % 8
                    return .init(key: key(number), rate: rates[Int(number)])
                })
            let want = UInt32(1 + random.next() % (random.next() % 5 == 0 ? 5_000 : 4))
            let told = try take(charge, want: want, now: now)
            #expect(told == store.take(charge, want: want, now: now), "step \(step)")
            granted += told.granted
        }
        #expect(granted > 1_000)
        for (key, tat) in store.tats where tat > now + 5_000_000 { #expect(try link.ask("GET", name(key)) == .text("\(tat)")) }
    }

    /// By the server's own clock, which each answer tells.
    @Test func theProductsScriptGoesByTheServersClock() throws {
        let charge = LimitCharge([.init(key: key(1), rate: try rate("2000/s+burst=40"))])
        var store = VirtualStore()
        var granted: UInt32 = 0
        var random = SplitMix64(seed: 8)
        for _ in 0..<600 {
            let before = try serverTime()
            let want = UInt32(1 + random.next() % 6)
            let told = try take(charge, want: want)
            let after = try serverTime()
            let tat = try #require(try link.ask("GET", name(key(1))).text.flatMap { UInt64($0) })
            #expect(told.tats[0] == tat)
            #expect((before...after).contains(told.at))
            #expect(told == store.take(charge, want: want, now: told.at))
            granted += told.granted
        }
        #expect(granted > 40 && granted < 3_600)
    }

    private func serverTime() throws -> UInt64 {
        let parts = try link.ask("TIME").elements.compactMap { $0.text.flatMap { UInt64($0) } }
        return try #require(parts.count == 2 ? parts[0] * 1_000_000 + parts[1] : nil)
    }

    /// Nothing stays in the server for ever, and nothing goes before it is full again.
    @Test func everyCountLivesUntilItIsFull() throws {
        for (number, text) in ["10/s", "3/d", "60/m+burst=1", "1000000/s+burst=1"].enumerated() {
            let charge = LimitCharge([.init(key: key(UInt64(number)), rate: try rate(text))])
            let told = try take(charge, want: 1)
            let reset = Int64(told.tats[0] - told.at)
            let life = try #require(try link.ask("PTTL", name(key(UInt64(number)))).integer)
            // A count of some microseconds may have gone by now.
            guard reset > 10_000_000 || life > 0 else { continue }
            #expect(life <= reset / 1_000 + 2, "\(text)")
            #expect(reset < 10_000_000 || life > reset / 1_000 - 5_000, "\(text)")
        }
        #expect(try take(LimitCharge([.init(key: key(50), rate: try rate("1/d"))]), want: 0).granted == 0)
        #expect(try link.ask("EXISTS", name(key(50))) == .integer(0))
    }

    /// What one count refuses is taken from no other.
    @Test func aRefusalCostsNothing() throws {
        let (wide, narrow) = (LimitCharge.Item(key: key(1), rate: try rate("10/h")), LimitCharge.Item(key: key(2), rate: try rate("1/h")))
        let now: UInt64 = 1_800_000_000_000_000
        #expect(try take(LimitCharge([wide, narrow]), want: 5, now: now).granted == 1)
        for step in 1...50 as ClosedRange<UInt64> {
            let refused = try take(LimitCharge([wide, narrow]), want: 1, now: now + step)
            #expect(refused.granted == 0)
            #expect(refused.reading(0, wide.rate).retryAfter == 0)
            #expect(refused.reading(1, narrow.rate).retryAfter == 3_600_000_000 - step)
        }
        #expect(try take(LimitCharge([wide]), want: 99, now: now + 60).granted == 9)
    }

    /// Whatever stands under a key: no error, no more than the bound, and one interval later all is well.
    @Test(arguments: [
        ["SET", "no number"], ["SET", ""], ["SET", "1e300"], ["SET", "-5"], ["SET", "1800000000000000.5"], ["SET", "inf"],
        ["SET", "nan"], ["SET", "0x7fffffffffffff"], ["SET", "9007199254740993"], ["SET", "1800003600000001"],
        ["RPUSH", "x"], ["HSET", "f", "v"], ["SADD", "x"], ["ZADD", "1", "x"], ["PFADD", "x"], ["XADD", "*", "f", "v"],
    ])
    func aForeignValueIsMended(_ words: [String]) throws {
        let charge = LimitCharge([.init(key: key(1), rate: try rate("10/h")), .init(key: key(2), rate: try rate("99/h"))])
        let now: UInt64 = 1_800_000_000_000_000
        #expect(try link.ask([words[0], name(key(1))] + words.dropFirst()) != .error(""))
        let first = try take(charge, want: 3, now: now)
        #expect(first.granted == 0)
        #expect(first.reading(0, charge[0].rate) == LimitReading(remaining: 0, reset: 3_600_000_000, retryAfter: 360_000_000))
        #expect(first.reading(1, charge[1].rate).remaining == 99)
        #expect(try link.ask("GET", name(key(1))) == .text("\(now + 3_600_000_000)"))
        #expect(try #require(try link.ask("PTTL", name(key(1))).integer) > 0)
        #expect(try take(charge, want: 3, now: now + 360_000_000).granted == 1)
    }

    @Test func aClockThatWasSetBackLocksNobodyOut() throws {
        let charge = LimitCharge([.init(key: key(1), rate: try rate("10/h"))])
        let now: UInt64 = 1_800_000_000_000_000
        #expect(try take(charge, want: 20, now: now).granted == 10)
        let day: UInt64 = 86_400_000_000
        #expect(try take(charge, want: 1, now: now - day).reading(0, charge[0].rate).retryAfter == 360_000_000)
        #expect(try take(charge, want: 1, now: now - day + 360_000_000).granted == 1)
    }

    @Test func theServerLearnsNothingOfAnybody() throws {
        let house = try Gatehouse([try { var rule = rule("feed", "/f/*", auth: .none); rule.limits = [try LimitPolicy(parsing: "5/m", tiers: .standard)]; return rule }()])
        let keys = house.keys("/f/x")
        _ = try take(LimitCharge([.init(key: keys[0], rate: try rate("5/m"))]), want: 1)
        let names = try link.ask("KEYS", "*").elements.compactMap(\.text)
        #expect(names.count == 1)
        #expect(names.allSatisfy { $0.hasPrefix("tollgate:rl:") && $0.utf8.count == 44 })
    }
}

@Suite struct GCRAReplyTests {
    @Test func aReplyIsRead() throws {
        let rate = try #require(LimitRate(parsing: "10/s"))
        let reply = GCRAReply(counts: 2, "2 1700000000 0 1700000000500000 1700000001000000")
        #expect(reply?.granted == 2)
        #expect(reply?.at == 1_700_000_000_000_000)
        #expect(reply?.reading(0, rate) == LimitReading(remaining: 5, reset: 500_000, retryAfter: 0))
        #expect(reply?.reading(1, rate) == LimitReading(remaining: 0, reset: 1_000_000, retryAfter: 100_000))
    }

    @Test(arguments: [
        "", "1", "1 9", "1 0 9", "1 0 9 9 9", "1 0 9 8", "-1 0 9 9", "1 -9 9 9", "1 0 9 -9", "1 0 9 9 ", " 1 0 9 9", "1  0 9 9",
        "1 0 9 9.5", "1 0 9 9e1", "1,0,9,9", "4294967296 0 9 9", "99999999999999999 0 9 9", "1 10000000000 0 9999999999999999",
        "1 0 1000000 1000000", "1 0 9 123456789012345678901234567890", "1 0 9 1234567x", "1 0 9 x2345678", "1 0 9 nan",
    ])
    func whatIsNoReplyIsNone(_ text: String) {
        #expect(GCRAReply(counts: 1, text) == nil)
    }
}

extension GCRAReply {
    fileprivate init?(counts: Int, _ text: String) {
        let bytes = Array(text.utf8)
        self.init(counts: counts, bytes.rawBytes)
    }
}
