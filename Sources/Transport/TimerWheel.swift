package import Wire

/// Timer wheel: deadlines by small integer id, for timeouts that are usually extended or cleared before they are due.
///
/// Time is divided into ticks; an id is in the slot of the tick at which it must be checked. Extending a deadline only
/// stores it: at the slot's tick an id that is not due moves to its new slot. A deadline beyond the horizon (`slots` ticks)
/// is in the farthest slot and moves on from there. Set, clear and expire take constant time; an id costs 16 bytes.
package struct TimerWheel: ~Copyable {
    struct Entry {
        var next: UInt32
        var previous: UInt32
        /// Tick at which the id is due.
        var due: UInt32
        /// Its slot, `nowhere` if it has no deadline.
        var slot: UInt32
    }

    private static let nowhere = UInt32.max

    private let pin = AddressPin()
    private var entries = UniqueArray<Entry>()
    /// First id of each slot; the last slot holds ids that were due when set.
    private var heads: UniqueArray<UInt32>
    /// One bit per slot: whether it is occupied.
    private var occupied: UniqueArray<UInt64>
    /// Last tick that was checked.
    private var cursor: UInt32 = 0
    /// When the next one is, in nanoseconds, so that a turn within a tick costs a comparison.
    private var nextCheck: UInt64
    /// When the first occupied slot is checked, in nanoseconds; `.max` if all are empty, 0 until it is looked for. So a turn that changes
    /// no slot does not search them.
    private var nextOccupied: UInt64 = 0
    private let mask: UInt32
    private let origin: MonotonicTime
    private let nanosecondsPerTick: UInt64
    /// 2^64 / nanosecondsPerTick, rounded down: a multiplication costs a tenth of a division.
    private let reciprocal: UInt64

    /// `slots` is a power of two, at least 64. Ticks count from `now` and last for 2 years at 16 ms; ids are below 2^32 - 1.
    package init(tickMilliseconds: Int = 16, slots: Int = 1024, now: MonotonicTime) {
        precondition(tickMilliseconds > 0 && slots >= 64 && slots & (slots - 1) == 0 && slots <= 1 << 20)
        mask = UInt32(slots - 1)
        heads = UniqueArray(repeating: Self.nowhere, count: slots + 1)
        occupied = UniqueArray(repeating: 0, count: slots / 64)
        origin = now
        nanosecondsPerTick = UInt64(tickMilliseconds) * 1_000_000
        nextCheck = now.nanoseconds + nanosecondsPerTick
        reciprocal = .max / nanosecondsPerTick
    }

    /// Sets or moves the deadline of `id`. One store, unless it is new or earlier than the slot of `id`.
    package mutating func set(_ id: Int, deadline: MonotonicTime) {
        let due = tick(atOrAfter: deadline)
        if id >= entries.count { grow(id) }
        let slot = entries[id].slot
        entries[id].due = due
        if slot != Self.nowhere {
            if slot <= mask, due >= nextTick(of: slot) { return }
            unlink(id)
        }
        link(id, due)
    }

    /// Whether `id` has a deadline.
    package func isSet(_ id: Int) -> Bool { id < entries.count && entries[id].slot != Self.nowhere }

    /// Clears the deadline of `id`, if it has one.
    package mutating func clear(_ id: Int) {
        guard id < entries.count, entries[id].slot != Self.nowhere else { return }
        unlink(id)
    }

    /// Appends the due ids to `due`, in no particular order, and clears them. An id is due at the first tick at or after its
    /// deadline: never early, less than a tick late.
    package mutating func expire(_ now: MonotonicTime, into due: inout [Int]) {
        if heads[Int(mask) + 1] != Self.nowhere { empty(mask + 1, into: &due) }
        guard now.nanoseconds >= nextCheck else { return }
        let target = tick(atOrBefore: now)
        let first = cursor &+ 1
        let steps = min(target - cursor, mask &+ 1)
        cursor = target
        nextCheck = origin.nanoseconds &+ (UInt64(target) + 1) &* nanosecondsPerTick
        for step in 0..<steps {
            let slot = (first &+ step) & mask
            if heads[Int(slot)] != Self.nowhere { empty(slot, into: &due) }
        }
    }

    /// How long the loop may wait before the next `expire`, at most `longest` milliseconds.
    package mutating func millisecondsToNext(_ now: MonotonicTime, longest: Int32) -> Int32 {
        if heads[Int(mask) + 1] != Self.nowhere { return 0 }
        if nextOccupied == 0 {
            nextOccupied = .max
            if let slot = findOccupied() { nextOccupied = checkTime(slot) }
        }
        guard nextOccupied > now.nanoseconds else { return 0 }
        return Int32(truncatingIfNeeded: min((nextOccupied - now.nanoseconds - 1) / 1_000_000 + 1, UInt64(max(longest, 0))))
    }
}

