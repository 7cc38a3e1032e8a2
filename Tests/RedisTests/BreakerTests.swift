import TestThreads
import Testing
import Wire

@testable import Redis

@Suite(.ownThread) struct BreakerTests {
    private func time(_ milliseconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: milliseconds * 1_000_000) }

    @Test func `five misses within a second open it, and four do not`() {
        var breaker = RedisBreaker()
        for miss in 1...4 as ClosedRange<UInt64> { breaker.missed(time(miss * 250), random: 0) }
        #expect(breaker.state == .closed)
        breaker.missed(time(1_250), random: 0)
        #expect(breaker.state == .open(probeAt: time(1_625)))
    }

    @Test func `misses that are spread over more than a second do not open it`() {
        var breaker = RedisBreaker()
        for miss in 1...100 as ClosedRange<UInt64> { breaker.missed(time(miss * 251), random: 0) }
        #expect(breaker.state == .closed)
    }

    @Test func `timeouts at one instant count once`() {
        var breaker = RedisBreaker()
        for _ in 0..<64 { breaker.missed(time(10), random: 0) }
        #expect(breaker.state == .closed)
    }

    @Test func `a probe goes alone, each half second, until one is answered`() {
        var breaker = RedisBreaker()
        for miss in 1...5 as ClosedRange<UInt64> { breaker.missed(time(miss), random: 125_000_000) }
        #expect(breaker.state == .open(probeAt: time(505)))
        #expect(breaker.admit(time(504)) == false)
        #expect(breaker.admit(time(505)) == true)
        #expect(breaker.admit(time(505)) == false)
        #expect(breaker.admit(time(9_000)) == false)
        breaker.missed(time(530), random: 0)
        #expect(breaker.state == .open(probeAt: time(905)))
        #expect(breaker.admit(time(2_000)) == true)
        breaker.answered()
        #expect(breaker.state == .closed)
        #expect(breaker.admit(time(2_000)) == true)
        #expect(breaker.admit(time(2_000)) == true)
        // The series begins anew.
        for miss in 2_001...2_004 as ClosedRange<UInt64> { breaker.missed(time(miss), random: 0) }
        #expect(breaker.state == .closed)
    }

    @Test func `jitter spreads the probes over the pause`() {
        var random = SplitMix64(seed: 3)
        var pauses: Set<UInt64> = []
        for _ in 0..<1_000 {
            var breaker = RedisBreaker()
            for miss in 1...5 as ClosedRange<UInt64> { breaker.missed(time(miss), random: random.next()) }
            guard case .open(let probeAt) = breaker.state else { return #expect(Bool(false)) }
            pauses.insert((probeAt.nanoseconds - time(5).nanoseconds) / 1_000_000)
        }
        #expect(pauses.min() == 375 && pauses.max() == 624 && pauses.count > 200)
    }

    private enum Event: CaseIterable { case admit, answered, missed, wait, waitLong }

    /// Every series of up to eight events, against the rules in plain words.
    @Test func `no series of events breaks its promises`() {
        var walked = 0
        func walk(_ breaker: RedisBreaker, _ now: UInt64, _ misses: [UInt64], depth: Int) {
            walked += 1
            guard depth > 0 else { return }
            for event in Event.allCases {
                var next = breaker
                var now = now
                var misses = misses
                switch event {
                case .admit:
                    let isAdmitted = next.admit(time(now))
                    switch breaker.state {
                    case .closed: #expect(isAdmitted && next == breaker)
                    case .halfOpen: #expect(!isAdmitted && next == breaker)
                    case .open(let probeAt):
                        #expect(isAdmitted == (time(now) >= probeAt))
                        #expect(next.state == (isAdmitted ? .halfOpen : breaker.state))
                    }
                case .answered:
                    next.answered()
                    switch breaker.state {
                    case .halfOpen:
                        #expect(next.state == .closed)
                        misses = []
                    case .closed, .open: #expect(next == breaker)
                    }
                case .missed:
                    next.missed(time(now), random: 0)
                    switch breaker.state {
                    case .open: #expect(next == breaker)
                    case .halfOpen: #expect(next.state == .open(probeAt: time(now + 375)))
                    case .closed:
                        if misses.last != now { misses.append(now) }
                        let isFull = misses.filter { now - $0 <= 1_000 }.count >= 5
                        #expect(next.state == (isFull ? .open(probeAt: time(now + 375)) : .closed))
                    }
                case .wait: now += 100
                case .waitLong: now += 1_001
                }
                walk(next, now, misses, depth: depth - 1)
            }
        }
        walk(RedisBreaker(), 5_000, [], depth: 8)
        // From a breaker that has nearly opened, so that the walk meets every state.
        var nearly = RedisBreaker()
        for miss in 4_996...4_999 as ClosedRange<UInt64> { nearly.missed(time(miss), random: 0) }
        walk(nearly, 5_000, [4_996, 4_997, 4_998, 4_999], depth: 7)
        #expect(walked > 400_000)
    }
}
