import Testing
import Wire
import Workbench

@testable import Issuers

@Suite struct JWKSScheduleTests {
    /// A schedule whose first fetch, at second 0, brought keys.
    private func fetched(maxAge: UInt64? = nil) -> JWKSSchedule {
        var schedule = JWKSSchedule(now: moment(0))
        #expect(schedule.next(now: moment(0)) == .fetch)
        schedule.fetched(now: moment(0), maxAge: maxAge)
        return schedule
    }

    @Test func theFirstFetchIsAtOnce() {
        var schedule = JWKSSchedule(now: moment(0))
        #expect(!schedule.hasKeys)
        #expect(schedule.next(now: moment(0)) == .fetch)
        #expect(schedule.next(now: moment(9)) == .wait(until: MonotonicTime(nanoseconds: .max)))
    }

    @Test(arguments: [(nil, 300), (0, 60), (59_000, 60), (600_000, 600), (86_400_000, 3_600)] as [(UInt64?, UInt64)])
    func keysAreFetchedAgainAsTheirServerAllowsWithinBounds(_ maxAge: UInt64?, _ seconds: UInt64) {
        var schedule = fetched(maxAge: maxAge)
        #expect(schedule.next(now: moment(1)) == .wait(until: moment(seconds)))
        #expect(schedule.next(now: moment(seconds - 1)) == .wait(until: moment(seconds)))
        #expect(schedule.next(now: moment(seconds)) == .fetch)
    }

    @Test func failuresAreTriedAgainSlowerAndSlower() {
        var schedule = fetched()
        var now: UInt64 = 300
        for pause in [1, 2, 4, 8, 16, 32, 60, 60, 60] as [UInt64] {
            #expect(schedule.next(now: moment(now)) == .fetch)
            schedule.failed(now: moment(now), jitter: 0)
            now += pause
            #expect(schedule.next(now: moment(now - 1)) == .wait(until: moment(now)))
        }
        #expect(schedule.next(now: moment(now)) == .fetch)
        schedule.fetched(now: moment(now), maxAge: nil)
        #expect(schedule.next(now: moment(now + 300)) == .fetch)
        schedule.failed(now: moment(now + 300), jitter: 0)
        #expect(schedule.next(now: moment(now + 300)) == .wait(until: moment(now + 301)))
    }

    @Test func manyGatewaysDoNotTryAtTheSameMoment() {
        var random = SplitMix64(seed: 7)
        var waits: Set<UInt64> = []
        for _ in 0..<100 {
            var schedule = JWKSSchedule(now: moment(0))
            _ = schedule.next(now: moment(0))
            schedule.failed(now: moment(0), jitter: random.next())
            guard case .wait(let until) = schedule.next(now: moment(0)) else { continue }
            let wait = until.nanoseconds(since: moment(0)) / 1_000_000
            #expect((750...1000).contains(wait))
            waits.insert(wait)
        }
        #expect(waits.count > 50)
    }

    @Test func anUnknownKeyIsWorthOneFetchInTenSeconds() {
        var schedule = fetched()
        schedule.sawUnknownKey(now: moment(3))
        #expect(schedule.next(now: moment(3)) == .wait(until: moment(10)))
        schedule.sawUnknownKey(now: moment(4))
        #expect(schedule.next(now: moment(10)) == .fetch)
        schedule.fetched(now: moment(10), maxAge: nil)
        schedule.sawUnknownKey(now: moment(25))
        #expect(schedule.next(now: moment(25)) == .fetch)
        schedule.failed(now: moment(25), jitter: 0)
        schedule.sawUnknownKey(now: moment(25))
        #expect(schedule.next(now: moment(25)) == .wait(until: moment(26)))
    }

