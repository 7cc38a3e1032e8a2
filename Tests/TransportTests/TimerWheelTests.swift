import Testing
import Transport
import Wire

@Suite struct TimerWheelTests {
    let start = MonotonicTime(nanoseconds: 123_456_789_012)

    func at(_ milliseconds: UInt64) -> MonotonicTime { start.advanced(milliseconds: milliseconds) }

    func due(_ wheel: inout TimerWheel, _ milliseconds: UInt64) -> [Int] {
        var due: [Int] = []
        wheel.expire(at(milliseconds), into: &due)
        return due.sorted()
    }

    @Test func `a deadline is reported once, not early and less than a tick late`() {
        var wheel = TimerWheel(tickMilliseconds: 16, now: start)
        #expect(wheel.millisecondsToNext(start, longest: 9_999) == 9_999)
        wheel.set(3, deadline: at(100))
        #expect(wheel.millisecondsToNext(start, longest: 9_999) == 112)
        #expect(wheel.millisecondsToNext(start, longest: 50) == 50)
        #expect(wheel.millisecondsToNext(start, longest: 0) == 0)
        #expect(due(&wheel, 99) == [])
        #expect(due(&wheel, 115) == [3])
        #expect(due(&wheel, 1000) == [])
        #expect(wheel.millisecondsToNext(at(1000), longest: 9_999) == 9_999)
    }

    @Test func `an extended deadline counts from its last setting`() {
        var wheel = TimerWheel(tickMilliseconds: 10, now: start)
        wheel.set(0, deadline: at(50))
        wheel.set(0, deadline: at(500))
        #expect(due(&wheel, 60) == [])
        #expect(due(&wheel, 499) == [])
        #expect(due(&wheel, 500) == [0])
    }

    @Test func `a deadline may be brought forward or given up`() {
        var wheel = TimerWheel(tickMilliseconds: 10, now: start)
        wheel.set(0, deadline: at(5000))
        wheel.set(1, deadline: at(20))
        wheel.set(0, deadline: at(30))
        wheel.clear(1)
        wheel.clear(1)
        wheel.clear(99)
        #expect(due(&wheel, 40) == [0])
    }

    @Test func `a deadline that has passed when it is set is due at once`() {
        var wheel = TimerWheel(tickMilliseconds: 10, now: start)
        #expect(due(&wheel, 1000) == [])
        wheel.set(7, deadline: at(400))
        #expect(wheel.millisecondsToNext(at(1000), longest: 9_999) == 0)
        #expect(due(&wheel, 1000) == [7])
    }

    @Test func `deadlines beyond the horizon and long pauses are kept`() {
        var wheel = TimerWheel(tickMilliseconds: 1, slots: 64, now: start)
        wheel.set(1, deadline: at(1_000_000))
        wheel.set(2, deadline: at(64))
        wheel.set(3, deadline: at(999_999))
        #expect(due(&wheel, 500_000) == [2])
        #expect(due(&wheel, 999_999) == [3])
        #expect(due(&wheel, 2_000_000) == [1])
    }

    @Test func `a deadline at the end of time is never due`() {
        var wheel = TimerWheel(now: start)
        wheel.set(0, deadline: MonotonicTime(nanoseconds: .max))
        wheel.set(1, deadline: MonotonicTime(nanoseconds: 0))
        #expect(due(&wheel, 1) == [1])
        #expect(due(&wheel, 1 << 32) == [])
    }

    /// Against a dictionary of deadlines, over steps of every size.
    @Test(arguments: 0..<8)
    func `it agrees with a table of deadlines`(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let tick: UInt64 = [1, 7, 16, 50][Int(seed % 4)]
        var wheel = TimerWheel(tickMilliseconds: Int(tick), slots: seed < 4 ? 64 : 512, now: start)
        var model: [Int: UInt64] = [:]
        var now: UInt64 = 0
        for _ in 0..<20_000 {
            let id = Int.random(in: 0..<200, using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0...5:
                let reach: UInt64 = [1, 30, 300, 20_000][Int.random(in: 0..<4, using: &random)]
                let deadline = now + UInt64.random(in: 0...reach, using: &random)
                wheel.set(id, deadline: at(deadline))
                model[id] = deadline
            case 6:
                wheel.clear(id)
                model[id] = nil
            default:
                now += UInt64.random(in: 0...[3, 40, 5000].randomElement(using: &random)!, using: &random)
                let longest = Int32([0, 1, 40, 700, 100_000].randomElement(using: &random)!)
                let wait = wheel.millisecondsToNext(at(now), longest: longest)
                #expect(wait <= longest)
                let reported = due(&wheel, now)
                // An id is due at the first tick that is not before its deadline.
                let expected = model.filter { ($0.value + tick - 1) / tick <= now / tick }.keys.sorted()
                #expect(reported == expected)
                expected.forEach { model[$0] = nil }
                if wait != 0 { #expect(expected.isEmpty) }
                // Waiting as computed never oversleeps a deadline by a tick, and never wakes without a reason.
                let told = wheel.millisecondsToNext(at(now), longest: longest)
                if let next = model.values.min() {
                    #expect(now + UInt64(told) < next + tick)
                } else {
                    #expect(told == longest)
                }
            }
        }
    }
}
