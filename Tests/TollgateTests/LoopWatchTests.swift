import Testing
import Wire

@testable import tollgate

/// The judgement on which systemd's watchdog and `/livez` rest.
@Suite struct LoopWatchTests {
    private static func at(_ milliseconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: milliseconds * 1_000_000) }

    @Test func allLoopsMustTurnBetweenTwoPings() {
        var watch = LoopWatch(3)
        #expect(watch.look([0, 0, 0], at: Self.at(0)) == [0, 1, 2], "none has begun")
        #expect(watch.look([1, 7, 0], at: Self.at(1_000)) == [2])
        #expect(watch.look([1, 7, 1], at: Self.at(2_000)) == [], "they need not turn at the same time")
        #expect(watch.look([1, 8, 2], at: Self.at(3_000)) == [0], "a turn counts for one ping")
        #expect(watch.look([2, 8, 2], at: Self.at(4_000)) == [])
    }

    @Test func aLoopThatDoesNotTurnIsStuckAfterTenSeconds() {
        var watch = LoopWatch(2)
        #expect(watch.look([5, 5], at: Self.at(1_000)) == [])
        for second in 2...10 { #expect(watch.look([5, UInt64(4 + second)], at: Self.at(UInt64(second) * 1_000)) == [0]) }
        #expect(watch.stuck([5, 14], at: Self.at(10_999)) == [])
        #expect(watch.stuck([5, 14], at: Self.at(11_000)) == [0])
        #expect(watch.stuck([6, 14], at: Self.at(11_000)) == [], "it has turned since the last look")
        #expect(watch.look([6, 15], at: Self.at(12_000)) == [])
        #expect(watch.stuck([6, 15], at: Self.at(12_000)) == [])
    }

    @Test func aLoopThatNeverBeganIsStuckToo() {
        var watch = LoopWatch(1)
        #expect(watch.stuck([0], at: Self.at(60_000)) == [], "before the first look, the gateway starts")
        #expect(watch.look([0], at: Self.at(60_000)) == [0])
        #expect(watch.stuck([0], at: Self.at(69_999)) == [])
        #expect(watch.stuck([0], at: Self.at(70_000)) == [0])
    }

    @Test func aWorkerThatHasEndedHoldsNothingUp() {
        var watch = LoopWatch(2)
        #expect(watch.look([3, 3], at: Self.at(0)) == [])
        #expect(watch.look([nil, 4], at: Self.at(1_000)) == [])
        #expect(watch.look([nil, 5], at: Self.at(60_000)) == [])
        #expect(watch.stuck([nil, 5], at: Self.at(60_000)) == [])
    }
}
