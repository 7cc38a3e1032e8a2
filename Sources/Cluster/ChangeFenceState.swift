/// Decides when a fence is raised, and which waiters each answer of the store releases. A fence covers those who have joined before it is
/// raised, so that many who come at once share one.
struct ChangeFenceState<Waiter> {
    private struct Waiting {
        let number: UInt64
        let waiter: Waiter
        /// nil until one is raised.
        var fence: Int64?
    }

    /// In the order in which they came, and so of their fences.
    private var waiting: [Waiting] = []
    private var count: UInt64 = 0
    private var isServed = false

    /// Returns the number of the waiter, and whether a task must begin to serve: one does until `isOver`.
    mutating func joined(_ waiter: Waiter) -> (number: UInt64, begins: Bool) {
        count += 1
        waiting.append(Waiting(number: count, waiter: waiter))
        defer { isServed = true }
        return (count, !isServed)
    }

    /// The number of the last waiter without a fence; nil if all have one.
    var unfenced: UInt64? {
        guard let last = waiting.last, last.fence == nil else { return nil }
        return last.number
    }

    /// The lowest fence of a waiter; nil if none has one.
    var oldestFence: Int64? { waiting.first?.fence }

    /// The waiters up to this number, who had none, stand before this fence.
    mutating func raised(_ fence: Int64, upTo number: UInt64) {
        for index in waiting.indices where waiting[index].number <= number && waiting[index].fence == nil { waiting[index].fence = fence }
    }

    /// All other gateways have passed this fence: releases the waiters who stand before it, or before a lower one.
    mutating func passed(_ fence: Int64) -> [Waiter] { release { $0.fence.map { $0 <= fence } ?? false } }

    /// No other gateway lives, or this one cannot read its log: releases the waiters up to this number.
    mutating func answered(upTo number: UInt64) -> [Waiter] { release { $0.number <= number } }

    /// The time of this waiter is over; nil if it was released before.
    mutating func expired(_ number: UInt64) -> Waiter? { release { $0.number == number }.first }

    /// Whether no waiter is left, so that the task ends.
    mutating func isOver() -> Bool {
        isServed = !waiting.isEmpty
        return !isServed
    }

    private mutating func release(_ isReleased: (Waiting) -> Bool) -> [Waiter] {
        let released = waiting.filter(isReleased)
        waiting.removeAll(where: isReleased)
        return released.map(\.waiter)
    }
}
