import Testing
import Wire

@testable import Proxy

/// When a stream is asked about, warned and ended. Seconds since 1970.
struct StreamClockTests {
    private static func at(_ seconds: Double) -> WallTime { WallTime(microseconds: Int64(seconds * 1_000_000)) }

    @Test func closeEndsAtTheExpiryPlusTheLeeway() {
        var clock = StreamClock(expiresAt: 100, leeway: 30, extends: false)
        #expect(clock.nextAt == Self.at(130))
        #expect(clock.advance(to: Self.at(129.9)) == .nothing)
        #expect(clock.advance(to: Self.at(130)) == .end)
    }

    @Test func aRefreshMovesTheEnd() {
        var clock = StreamClock(expiresAt: 100, leeway: 30, extends: true)
        #expect(clock.advance(to: Self.at(130)) == .ask)
        #expect(clock.answered(400, at: Self.at(130.1)) == .nothing)
        #expect(clock.nextAt == Self.at(430))
        #expect(clock.advance(to: Self.at(430)) == .ask)
        // The token that is known is no newer one.
        #expect(clock.answered(400, at: Self.at(430.1)) == .end)
    }

    @Test func noAnswerInTimeIsNoRefresh() {
        var clock = StreamClock(expiresAt: 100, leeway: 0, extends: true)
        #expect(clock.advance(to: Self.at(100)) == .ask)
        #expect(clock.advance(to: Self.at(102.4)) == .nothing)
        #expect(clock.advance(to: Self.at(102.5)) == .end)
        // An answer that comes after that changes nothing.
        #expect(clock.answered(500, at: Self.at(102.6)) == .nothing)
    }

    @Test func theWarningTellsTheSecondsThatAreLeft() {
        var clock = StreamClock(expiresAt: 100, leeway: 30, extends: false, warningMilliseconds: 60_000)
        #expect(clock.nextAt == Self.at(70))
        #expect(clock.advance(to: Self.at(70.01)) == .warn(seconds: 60))
        #expect(clock.advance(to: Self.at(70.02)) == .nothing)
        #expect(clock.nextAt == Self.at(130))
        // A stream that opens late is warned at once.
        var late = StreamClock(expiresAt: 100, leeway: 30, extends: false, warningMilliseconds: 60_000)
        #expect(late.advance(to: Self.at(127.5)) == .warn(seconds: 3))
        #expect(late.advance(to: Self.at(130)) == .end)
    }

    @Test func aClientThatHasRefreshedIsNotWarnedAndLaterIsAgain() {
        var clock = StreamClock(expiresAt: 100, leeway: 0, extends: true, warningMilliseconds: 10_000)
        #expect(clock.advance(to: Self.at(90)) == .ask)
        #expect(clock.answered(200, at: Self.at(90)) == .nothing)
        #expect(clock.nextAt == Self.at(190))
        #expect(clock.advance(to: Self.at(190)) == .ask)
        #expect(clock.answered(200, at: Self.at(190)) == .warn(seconds: 10))
        // It refreshes because of the warning.
        #expect(clock.advance(to: Self.at(200)) == .ask)
        #expect(clock.answered(300, at: Self.at(200)) == .nothing)
        #expect(clock.nextAt == Self.at(290))
    }

    /// The question was asked before the end, so the answer may miss a refresh in between.
    @Test func anAnswerAcrossTheEndIsAskedForAgain() {
        var clock = StreamClock(expiresAt: 100, leeway: 0, extends: true, warningMilliseconds: 1_000)
        #expect(clock.advance(to: Self.at(99)) == .ask)
        #expect(clock.answered(100, at: Self.at(100.5)) == .ask)
        #expect(clock.answered(300, at: Self.at(100.6)) == .nothing)
    }

    /// In any order of events, a stream ends within the patience after its last known end, and not before it.
    @Test func itAlwaysEndsAndNeverEarly() {
        var random = SplitMix64(seed: 7)
        for _ in 0..<2_000 {
            let warning = random.next() % 2 == 0 ? nil : UInt32(random.next() % 20_000)
            let leeway = Int64(random.next() % 3) * 5
            var clock = StreamClock(expiresAt: 100, leeway: leeway, extends: random.next() % 4 > 0, warningMilliseconds: warning)
            var (end, now, steps) = (100 + leeway, Self.at(Double(random.next() % 100)), 0)
            var (asks, refreshes) = (false, 0)
            while steps < 1_000 {
                steps += 1
                var action = StreamClock.Action.nothing
                if asks, random.next() % 2 == 0 {
                    asks = false
                    let newest = refreshes < 5 && random.next() % 2 == 0 ? end - leeway + 50 : end - leeway
                    if newest > end - leeway { refreshes += 1 }
                    end = newest + leeway
                    action = clock.answered(newest, at: now)
                } else {
                    now = max(now, clock.nextAt)
                    asks = false
                    action = clock.advance(to: now)
                }
                switch action {
                case .ask: asks = true
                case .warn(let seconds): #expect(seconds > 0 && seconds <= Int64((warning ?? 0) + 999) / 1_000)
                case .nothing: break
                case .end: steps = .max
                }
                if steps == .max { break }
            }
            #expect(
                steps == .max && now >= Self.at(Double(end)) && now.microseconds <= (end * 1_000_000) + StreamClock.patience + 200_000_000)
        }
    }
}
