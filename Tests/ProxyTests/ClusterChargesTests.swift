import Gate
@testable import Limits
import Redis
import TestThreads
import Testing
import Wire

@testable import Proxy

/// How charges are divided among the calls to a cluster, and their replies joined.
@Suite(.ownThread) struct ClusterChargesTests {
    private static let now = MonotonicTime(nanoseconds: 1_000_000_000)

    /// A charge of counts with these hash tags.
    private static func command(_ tags: [UInt8]) throws -> LimitCommand {
        var command = LimitCommand()
        let rate = try #require(LimitRate(parsing: "10/s"))
        command.ask(tags.enumerated().map { .init(key: LimitKey(high: UInt64($0), low: 1), rate: rate, subject: .user, tag: HashTag($1)) })
        return command
    }

    /// The calls that are to be sent: each its tag, and per part the counts.
    private static func calls(_ charges: inout ClusterCharges) -> [(index: Int, tag: UInt8, parts: [UInt8], keys: Int)] {
        var found: [(index: Int, tag: UInt8, parts: [UInt8], keys: Int)] = []
        while true {
            let index = charges.nextToSend()
            guard index >= 0 else { return found }
            var (parts, next): ([UInt8], Int32) = ([], charges.calls[index].first)
            while next >= 0 {
                parts.append(charges.parts[Int(next)].counts)
                next = charges.parts[Int(next)].next
            }
            found.append((index, charges.calls[index].tag.number, parts, charges.calls[index].keys))
        }
    }

    @Test func chargesOfOneTagShareACallUpToThirtyTwo() throws {
        var charges = ClusterCharges()
        for _ in 0..<33 {
            var command = try Self.command([7, 7])
            charges.add(&command, Self.now)
        }
        var other = try Self.command([8])
        charges.add(&other, Self.now)
        let calls = Self.calls(&charges)
        #expect(calls.map(\.tag) == [7, 7, 8] && calls.map(\.parts.count) == [32, 1, 1] && calls.map(\.keys) == [64, 2, 1])
        // A call that is sent gathers no more.
        var later = try Self.command([8])
        charges.add(&later, Self.now)
        let last = Self.calls(&charges)
        #expect(last.map(\.tag) == [8])
    }

    @Test func aChargeOfSeveralTagsHasOneCallForEach() throws {
        var charges = ClusterCharges()
        var command = try Self.command([1, 2, 1, 3])
        charges.add(&command, Self.now)
        let calls = Self.calls(&charges)
        #expect(calls.map(\.tag) == [1, 2, 3] && calls.map(\.parts) == [[0b101], [0b10], [0b1000]])
        let parts = calls.map { charges.parts[Int(charges.calls[$0.index].first)] }
        var reply = GCRAReply()
        (reply.granted, reply.at) = (3, 1_000)
        (reply.tats[0], reply.tats[1]) = (1_300, 1_500)
        let first = charges.joined(parts[0], reply)
        (reply.granted, reply.at, reply.tats[0]) = (1, 90_000, 90_200)
        let second = charges.joined(parts[1], reply)
        let third = charges.joined(parts[2], nil)
        #expect([first, second, third] == [false, false, true])
        let join = Int(parts[0].join)
        let (some, answered) = (charges.granted(join), charges.joins[join].answered)
        let granted = try #require(some)
        #expect(granted == 1 && answered == 0b111)
        // By the clock of the first node, without the two grants that the others did not give.
        let joined = charges.reply(join, granted) { _ in 100 }
        #expect(joined.at == 1_000 && joined.granted == 1)
        #expect([joined.tats[0], joined.tats[1], joined.tats[2], joined.tats[3]] == [1_100, 1_200, 1_300, 0])
    }

    @Test func aCallForASlotThatMovesIsDividedAndSoAreLaterOnes() throws {
        var charges = ClusterCharges()
        for _ in 0..<2 {
            var command = try Self.command([5, 5])
            charges.add(&command, Self.now)
        }
        let gathered = Self.calls(&charges)
        let whole = try #require(gathered.first)
        #expect(whole.keys == 4)
        let mayRepeat = charges.mayRepeat(whole.index, deadline: 25, Self.now)
        #expect(mayRepeat)
        charges.divide(whole.index, Self.now)
        let singles = Self.calls(&charges)
        #expect(singles.map(\.parts) == [[1], [2], [1], [2]] && singles.allSatisfy { $0.keys == 1 })
        var later = try Self.command([5, 5])
        charges.add(&later, Self.now.advanced(milliseconds: 999))
        let soon = Self.calls(&charges)
        #expect(soon.map(\.keys) == [1, 1])
        charges.add(&later, Self.now.advanced(milliseconds: 1_000))
        let afterwards = Self.calls(&charges)
        #expect(afterwards.map(\.keys) == [2])
    }

    @Test func aCallIsRepeatedThreeTimesAndNotAfterItsDeadline() throws {
        var charges = ClusterCharges()
        var command = try Self.command([5])
        charges.add(&command, Self.now)
        let calls = Self.calls(&charges)
        let call = try #require(calls.first).index
        let late = charges.mayRepeat(call, deadline: 25, Self.now.advanced(milliseconds: 25))
        let times = (0..<3).map { _ in charges.mayRepeat(call, deadline: 25, Self.now) }
        #expect(!late && times == [true, true, false])
    }
}