    @Test func anUnknownKeySeenDuringAFetchIsAskedForAfterIt() {
        var schedule = JWKSSchedule(now: moment(0))
        _ = schedule.next(now: moment(0))
        schedule.sawUnknownKey(now: moment(1))
        schedule.fetched(now: moment(2), maxAge: nil)
        #expect(schedule.next(now: moment(2)) == .wait(until: moment(10)))
        #expect(schedule.next(now: moment(10)) == .fetch)
        schedule.fetched(now: moment(11), maxAge: nil)
        #expect(schedule.next(now: moment(11)) == .wait(until: moment(311)))
    }

    @Test func keysOutliveTheirIssuerByADayAndNoLonger() {
        var schedule = fetched()
        var now: UInt64 = 300
        while now < 86_399 {
            if schedule.next(now: moment(now)) == .fetch { schedule.failed(now: moment(now), jitter: 0) }
            #expect(schedule.hasKeys)
            now += 61
        }
        #expect(schedule.next(now: moment(86_400)) == .dropKeys)
        #expect(!schedule.hasKeys)
        // Once, and then it goes on trying.
        #expect(schedule.next(now: moment(86_460)) == .fetch)
        schedule.fetched(now: moment(86_461), maxAge: nil)
        #expect(schedule.hasKeys)
    }

    @Test func keysAreDroppedEvenWhileAFetchHangs() {
        var schedule = fetched()
        #expect(schedule.next(now: moment(300)) == .fetch)
        #expect(schedule.next(now: moment(301)) == .wait(until: moment(86_400)))
        #expect(schedule.next(now: moment(86_400)) == .dropKeys)
    }

    @Test func keysKeptFromAnEarlierRunCountForTheRestOfTheirDay() {
        var schedule = JWKSSchedule(now: moment(0), cachedAge: 86_300_000)
        #expect(schedule.hasKeys)
        #expect(schedule.next(now: moment(0)) == .fetch)
        schedule.failed(now: moment(0), jitter: 0)
        #expect(schedule.next(now: moment(100)) == .dropKeys)
        #expect(!JWKSSchedule(now: moment(0), cachedAge: 86_400_000).hasKeys)
    }

    /// Every short run of events: never two fetches at a time, never two within a second, and keys exactly while some
    /// fetch within a day brought them.
    @Test func inEveryRunOfEventsTheBoundsHold() {
        var random = SplitMix64(seed: 0x3C5)
        for _ in 0..<300 {
            var schedule = JWKSSchedule(now: moment(0))
            var now: UInt64 = 0, lastFetch: UInt64?, lastGood: UInt64?, isFetching = false
            for _ in 0..<60 {
                now += [0, 1, 5, 30, 400, 40_000].randomElement(using: &random) ?? 0
                switch Int.random(in: 0...3, using: &random) {
                case 0 where isFetching:
                    schedule.fetched(now: moment(now), maxAge: UInt64.random(in: 0...7_200_000, using: &random))
                    (isFetching, lastGood) = (false, now)
                case 1 where isFetching:
                    schedule.failed(now: moment(now), jitter: 0)
                    isFetching = false
                case 2: schedule.sawUnknownKey(now: moment(now))
                default: break
                }
                while true {
                    let step = schedule.next(now: moment(now))
                    if case .wait = step { break }
                    guard step == .fetch else { continue }
                    #expect(!isFetching)
                    if let lastFetch { #expect(now >= lastFetch + 1) }
                    (isFetching, lastFetch) = (true, now)
                }
                #expect(schedule.hasKeys == (lastGood.map { now < $0 + 86_400 } ?? false))
            }
        }
    }

    @Test(
        arguments: [
            ("max-age=60", 60_000), ("public, max-age=600", 600_000), ("MAX-AGE = \"5\"", 5_000), ("no-store", 0),
            ("no-cache, max-age=9", 0),
            ("max-age=x", nil), ("", nil), ("max-age=", nil), ("private", nil), ("max-age=99999999999999999999", 31_536_000_000),
        ] as [(String, UInt64?)])
    func howLongAnAnswerMayBeKeptIsReadFromItsHeader(_ value: String, _ milliseconds: UInt64?) {
        #expect(CacheControl.maxAge(value) == milliseconds)
    }
}
