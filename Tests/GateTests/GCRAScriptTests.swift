@testable import Limits
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

    /// The script with a fixed time. Its keys live an hour longer, because the server's
    /// clock runs on between two steps of the test.
    private static let timed = GCRAScript.source(
        clock: """
            local time = {ARGV[#ARGV - 1], ARGV[#ARGV]}
            ARGV[#ARGV], ARGV[#ARGV - 1] = nil, nil
            call = function(set, key, value, px, life) return redis.call(set, key, value, px, life + 3600000) end
            """)

    /// The keys of some charges, then the numbers by which each is counted, a run for each that is unlike the one before.
    private func words(_ takes: [(charge: LimitCharge, want: UInt32)]) -> (keys: [LimitKey], arguments: [String]) {
        var runs: [(length: Int, numbers: [UInt64])] = []
        for take in takes {
            var command = LimitCommand()
            command.charge = take.charge
            command.want = take.want
            var numbers = LimitNumbers(repeating: 0)
            _ = command.update(&numbers)
            let its = (0..<2 + 2 * command.count).map { numbers[$0] }
            if runs.last?.numbers == its { runs[runs.count - 1].length += 1 } else { runs.append((1, its)) }
        }
        let keys = takes.flatMap { take in (0..<take.charge.count).map { take.charge[$0].key } }
        return (keys, runs.flatMap { ["\($0.length)"] + $0.numbers.map { "\($0)" } })
    }

    /// The server's reply at `now`, or by its own clock.
    private func take(_ takes: [(charge: LimitCharge, want: UInt32)], now: UInt64? = nil) throws -> [GCRAReply] {
        let (keys, arguments) = words(takes)
        let answer = try link.run(GCRAScript.source, timed: Self.timed, keys: keys, arguments, now: now)
        let text = try #require(answer.text, "\(answer)")
        return try #require(GCRAReply.all(takes.map(\.charge.count), text), "\(answer)")
    }

    private func take(_ charge: LimitCharge, want: UInt32, now: UInt64? = nil) throws -> GCRAReply {
        try take([(charge, want)], now: now)[0]
    }

    private func rate(_ text: String) throws -> LimitRate { try #require(LimitRate(parsing: text)) }

    /// The same seeded traffic, one to four counts at a time, gives the same answers and the same counts in both.
    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func theScriptAndTheFunctionAgree(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let rates = try ["10/s", "60/m+burst=7", "7/s+burst=3", "1000000/s", "3/d", "100/s+lease", "1/d+burst=10000", "9/m+burst=1"].map(
            rate)
        var store = SimulatedRedis()
        // A time as it is now, in microseconds since 1970.
        var now: UInt64 = 1_800_000_000_000_000
        var granted: UInt32 = 0
        for step in 0..<1_500 {
            now += random.next() % 3 == 0 ? random.next() % 5_000_000 : random.next() % 2_000
            let first = random.next() % 8
            let charge = LimitCharge(
                (0..<1 + random.next() % 4).map { index in
                    let number = (first + index) % 8
                    return .init(key: LimitKey(number), rate: rates[Int(number)])
                })
            let want = UInt32(1 + random.next() % (random.next() % 5 == 0 ? 5_000 : 4))
            let told = try take(charge, want: want, now: now)
            #expect(told == store.take(charge, want: want, now: now), "step \(step)")
            granted += told.granted
        }
        #expect(granted > 1_000)
        for (key, tat) in store.tats where tat > now + 5_000_000 { #expect(try link.ask("GET", key.name) == .text("\(tat)")) }
    }

    /// Charges of one command are as if each had come by itself, those that share counts with one before included.
    @Test(arguments: [5, 6] as [UInt64])
    func chargesOfOneCommandCountOneAfterTheOther(_ seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let rates = try ["10/s", "60/m+burst=7", "1000/s", "9/m+burst=1"].map(rate)
        var store = SimulatedRedis()
        var now: UInt64 = 1_800_000_000_000_000
        var (granted, refused) = (0, 0)
        for step in 0..<300 {
            now += random.next() % 3 == 0 ? random.next() % 5_000_000 : random.next() % 2_000
            let counts = random.next() % 3 == 0 ? 3 : 1 as UInt64
            let takes = (0..<1 + random.next() % UInt64(GCRAScript.maxCharges)).map { _ in
                let first = random.next() % 12
                let items = (0..<1 + random.next() % counts).map { index in
                    LimitCharge.Item(key: LimitKey((first + index) % 12), rate: rates[Int((first + index) % 12 / 3)])
                }
                return (charge: LimitCharge(items), want: UInt32(1 + random.next() % 2))
            }
            let told = try take(takes, now: now)
            #expect(told == takes.map { store.take($0.charge, want: $0.want, now: now) }, "step \(step)")
            granted += told.count { $0.granted > 0 }
            refused += told.count { $0.granted == 0 }
        }
        #expect(granted > 500 && refused > 500)
    }

    /// By the server's own clock, which is in each reply.
    @Test func theProductsScriptGoesByTheServersClock() throws {
        let charge = LimitCharge([.init(key: LimitKey(1), rate: try rate("2000/s+burst=40"))])
        var store = SimulatedRedis()
        var granted: UInt32 = 0
        var random = SplitMix64(seed: 8)
        for _ in 0..<600 {
            let before = try link.time()
            let want = UInt32(1 + random.next() % 6)
            let told = try take(charge, want: want)
            let after = try link.time()
            let kept = try link.ask("GET", LimitKey(1).name).text
            // On a busy machine a count of twenty milliseconds may be full, and gone, by now.
            let isFull = try kept == nil && link.time() > told.tats[0]
            #expect(kept == "\(told.tats[0])" || isFull)
            #expect((before...after).contains(told.at))
            #expect(told == store.take(charge, want: want, now: told.at))
            granted += told.granted
        }
        #expect(granted > 40 && granted < 3_600)
    }

    /// Nothing stays in the server for ever, and nothing goes before it is full again.
    @Test func everyCountLivesUntilItIsFull() throws {
        for (number, text) in ["10/s", "3/d", "60/m+burst=1", "1000000/s+burst=1"].enumerated() {
            let charge = LimitCharge([.init(key: LimitKey(UInt64(number)), rate: try rate(text))])
            let told = try take(charge, want: 1)
            let reset = Int64(told.tats[0] - told.at)
            let life = try #require(try link.ask("PTTL", LimitKey(UInt64(number)).name).integer)
            // The server may have answered seconds later.
            let passed = Int64(try link.time() - told.at) / 1_000
            // A count of some microseconds may have gone by now.
            guard reset > 10_000_000 || life > 0 else { continue }
            #expect(life <= reset / 1_000 + 2, "\(text)")
            #expect(reset < 10_000_000 || life >= reset / 1_000 - passed - 2, "\(text)")
        }
        #expect(try take(LimitCharge([.init(key: LimitKey(50), rate: try rate("1/d"))]), want: 0).granted == 0)
        #expect(try link.ask("EXISTS", LimitKey(50).name) == .integer(0))
    }

    /// A refusal by one count charges none.
    @Test func aRefusalCostsNothing() throws {
        let (wide, narrow) = (
            LimitCharge.Item(key: LimitKey(1), rate: try rate("10/h")), LimitCharge.Item(key: LimitKey(2), rate: try rate("1/h"))
        )
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

    /// Any value under a key: no error, no more than the bound, and repaired one interval later.
    @Test(arguments: [
        ["SET", "no number"], ["SET", ""], ["SET", "1e300"], ["SET", "-5"], ["SET", "1800000000000000.5"], ["SET", "inf"],
        ["SET", "nan"], ["SET", "0x7fffffffffffff"], ["SET", "9007199254740993"], ["SET", "1800003600000001"],
        ["RPUSH", "x"], ["HSET", "f", "v"], ["SADD", "x"], ["ZADD", "1", "x"], ["PFADD", "x"], ["XADD", "*", "f", "v"],
    ])
    func aForeignValueIsMended(_ words: [String]) throws {
        let charge = LimitCharge([.init(key: LimitKey(1), rate: try rate("10/h")), .init(key: LimitKey(2), rate: try rate("99/h"))])
        let now: UInt64 = 1_800_000_000_000_000
        #expect(try link.ask([words[0], LimitKey(1).name] + words.dropFirst()) != .error(""))
        let first = try take(charge, want: 3, now: now)
        #expect(first.granted == 0)
        #expect(first.reading(0, charge[0].rate) == LimitReading(remaining: 0, reset: 3_600_000_000, retryAfter: 360_000_000))
        #expect(first.reading(1, charge[1].rate).remaining == 99)
        #expect(try link.ask("GET", LimitKey(1).name) == .text("\(now + 3_600_000_000)"))
        #expect(try #require(try link.ask("PTTL", LimitKey(1).name).integer) > 0)
        #expect(try take(charge, want: 3, now: now + 360_000_000).granted == 1)
    }

    @Test func aClockThatWasSetBackLocksNoCallerOut() throws {
        let charge = LimitCharge([.init(key: LimitKey(1), rate: try rate("10/h"))])
        let now: UInt64 = 1_800_000_000_000_000
        #expect(try take(charge, want: 20, now: now).granted == 10)
        let day: UInt64 = 86_400_000_000
        #expect(try take(charge, want: 1, now: now - day).reading(0, charge[0].rate).retryAfter == 360_000_000)
        #expect(try take(charge, want: 1, now: now - day + 360_000_000).granted == 1)
    }

    @Test func redisKeysRevealNoSubject() throws {
        let harness = try AdmissionHarness([
            try {
                var rule = rule("feed", "/f/*", auth: .none); rule.limits = [try LimitPolicy(parsing: "5/m", tiers: .standard)]; return rule
            }()
        ])
        let keys = harness.keys("/f/x")
        _ = try take(LimitCharge([.init(key: keys[0], rate: try rate("5/m"))]), want: 1)
        let names = try link.ask("KEYS", "*").elements.compactMap(\.text)
        #expect(names.count == 1)
        #expect(names.allSatisfy { $0.hasPrefix("tollgate:rl:") && $0.utf8.count == 44 })
    }
}

@Suite struct GCRAReplyTests {
    @Test func aReplyIsRead() throws {
        let rate = try #require(LimitRate(parsing: "10/s"))
        let reply = GCRAReply(counts: 2, "1700000000 0 2 1700000000500000 1700000001000000")
        #expect(reply?.granted == 2)
        #expect(reply?.at == 1_700_000_000_000_000)
        #expect(reply?.reading(0, rate) == LimitReading(remaining: 5, reset: 500_000, retryAfter: 0))
        #expect(reply?.reading(1, rate) == LimitReading(remaining: 0, reset: 1_000_000, retryAfter: 100_000))
    }

    @Test func theRepliesOfACallAreReadOneAfterTheOther() {
        let replies = GCRAReply.all([1, 2, 0, 1], "7 5 1 7000005 0 7000009 7000006 3 12 7000005")
        #expect(replies?.map(\.granted) == [1, 0, 3, 12])
        #expect(replies?.map { [$0.tats[0], $0.tats[1]] } == [[7_000_005, 0], [7_000_009, 7_000_006], [0, 0], [7_000_005, 0]])
        #expect(replies?.allSatisfy { $0.at == 7_000_005 } == true)
        for text in ["7 5", "7 5 1 7000005", "7 5 1 7000005 1", "7 5 1 7000005 1 7000005 1", "7 5 1 7000005 1 x"] {
            #expect(GCRAReply.all([1, 1], text) == nil, "\(text)")
        }
    }

    @Test(arguments: [
        "", "0", "0 9", "0 9 1", "0 9 1 9 9", "0 9 1 8", "0 9 -1 9", "0 -9 1 9", "0 9 1 -9", "0 9 1 9 ", " 0 9 1 9", "0  9 1 9",
        "0 9 1 9.5", "0 9 1 9e1", "0,9,1,9", "0 9 4294967296 9", "0 9 99999999999999999 9", "10000000000 0 1 9999999999999999",
        "0 1000000 1 1000000", "0 9 1 123456789012345678901234567890", "0 9 1 1234567x", "0 9 1 x2345678", "0 9 1 nan",
    ])
    func anInvalidReplyIsNil(_ text: String) {
        #expect(GCRAReply(counts: 1, text) == nil)
    }

    /// Parsing any input ends, and each parsed reply is one that the script could have sent.
    @Test func corruptRepliesAreParsedToAnEnd() {
        var random = SplitMix64(seed: 3)
        let whole = Array("1700000000 5 1 1700000000500000 0 1700000001000000 31 1700000000000005".utf8)
        var read = 0
        for _ in 0..<20_000 {
            var bytes = whole
            for _ in 0..<1 + random.next() % 3 {
                let place = Int(random.next() % UInt64(bytes.count))
                switch random.next() % 4 {
                case 0: bytes[place] = UInt8(truncatingIfNeeded: random.next())
                case 1: bytes[place] = UInt8(ascii: "0") + UInt8(random.next() % 10)
                case 2: bytes.removeSubrange(place..<min(bytes.count, place + 9))
                default: bytes.insert(UInt8(ascii: " "), at: place)
                }
                if bytes.isEmpty { bytes = [0x20] }
            }
            guard var replies = GCRAReplies(bytes.rawBytes) else { continue }
            while let reply = replies.next(counts: Int(random.next() % 3), bytes.rawBytes) {
                read += 1
                #expect((0..<4).allSatisfy { reply.tats[$0] == 0 || reply.tats[$0] >= reply.at })
            }
        }
        #expect(read > 10_000)
    }
}

extension GCRAReply {
    fileprivate init?(counts: Int, _ text: String) {
        let bytes = Array(text.utf8)
        self.init(counts: counts, bytes.rawBytes)
    }

    /// The replies to a call of charges with so many counts; nil if the text is not just that.
    fileprivate static func all(_ counts: [Int], _ text: String) -> [GCRAReply]? {
        let bytes = Array(text.utf8)
        guard var replies = GCRAReplies(bytes.rawBytes) else { return nil }
        var all: [GCRAReply] = []
        for counts in counts {
            guard let reply = replies.next(counts: counts, bytes.rawBytes) else { return nil }
            all.append(reply)
        }
        return replies.isAtEnd ? all : nil
    }
}
