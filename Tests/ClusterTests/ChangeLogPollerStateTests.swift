import Testing
import Wire

@testable import Cluster

/// When the change log is read, and which writers each reading releases.
@Suite final class ChangeLogPollerStateTests {
    private var state = ChangeLogPollerState<Int>(patience: 2_000)

    init() { state.started() }

    private func at(_ milliseconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: (1_000_000 + milliseconds) * 1_000_000) }

    private func begins(_ milliseconds: UInt64) -> Bool { state.begins(at: at(milliseconds)) }
    private func joined(_ writer: Int, _ milliseconds: UInt64) -> Bool { state.joined(writer, at: at(milliseconds)) }
    private func expired(_ milliseconds: UInt64) -> [Int] { state.expired(at: at(milliseconds)) }
    private func stopped() -> [Int] { state.stopped() }
    private func pause(_ milliseconds: UInt64) -> UInt64 { state.pause(at: at(milliseconds)) }
    private func ended(_ milliseconds: UInt64, succeeds: Bool = true) -> [Int] {
        state.ended(succeeded: succeeds, at: at(milliseconds))
    }

    /// One reading that begins and ends at once; answers whom it released.
    private func read(_ milliseconds: UInt64, succeeds: Bool = true) -> [Int]? {
        begins(milliseconds) ? ended(milliseconds, succeeds: succeeds) : nil
    }

    @Test func itPollsAtItsPeriodAndSlowerWithABus() {
        #expect(read(0) == [], "the first reading is due at once")
        #expect(pause(0) == 300)
        #expect(read(299) == nil)
        // The thread that begins a reading does not hear of its end.
        #expect(begins(300) && pause(300) == 300 && ended(310) == [])
        state.busChanged(isConnected: true)
        #expect(read(305) == [])
        #expect(read(804) == nil && pause(800) == 5)
        #expect(begins(805) && pause(805) == 500)
    }

    @Test func hintsOfABurstAreOneReading() {
        _ = read(0)
        for _ in 0..<1_000 { state.hinted() }
        #expect(read(4) == nil && pause(4) == 1)
        #expect(read(5) == [])
        #expect(read(10) == nil, "nothing more was hinted at")
    }

    @Test func aHintDuringAReadingIsReadBehindIt() {
        #expect(begins(0))
        state.hinted()
        #expect(!begins(100), "one reading at a time")
        #expect(ended(100) == [])
        #expect(read(100) == [])
    }

    @Test func aWriterIsReleasedByAReadingThatBeganBehindItsCommit() {
        _ = read(0)
        #expect(joined(1, 1))
        #expect(begins(1), "a writer does not wait for the period")
        #expect(joined(2, 2))
        #expect(!begins(2))
        #expect(ended(3) == [1])
        #expect(begins(3))
        #expect(ended(4) == [2])
    }

    @Test func aFloodOfWritersSharesReadings() {
        var (readings, released) = (0, 0)
        for round in 0..<10 {
            let now = UInt64(round * 10)
            #expect(begins(now))
            readings += 1
            for writer in 0..<1_000 { #expect(joined(writer, now + 1)) }
            released += ended(now + 9).count
        }
        #expect(readings == 10 && released == 9_000)
        #expect(read(100)?.count == 1_000)
    }

    @Test func afterAFailedReadingWritersWaitForTheNext() {
        _ = read(0)
        #expect(joined(1, 1))
        #expect(read(1, succeeds: false) == [])
        #expect(joined(2, 2))
        #expect(read(50) == nil, "a store that is away is not asked without a pause")
        #expect(pause(50) == 1)
        #expect(read(51) == [1, 2], "in the order in which they came")
    }

    @Test func aWriterWaitsForTwoSecondsAtMost() {
        _ = read(0)
        #expect(joined(1, 0))
        #expect(begins(0))
        #expect(joined(2, 1_000))
        #expect(expired(1_999) == [])
        #expect(expired(2_000) == [1], "also while a reading hangs")
        #expect(expired(3_000) == [2])
        #expect(ended(9_000) == [], "none is released twice")
    }

    @Test func noWriterWaitsForReadingsThatDoNotCome() {
        #expect(joined(1, 0))
        #expect(begins(0))
        #expect(joined(2, 0))
        #expect(stopped() == [1, 2])
        #expect(!joined(3, 1))
        #expect(state.isReading, "the thread waits for it")
        #expect(ended(2) == [])
        #expect(!begins(10_000))
        state = ChangeLogPollerState<Int>(patience: 2_000)
        #expect(!joined(1, 0), "nor before the start")
    }

    /// Any order of commits, hints, readings and failures: a writer is released once, by a reading that began behind its
    /// commit and succeeded, or as late.
    @Test func everyWriterIsReleasedOnceAndNeverTooSoon() {
        var random = SplitMix64(seed: 13)
        var now: UInt64 = 0
        var committedAt: [UInt64] = []
        var released: Set<Int> = []
        var began: UInt64 = 0
        func note(_ writers: [Int], _ isRight: (Int) -> Bool) {
            for writer in writers {
                let isFirst = released.insert(writer).inserted
                #expect(isFirst && isRight(writer))
            }
        }
        for _ in 0..<20_000 {
            now += random.next() % 40
            note(expired(now)) { now >= committedAt[$0] + 2_000 }
            switch random.next() % 6 {
            case 0, 1:
                #expect(joined(committedAt.count, now))
                committedAt.append(now)
                now += 1
            case 2: state.hinted()
            case 3: state.busChanged(isConnected: random.next() % 2 == 0)
            default:
                if state.isReading {
                    note(ended(now, succeeds: random.next() % 4 != 0)) { committedAt[$0] < began }
                } else if begins(now) {
                    began = now
                    now += 1
                }
            }
            #expect(pause(now) <= 500)
        }
        note(stopped()) { _ in true }
        #expect(released.count == committedAt.count)
    }
}
