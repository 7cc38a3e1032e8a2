import Wire

/// What a worker last heard of counts that Redis keeps: for each key a TAT on the worker's own clock.
///
/// What is here is never later than the truth. The server told how long it was until the count is full, and told it
/// after it was asked, so from the asking on it is at least so long; and a TAT only grows. Hence whoever is refused by
/// what was heard would be refused by the server, and to refuse them here costs nothing but a look: that is the denial
/// cache. What others have been granted since is not known, so the rest is an estimate for people.
///
/// A table of fixed size. A key that finds its bucket full takes the place of the one that is full again first. Whoever fills
/// it with invented keys makes others cost a command each, never a wrong verdict; and if Redis goes away before that command,
/// the gateway goes on without knowing what it had granted them, a burst at most.
///
/// Beside it stands what of the count this gateway was granted, by its own share of the rate: for when it must go on alone.
/// To keep it here costs nothing more, for the place is at hand whenever something is heard.
struct DenyCache: ~Copyable {
    struct Slot {
        var key = LimitKey()
        var tat: UInt64 = 0
        /// The TAT of a count of this worker's grants alone, by the gateway's share.
        var ownTAT: UInt64 = 0
    }

    private var slots: UniqueArray<Slot>
    private let mask: Int
    /// Until when a count may refuse somebody that keys of a group have, by the worker's clock: most requests need not look for
    /// theirs among the slots, which no cache of the processor holds.
    private var refusing = UniqueArray<UInt64>(repeating: 0, count: groups)
    /// The latest of them.
    private var refusingLast: UInt64 = 0

    private static let width = 4
    /// A power of two.
    private static let groups = 1_024

    /// Room for `capacity` keys, rounded up to a power of two.
    init(capacity: Int) {
        var count = Self.width
        while count < capacity { count *= 2 }
        slots = UniqueArray(repeating: Slot(), count: count)
        mask = count - Self.width
    }

    /// Whether the charge is refused by what was heard, for the server would not admit it yet; then `verdict` says so.
    mutating func refuses(_ charge: inout LimitCharge, _ clock: UInt64, _ verdict: inout LimitVerdict) -> Bool {
        guard mayRefuse(&charge, clock) else { return false }
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

    @inline(__always)
    private func mayRefuse(_ charge: inout LimitCharge, _ clock: UInt64) -> Bool {
        guard refusingLast > clock else { return false }
        var mayRefuse = false
        for index in 0..<charge.count where refusing[Self.group(charge[index].key)] > clock { mayRefuse = true }
        return mayRefuse
    }

    @inline(__always)
    private static func group(_ key: LimitKey) -> Int { Int(truncatingIfNeeded: key.high) & (groups - 1) }

    /// The TAT of `key`; 0 if nothing is known.
    @inline(__always)
    private mutating func tat(_ key: LimitKey) -> UInt64 {
        let slot = find(key)
        return slot < 0 ? 0 : slots[slot].tat
    }

    /// Where `key` stands; -1 if nothing is known of it.
    @inline(__always)
    private mutating func find(_ key: LimitKey) -> Int {
        let start = Int(truncatingIfNeeded: key.low) & mask
        for slot in start..<start + Self.width where slots[slot].key == key { return slot }
        return -1
    }

    /// The server told a TAT.
    ///
    /// - Parameters:
    ///   - granted: what it granted to this worker, by a rate that so many `gateways` share; 0 where nobody will want to know.
    mutating func hear(_ item: LimitCharge.Item, tat: UInt64, granted: UInt32, gateways: UInt32, _ clock: UInt64) {
        let slot = place(item.key)
        if slots[slot].key != item.key { slots[slot] = Slot(key: item.key) }
        slots[slot].tat = tat
        let next = tat &+ item.rate.interval
        if next > clock &+ item.rate.storedTolerance {
            let until = next &- item.rate.storedTolerance
            refusing[Self.group(item.key)] = max(refusing[Self.group(item.key)], until)
            refusingLast = max(refusingLast, until)
        }
        guard granted > 0 else { return }
        // What is more than a burst is not counted: an upstart pays for one burst at most.
        let (length, isTooLong) = item.rate.shareInterval(of: gateways).multipliedReportingOverflow(by: UInt64(granted))
        let paid = isTooLong ? item.rate.tolerance : min(length, item.rate.tolerance)
        slots[slot].ownTAT = min(max(slots[slot].ownTAT, clock) &+ paid, clock &+ item.rate.tolerance)
    }

    /// How many intervals of its share this worker was granted that have not run down, rounded up; then forgets them.
    mutating func takeGranted(_ share: LimitCharge.Item, _ clock: UInt64) -> UInt32 {
        let slot = find(share.key)
        guard slot >= 0 else { return 0 }
        let left = slots[slot].ownTAT - min(slots[slot].ownTAT, clock)
        slots[slot].ownTAT = 0
        return UInt32(clamping: (left &+ share.rate.interval &- 1) / share.rate.interval)
    }

    /// Where `key` stands, or whose place it takes.
    private mutating func place(_ key: LimitKey) -> Int {
        let start = Int(truncatingIfNeeded: key.low) & mask
        var place = start
        for slot in start..<start + Self.width {
            if slots[slot].key == key { return slot }
            if slots[slot].tat < slots[place].tat { place = slot }
        }
        return place
    }
}

extension LimitReading {
    /// What a TAT says of a shared count at `clock`, in microseconds.
    init(tat: UInt64, _ rate: LimitRate, at clock: UInt64) {
        self.init(
            GCRA.take(now: clock, tat: tat, interval: rate.interval, tolerance: rate.storedTolerance, want: 0))
    }
}
