/// What a worker last heard of counts that Redis keeps: for each key a TAT on the worker's own clock.
///
/// What is here is never later than the truth. The server told how long it was until the count is full, and told it
/// after it was asked, so from the asking on it is at least so long; and a TAT only grows. Hence whoever is refused by
/// what was heard would be refused by the server, and to refuse them here costs nothing but a look: that is the denial
/// cache. What others have been granted since is not known, so the rest is an estimate for people.
///
/// A table of fixed size. A key that finds its bucket full takes the place of the one that is full again first, which
/// costs a command and nothing else.
struct HeardCounts: ~Copyable {
    private struct Slot {
        var key = LimitKey()
        var tat: UInt64 = 0
    }

    private var slots: [Slot]
    private let mask: Int

    private static let width = 4

    /// Room for `capacity` keys, rounded up to a power of two.
    init(capacity: Int) {
        var count = Self.width
        while count < capacity { count *= 2 }
        slots = Array(repeating: Slot(), count: count)
        mask = count - Self.width
    }

    /// Whether the charge is refused by what was heard, for the server would not admit it yet; then `verdict` says so.
    mutating func refuses(_ charge: inout LimitCharge, _ clock: UInt64, _ verdict: inout LimitVerdict) -> Bool {
        var isRefused = false
        for index in 0..<charge.count {
            let item = charge[index]
            if tat(item.key) &+ item.rate.interval > clock &+ item.rate.storedTolerance { isRefused = true }
        }
        guard isRefused else { return false }
        verdict.becomes(granted: false, .denyCache, count: charge.count)
        for index in 0..<charge.count {
            let tat = tat(charge[index].key)
            verdict[index] = tat == 0 ? .unknown : LimitReading(tat: tat, charge[index].rate, at: clock)
        }
        return true
    }

    /// The TAT of `key`; 0 if nothing is known.
    @inline(__always)
    private mutating func tat(_ key: LimitKey) -> UInt64 {
        let start = Int(truncatingIfNeeded: key.low) & mask
        for slot in start..<start + Self.width where slots[slot].key == key { return slots[slot].tat }
        return 0
    }

    mutating func hear(_ key: LimitKey, tat: UInt64) {
        let start = Int(truncatingIfNeeded: key.low) & mask
        var place = start
        for slot in start..<start + Self.width {
            if slots[slot].key == key {
                place = slot
                break
            }
            if slots[slot].tat < slots[place].tat { place = slot }
        }
        slots[place] = Slot(key: key, tat: tat)
    }
}

extension LimitReading {
    /// What a TAT says of a shared count at `clock`, in microseconds.
    init(tat: UInt64, _ rate: LimitRate, at clock: UInt64) {
        self.init(
            GCRA.take(now: clock, tat: tat, interval: rate.interval, tolerance: rate.storedTolerance, want: 0))
    }
}
