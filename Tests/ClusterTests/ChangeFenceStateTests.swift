import Testing
import Wire

@testable import Cluster

/// When a fence is raised, and which waiters are released.
@Suite struct ChangeFenceStateTests {
    @Test func thoseWhoComeAtOnceShareAFence() {
        var state = ChangeFenceState<Int>()
        func isOver() -> Bool { state.isOver() }
        #expect(state.joined(1) == (1, true))
        #expect(state.joined(2) == (2, false), "one task serves both")
        #expect(state.unfenced == 2)
        #expect(state.joined(3) == (3, false), "while the fence is raised")
        state.raised(7, upTo: 2)
        #expect(state.unfenced == 3 && state.oldestFence == 7)
        state.raised(9, upTo: 3)
        #expect(state.passed(6) == [] && state.passed(8) == [1, 2])
        #expect(state.oldestFence == 9 && !isOver())
        #expect(state.expired(1) == nil && state.expired(3) == 3)
        #expect(isOver())
        #expect(state.joined(4) == (4, true))
        #expect(state.passed(.max) == [], "its change may be newer than the answers")
        #expect(state.answered(upTo: 4) == [4] && state.oldestFence == nil && isOver())
    }

    /// Any order of waiters, fences, answers and ends of time: each is released once, and as passed only behind a fence that was raised
    /// after it had joined.
    @Test func everyWaiterIsReleasedOnceAndNeverTooSoon() {
        var (state, random) = (ChangeFenceState<UInt64>(), SplitMix64(seed: 34))
        var (newest, raising, isServed): (UInt64, UInt64?, Bool) = (0, nil, false)
        // By fence: how many had joined when it began to be raised.
        var covered: [UInt64] = [0]
        var released: Set<UInt64> = []
        func note(_ waiters: [UInt64], upTo most: UInt64 = .max) {
            for waiter in waiters {
                let isFirst = released.insert(waiter).inserted
                #expect(isFirst && waiter <= most)
            }
        }
        for _ in 0..<20_000 {
            switch random.next() % 6 {
            case 0, 1:
                newest += 1
                let (number, begins) = state.joined(newest)
                #expect(number == newest && begins == !isServed)
                isServed = true
            case 2: if raising == nil { raising = state.unfenced }
            case 3:
                guard let most = raising else { break }
                raising = nil
                if random.next() % 8 == 0 {
                    note(state.answered(upTo: most), upTo: most)
                } else {
                    covered.append(most)
                    state.raised(Int64(covered.count - 1), upTo: most)
                }
            case 4:
                let fence = Int(random.next() % UInt64(covered.count))
                note(state.passed(Int64(fence)), upTo: covered[fence])
            default: if newest > 0 { note(state.expired(newest - random.next() % min(newest, 20)).map { [$0] } ?? []) }
            }
            if raising == nil, random.next() % 4 == 0 {
                let isOver = state.isOver()
                #expect(isOver == (UInt64(released.count) == newest))
                isServed = !isOver
            }
        }
        note(state.answered(upTo: newest))
        #expect(UInt64(released.count) == newest && state.isOver())
    }
}
