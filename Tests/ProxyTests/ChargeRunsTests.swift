@testable import Limits
import Redis
import TestThreads
import Testing
import Wire

@testable import Gate
@testable import Proxy

/// How charges stand in a call of the script.
@Suite(.ownThread) struct ChargeRunsTests {
    private func item(_ key: UInt64, _ rate: String) throws -> LimitCharge.Item {
        LimitCharge.Item(key: LimitKey(high: key, low: 0), rate: try #require(LimitRate(parsing: rate)), subject: .address)
    }

    private func key(_ number: UInt64) -> String { "tollgate:rl:" + LimitKey(high: number, low: 0).text }

    /// The arguments of a call as the server reads them, keys first.
    private func call(_ takes: [(want: UInt32, items: [LimitCharge.Item])], _ runs: inout ChargeRuns) -> (keys: Int, words: [String]) {
        var scripts = RedisScripts()
        var call = RedisCall()
        call.begin(scripts.register(RedisScript(name: "take", source: "")))
        for take in takes {
            var command = LimitCommand()
            command.want = take.want
            for item in take.items { command.charge.append(item) }
            runs.append(&command, to: &call)
        }
        runs.end(&call)
        let text = call.arguments.bytes.readable.text
        return (call.keys, text.split(separator: "\r\n").enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) })
    }

    @Test func chargesThatAreCountedAlikeHaveTheirNumbersOnce() throws {
        var runs = ChargeRuns()
        let (fast, slow) = ("10/s", "60/m+burst=6")
        let one = try call([(1, [item(1, fast)])], &runs)
        #expect(one.keys == 1)
        #expect(one.words == [key(1), "1", "1", "1", "100000", "1000000"])
        // The output for an earlier call is not reused for another.
        let three = try call([(1, [item(1, fast)]), (1, [item(2, fast)]), (1, [item(3, fast)])], &runs)
        #expect(three.keys == 3)
        #expect(three.words == [key(1), key(2), key(3), "3", "1", "1", "100000", "1000000"])
        let mixed = try call(
            [
                (1, [item(1, fast)]), (2, [item(2, fast)]), (2, [item(3, fast), item(4, slow)]), (2, [item(5, fast), item(6, slow)]),
                (1, [item(7, slow)]),
            ], &runs)
        #expect(mixed.keys == 7)
        #expect(
            mixed.words == (1...7).map(key) + [
                "1", "1", "1", "100000", "1000000", "1", "2", "1", "100000", "1000000",
                "2", "2", "2", "100000", "1000000", "1000000", "6000000", "1", "1", "1", "1000000", "6000000",
            ])
    }
}
