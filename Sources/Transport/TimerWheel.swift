package import Wire

/// Deadlines by small integer id, made for timeouts that are nearly always extended or cleared before they are due.
///
/// Time is cut into ticks; an id sits in the slot of the tick at which it has to be looked at. Extending a deadline
/// only stores it: when the slot's tick comes, an id that is not due yet moves on to its new slot. A deadline beyond
/// the horizon (`slots` ticks) sits in the furthest slot and moves on from there. Setting, clearing and expiring are
/// constant work each; an id costs 16 bytes.
package struct TimerWheel: ~Copyable {
    struct Entry {
        var next: UInt32
        var previous: UInt32
        /// The tick at which the id is due.
        var due: UInt32
        /// Where it is linked, `nowhere` if it is not.
        var slot: UInt32
    }

    private static let nowhere = UInt32.max

    private var entries = UniqueArray<Entry>()
    /// The first id of each slot; the last slot holds what was due already when it was set.
    private var heads: UniqueArray<UInt32>
    /// One bit a slot: whether it holds anything.
    private var occupied: UniqueArray<UInt64>
    /// The last tick that was looked at.
    private var cursor: UInt32 = 0
    private let mask: UInt32
    private let origin: MonotonicTime
    private let nanosecondsPerTick: UInt64
    /// 2^64 divided by that, rounded down: to multiply by it costs a tenth of a division.
    private let reciprocal: UInt64

    /// `slots` is a power of two from 64 on. Ticks count from `now` and last for 2 years at 16 ms; ids are below
    /// 2^32 - 1.
    package init(tickMilliseconds: Int = 16, slots: Int = 1024, now: MonotonicTime) {
        precondition(tickMilliseconds > 0 && slots >= 64 && slots & (slots - 1) == 0 && slots <= 1 << 20)
        mask = UInt32(slots - 1)
        heads = UniqueArray(repeating: Self.nowhere, count: slots + 1)
        occupied = UniqueArray(repeating: 0, count: slots / 64)
        origin = now
        nanosecondsPerTick = UInt64(tickMilliseconds) * 1_000_000
        reciprocal = .max / nanosecondsPerTick
    }

    /// Sets or moves the deadline of `id`. A store, unless the deadline is new or comes before the slot `id` sits in.
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

    /// Forgets the deadline of `id`, if it has one.
    package mutating func clear(_ id: Int) {
        guard id < entries.count, entries[id].slot != Self.nowhere else { return }
        unlink(id)
    }

    /// Appends the ids that are due to `due`, in no particular order, and forgets them. An id is due from the first
    /// tick at or after its deadline: never early, less than a tick late.
    package mutating func expire(_ now: MonotonicTime, into due: inout [Int]) {
        if heads[Int(mask) + 1] != Self.nowhere { empty(mask + 1, into: &due) }
        let target = max(cursor, tick(atOrBefore: now))
        guard target > cursor else { return }
        let first = cursor &+ 1
        let steps = min(target - cursor, mask &+ 1)
        cursor = target
        for step in 0..<steps {
            let slot = (first &+ step) & mask
            if heads[Int(slot)] != Self.nowhere { empty(slot, into: &due) }
        }
    }

    /// How long an event loop may wait before it calls `expire`: `longest` milliseconds, or less if a deadline comes before.
    package func millisecondsToNext(_ now: MonotonicTime, longest: Int32) -> Int32 {
        if heads[Int(mask) + 1] != Self.nowhere { return 0 }
        let end = tick(atOrAfter: now.advanced(milliseconds: UInt64(max(longest, 0))))
        guard let slot = nextOccupied(before: end) else { return longest }
        let at = origin.nanoseconds &+ UInt64(nextTick(of: slot)) &* nanosecondsPerTick
        guard at > now.nanoseconds else { return 0 }
        return min(Int32(clamping: (at - now.nanoseconds + 999_999) / 1_000_000), longest)
    }
}

extension TimerWheel {
    private func tick(atOrBefore time: MonotonicTime) -> UInt32 { UInt32(clamping: ticks(time).whole) }

    private func tick(atOrAfter time: MonotonicTime) -> UInt32 {
        let (whole, rest) = ticks(time)
        return UInt32(clamping: rest == 0 ? whole : whole + 1)
    }

    /// How many ticks there are from the origin to `time`, and what is left.
    private func ticks(_ time: MonotonicTime) -> (whole: UInt64, rest: UInt64) {
        let nanoseconds = time.nanoseconds(since: origin)
        var whole = nanoseconds.multipliedFullWidth(by: reciprocal).high
        var rest = nanoseconds &- whole &* nanosecondsPerTick
        // What is rounded down twice is too small by one or two.
        while rest >= nanosecondsPerTick {
            whole += 1
            rest -= nanosecondsPerTick
        }
        return (whole, rest)
    }

    /// The first tick after the cursor that looks at `slot`.
    private func nextTick(of slot: UInt32) -> UInt32 {
        cursor &+ 1 &+ ((slot &- cursor &- 1) & mask)
    }

    /// The next slot that holds anything and is looked at before the tick `end`, or up to 64 ticks later.
    private func nextOccupied(before end: UInt32) -> UInt32? {
        let first = Int((cursor &+ 1) & mask)
        let last = occupied.count - 1
        let ahead = occupied[first / 64] & (UInt64.max << UInt64(first % 64))
        if ahead != 0 { return UInt32(first / 64 * 64 + ahead.trailingZeroBitCount) }
        // The last of them is the first again, for what lies a whole turn ahead.
        for step in 1...min(Int(end - min(end, cursor)) / 64 + 1, last + 1) {
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
        if slot <= mask { occupied[Int(slot) / 64] |= 1 << UInt64(slot % 64) }
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
        if slot <= mask { occupied[Int(slot) / 64] &= ~(1 << UInt64(slot % 64)) }
    }

    /// Takes every id out of `slot`: the due ones into `due`, the others to where they belong now.
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
