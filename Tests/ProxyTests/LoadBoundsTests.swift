import Testing
import Wire

@testable import Proxy

/// The counts behind the bounds on load, which workers share.
@Suite struct LoadBoundsTests {
    private func take(_ slots: inout WorkerSlots, within limit: Int, chunk: Int) -> Bool { slots.take(within: limit, chunk: chunk) }

    @Test func allWorkersTogetherKeepToTheLimit() {
        let budget = SlotBudget()
        var workers = (0..<3).map { _ in WorkerSlots(budget) }
        var taken = 0
        for turn in 0..<300 where workers[turn % 3].take(within: 100, chunk: 4) { taken += 1 }
        #expect(taken == 100)
        #expect(budget.count == 100)
    }

    @Test func aSmallLimitIsExactForEachWorker() {
        #expect(WorkerSlots.chunk(of: 100, workers: 2) == 1)
        let budget = SlotBudget()
        var one = WorkerSlots(budget), other = WorkerSlots(budget)
        for _ in 0..<5 { #expect(take(&one, within: 5, chunk: 1)) }
        #expect(!take(&one, within: 5, chunk: 1))
        #expect(!take(&other, within: 5, chunk: 1))
        one.release(chunk: 1)
        #expect(take(&other, within: 5, chunk: 1), "a slot given back is another worker's at once")
        #expect(!take(&one, within: 5, chunk: 1))
    }

    @Test func aWorkerKeepsAtMostTwoChunksFromTheOthers() {
        let budget = SlotBudget()
        var slots = WorkerSlots(budget)
        for _ in 0..<1_000 { _ = take(&slots, within: 10_000, chunk: 16) }
        while slots.used > 0 {
            slots.release(chunk: 16)
            #expect(slots.reserved - slots.used < 32 && budget.count == slots.reserved)
        }
        #expect(WorkerSlots.chunk(of: 20_000, workers: 4) == 16)
        #expect(WorkerSlots.chunk(of: 1, workers: 64) == 1)
    }

    @Test func aSteadyWorkerTouchesTheSharedCountRarely() {
        let budget = SlotBudget()
        var slots = WorkerSlots(budget)
        for _ in 0..<16 { _ = take(&slots, within: 10_000, chunk: 16) }
        let before = budget.count
        for _ in 0..<1_000 {
            slots.release(chunk: 16)
            #expect(take(&slots, within: 10_000, chunk: 16))
            #expect(budget.count == before)
        }
    }

    @Test func spareSlotsAreGivenBackWhenTheLimitChanges() {
        let budget = SlotBudget()
        var one = WorkerSlots(budget), other = WorkerSlots(budget)
        for _ in 0..<2 { _ = take(&one, within: 10_000, chunk: 16) }
        one.releaseSpare()
        #expect(budget.count == 2 && one.used == 2)
        #expect(take(&other, within: 3, chunk: 1))
    }

    @Test func aLoweredLimitIsKeptToFromThenOn() {
        let budget = SlotBudget()
        var slots = WorkerSlots(budget)
        for _ in 0..<10 { #expect(take(&slots, within: 10, chunk: 1)) }
        #expect(!take(&slots, within: 4, chunk: 1))
        for _ in 0..<7 { slots.release(chunk: 1) }
        #expect(take(&slots, within: 4, chunk: 1))
        #expect(!take(&slots, within: 4, chunk: 1))
    }

    @Test func memoryIsShortUntilATenthIsFree() {
        let bounds = LoadBounds()
        var one = WorkerLoad(bounds), other = WorkerLoad(bounds)
        let at = { (half: UInt64) in MonotonicTime(nanoseconds: 1_000_000_000 + half * 500_000_000) }
        one.counted(600, within: 1_000, at: at(0))
        #expect(!one.isShortOfMemory && !one.isCountDue(at(0)) && one.isCountDue(at(1)))
        other.counted(500, within: 1_000, at: at(0))
        #expect(other.isShortOfMemory, "the sum of all workers counts")
        other.counted(350, within: 1_000, at: at(1))
        #expect(other.isShortOfMemory)
        other.counted(250, within: 1_000, at: at(2))
        #expect(!other.isShortOfMemory)
        one.counted(600, within: 1_000, at: at(2))
        #expect(!one.isShortOfMemory)
    }
}
