import Testing
import Wire

@testable import Accounts

/// The estimate of the clock of the store's server. Times in milliseconds.
@Suite struct StoreClockTests {
    /// `wall` is the gateway's time of day.
    private func moment(_ monotonic: Int64, wall: Int64 = 0) -> Moment {
        Moment(monotonic: MonotonicTime(nanoseconds: UInt64(monotonic) * 1_000_000), wall: WallTime(microseconds: wall * 1_000))
    }

    private struct Reading {
        let time: Int64
        let asked: Int64
        let answered: Int64
    }

    /// Readings, and the store's time at 1000 after them. The gateway's time of day is 5000 when its monotonic clock shows 0.
    @Test(
        arguments: [
            // It agrees within the reading: the gateway's own time.
            ([(5_010, 0, 20)], 6_000),
            // It is ahead, or behind, by what the reading shows at least.
            ([(9_000, 0, 20)], 9_980), ([(1_000, 0, 20)], 2_000),
            // A later reading that is nearer moves it, one that was slow and agrees does not.
            ([(9_000, 0, 100), (9_300, 200, 202)], 10_098), ([(9_000, 0, 20), (9_500, 0, 900)], 9_980),
            // The clock was set, or another server answers.
            ([(9_000, 0, 20), (90_000, 100, 110)], 90_890), ([(90_000, 0, 20), (9_000, 100, 110)], 9_900),
        ] as [([(Int64, Int64, Int64)], Int64)])
    func theEstimateIsWithinTheLastReading(_ readings: [(Int64, Int64, Int64)], _ expected: Int64) {
        let clock = StoreClock()
        #expect(clock.time(at: moment(7, wall: 5_007)).microseconds == 5_007_000 && clock.skew(at: moment(7)) == nil)
        for (time, asked, answered) in readings {
            let own = { (monotonic: Int64) in moment(monotonic, wall: 5_000 + monotonic) }
            clock.read(WallTime(microseconds: time * 1_000), from: own(asked), to: own(answered))
        }
        // The gateway's time of day has been set meanwhile.
        #expect(clock.time(at: moment(1_000, wall: 77)).microseconds == expected * 1_000)
        #expect(clock.skew(at: moment(1_000, wall: 6_000)) == (6_000 - expected) * 1_000)
    }

    @Test func itStandsStillForASmallCorrection() {
        let clock = StoreClock()
        clock.read(WallTime(microseconds: 5_000_000), from: moment(0), to: moment(0))
        #expect(clock.time(at: moment(100)).microseconds == 5_100_000)
        clock.read(WallTime(microseconds: 5_050_000), from: moment(100), to: moment(100))
        #expect([100, 120, 150, 170].map { clock.time(at: moment($0)).microseconds / 1_000 } == [5_100, 5_100, 5_100, 5_120])
        clock.read(WallTime(microseconds: 1_000_000), from: moment(200), to: moment(200))
        #expect(clock.time(at: moment(200)).microseconds == 1_000_000)
    }
}
