import Synchronization

/// The counts that all workers' bounds on load are over. Any thread.
package final class LoadBounds: Sendable {
    let requests = SlotBudget()
    let local = SlotBudget()
    /// Bytes of heads and bodies on their way, as each worker counted its own last.
    private let buffered = Atomic<Int>(0)

    package init() {}

    /// One worker's count has changed by so many bytes; returns that of all.
    func buffered(changedBy bytes: Int) -> Int { buffered.wrappingAdd(bytes, ordering: .relaxed).newValue }
}

/// Slots of one kind that all workers hold together. Any thread.
final class SlotBudget: Sendable {
    private let taken = Atomic<Int>(0)

    var count: Int { taken.load(ordering: .relaxed) }

    /// Takes as many of `wanted` as `limit` leaves; returns how many.
    func take(upTo wanted: Int, within limit: Int) -> Int {
        var count = taken.load(ordering: .relaxed)
        while count < limit {
            let share = min(wanted, limit - count)
            let (isTaken, now) = taken.compareExchange(expected: count, desired: count + share, ordering: .relaxed)
            if isTaken { return share }
            count = now
        }
        return 0
    }

    func release(_ slots: Int) { taken.wrappingSubtract(slots, ordering: .relaxed) }
}

/// One worker's slots of a budget. It takes them in advance, in chunks, so that a steady request compares two numbers of its own
/// worker and touches none that others write. The price: near the limit each worker may keep two chunks from the others.
struct WorkerSlots {
    /// Slots in use.
    private(set) var used = 0
    /// Slots taken from the budget.
    private(set) var reserved = 0
    private let budget: SlotBudget

    init(_ budget: SlotBudget) { self.budget = budget }

    /// The slots that a worker takes at once: so few that all workers' chunks are a small part of `limit`.
    static func chunk(of limit: Int, workers: Int) -> Int { min(max(limit / (64 * max(workers, 1)), 1), 16) }

    /// Takes one slot; false if all workers together hold `limit`.
    mutating func take(within limit: Int, chunk: Int) -> Bool {
        if used == reserved { reserved += budget.take(upTo: chunk, within: limit) }
        guard used < reserved else { return false }
        used += 1
        return true
    }

    /// Gives a slot back, and the worker's spare ones beyond a chunk or two.
    mutating func release(chunk: Int) {
        precondition(used > 0, "a slot that was not taken")
        used -= 1
        let spare = reserved - used
        guard spare >= (chunk == 1 ? 1 : 2 * chunk) else { return }
        let surplus = chunk == 1 ? spare : spare - chunk
        budget.release(surplus)
        reserved -= surplus
    }

    /// Gives back every spare slot: under a lower limit they may be most of it.
    mutating func releaseSpare() {
        budget.release(reserved - used)
        reserved = used
    }

    /// Slots of all workers, those in reserve included.
    var countOfAll: Int { budget.count }
}
