import Synchronization

/// The counts that all workers' bounds on load are over. Any thread.
package final class LoadBounds: Sendable {
    let requests = SlotBudget()
    private let localSlots = LocalKind.allCases.map { _ in SlotBudget() }
    /// The holdings of each client, of these and other bounds.
    let clients = ClientHoldings()
    /// Bytes of heads and bodies on their way, as each worker counted its own last.
    private let buffered = Atomic<Int>(0)

    package init() {}

    /// Requests of one kind to the gateway's own endpoints.
    func local(_ kind: LocalKind) -> SlotBudget { localSlots[kind.rawValue] }

    /// Bytes of heads and bodies on their way in all workers, as counted last.
    var bufferedBytes: Int { buffered.load(ordering: .relaxed) }

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

/// Slots in use and slots taken in advance, in chunks, so that a steady use changes two numbers alone.
struct SlotReserve {
    /// Slots in use.
    private(set) var used = 0
    /// Slots taken.
    var reserved = 0

    /// Uses a slot that was taken, if there is one.
    @inline(__always)
    mutating func take() -> Bool {
        guard used < reserved else { return false }
        used += 1
        return true
    }

    /// A slot is no longer in use. Returns how many are to be given back: the spare ones beyond a chunk or two.
    @inline(__always)
    mutating func release(chunk: Int) -> Int {
        precondition(used > 0, "a slot that was not taken")
        used -= 1
        let spare = reserved - used
        guard spare >= (chunk == 1 ? 1 : 2 * chunk) else { return 0 }
        let surplus = chunk == 1 ? spare : spare - chunk
        reserved -= surplus
        return surplus
    }

    /// Returns all spare ones, which are to be given back.
    mutating func releaseSpare() -> Int {
        defer { reserved = used }
        return reserved - used
    }
}

/// One worker's slots of a budget. A steady request touches no memory that others write. The price: near the limit each worker may keep
/// two chunks from the others.
struct WorkerSlots {
    private var reserve = SlotReserve()
    private let budget: SlotBudget

    init(_ budget: SlotBudget) { self.budget = budget }

    /// Slots in use, and slots taken from the budget.
    var used: Int { reserve.used }
    var reserved: Int { reserve.reserved }

    /// The slots that a worker takes at once: so few that all workers' chunks are a small part of `limit`.
    static func chunk(of limit: Int, workers: Int) -> Int { min(max(limit / (64 * max(workers, 1)), 1), 16) }

    /// Takes one slot; false if all workers together hold `limit`.
    mutating func take(within limit: Int, chunk: Int) -> Bool {
        if reserve.take() { return true }
        reserve.reserved += budget.take(upTo: chunk, within: limit)
        return reserve.take()
    }

    /// Gives a slot back, and the worker's spare ones beyond a chunk or two.
    mutating func release(chunk: Int) {
        let surplus = reserve.release(chunk: chunk)
        if surplus > 0 { budget.release(surplus) }
    }

    /// Gives back every spare slot: under a lower limit they may be most of it.
    mutating func releaseSpare() { budget.release(reserve.releaseSpare()) }

    /// Slots of all workers, those in reserve included.
    var countOfAll: Int { budget.count }
}