extension TimerWheel {
    private func tick(atOrBefore time: MonotonicTime) -> UInt32 { UInt32(clamping: ticks(time).whole) }

    private func tick(atOrAfter time: MonotonicTime) -> UInt32 {
        let (whole, rest) = ticks(time)
        return UInt32(clamping: rest == 0 ? whole : whole + 1)
    }

    /// Ticks from the origin to `time`, and the remainder in nanoseconds.
    private func ticks(_ time: MonotonicTime) -> (whole: UInt64, rest: UInt64) {
        let nanoseconds = time.nanoseconds(since: origin)
        var whole = nanoseconds.multipliedFullWidth(by: reciprocal).high
        var rest = nanoseconds &- whole &* nanosecondsPerTick
        // Two roundings make it too small by one or two.
        while rest >= nanosecondsPerTick {
            whole += 1
            rest -= nanosecondsPerTick
        }
        return (whole, rest)
    }

    /// The first tick after the cursor that checks `slot`.
    private func nextTick(of slot: UInt32) -> UInt32 {
        cursor &+ 1 &+ ((slot &- cursor &- 1) & mask)
    }

    /// When `slot` is checked next, in nanoseconds.
    private func checkTime(_ slot: UInt32) -> UInt64 {
        nextCheck &+ UInt64((slot &- cursor &- 1) & mask) &* nanosecondsPerTick
    }

    /// The occupied slot that is checked next.
    private func findOccupied() -> UInt32? {
        let first = Int((cursor &+ 1) & mask)
        let last = occupied.count - 1
        let ahead = occupied[first / 64] & (UInt64.max << UInt64(first % 64))
        if ahead != 0 { return UInt32(first / 64 * 64 + ahead.trailingZeroBitCount) }
        // The last step is the first word again, for slots almost a full turn ahead.
        for step in 1...last + 1 {
            let index = (first / 64 + step) & last
            if occupied[index] != 0 { return UInt32(index * 64 + occupied[index].trailingZeroBitCount) }
        }
        return nil
    }

    private mutating func grow(_ id: Int) {
        precondition(id >= 0 && id < Int(Self.nowhere))
        let empty = Entry(next: Self.nowhere, previous: Self.nowhere, due: 0, slot: Self.nowhere)
        while entries.count <= id { entries.append(empty) }
    }

    private mutating func link(_ id: Int, _ due: UInt32) {
        let slot = due <= cursor ? mask + 1 : (cursor &+ min(due - cursor, mask &+ 1)) & mask
        let head = heads[Int(slot)]
        entries[id].next = head
        entries[id].previous = Self.nowhere
        entries[id].slot = slot
        if head != Self.nowhere { entries[Int(head)].previous = UInt32(id) }
        heads[Int(slot)] = UInt32(id)
        guard slot <= mask else { return }
        occupied[Int(slot) / 64] |= 1 << UInt64(slot % 64)
        nextOccupied = min(nextOccupied, checkTime(slot))
    }

    private mutating func unlink(_ id: Int) {
        let entry = entries[id]
        if entry.next != Self.nowhere { entries[Int(entry.next)].previous = entry.previous }
        if entry.previous != Self.nowhere {
            entries[Int(entry.previous)].next = entry.next
        } else {
            heads[Int(entry.slot)] = entry.next
            if entry.next == Self.nowhere { vacate(entry.slot) }
        }
        entries[id].slot = Self.nowhere
    }

    private mutating func vacate(_ slot: UInt32) {
        guard slot <= mask else { return }
        occupied[Int(slot) / 64] &= ~(1 << UInt64(slot % 64))
        nextOccupied = 0
    }

    /// Empties `slot`: due ids go to `due`, others to their current slot.
    private mutating func empty(_ slot: UInt32, into due: inout [Int]) {
        var id = heads[Int(slot)]
        heads[Int(slot)] = Self.nowhere
        vacate(slot)
        while id != Self.nowhere {
            let entry = entries[Int(id)]
            entries[Int(id)].slot = Self.nowhere
            if entry.due <= cursor { due.append(Int(id)) } else { link(Int(id), entry.due) }
            id = entry.next
        }
    }
}
