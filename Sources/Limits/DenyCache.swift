import Gate
import Wire

/// Deny cache: per key, the latest known TAT of a count in Redis, on this worker's clock. Refuses without a Redis command
/// while Redis could not admit a request.
///
/// Entries are lower bounds. Redis computes the remaining time after the command was sent, so adding it to the send time
/// never overestimates, and a TAT only grows. A refusal from this cache is therefore one that Redis would make. `remaining`
/// for other requests is an estimate: grants to other workers since are unknown.
///
/// Fixed size. A full bucket evicts the entry with the smallest TAT or latest debt. Eviction costs one extra Redis command, never a wrong
/// verdict; if Redis fails before that command, the local limiter lacks the evicted grants, at most one burst.
///
/// Each entry also holds the TAT of this gateway's own grants at its share of the rate, which seeds the local limiter when
/// Redis fails, and the debt: what this worker admitted by itself since, which Redis has not counted. They are stored here because
/// the slot is at hand whenever a reply arrives.
struct DenyCache: ~Copyable {
    struct Slot {
        var key = LimitKey()
        var tat: UInt64 = 0
        /// TAT of a count of this worker's grants alone, at the gateway's share of the rate.
        var ownTAT: UInt64 = 0
        /// Local grants that Redis has not counted, in microseconds at the gateway's share of the rate.
        var debt: UInt64 = 0
        /// When the debt last grew or drained.
        var owedAt: UInt64 = 0

        /// The smallest is evicted first; a debt is kept as long as a count of its time.
        var rank: UInt64 { debt > 0 ? max(tat, owedAt) : tat }
    }

    private var slots: UniqueArray<Slot>
    private let mask: Int
    /// Latest deny-until per group of keys, in microseconds on the worker's clock: a filter before the table, small enough
    /// for the processor's cache.
    private var refusing = UniqueArray<UInt64>(repeating: 0, count: groups)
    /// The maximum of `refusing`.
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

    /// Whether Redis could not admit the charge yet; then `verdict` is the refusal.
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

    /// TAT of `key`; 0 if it is not cached.
    @inline(__always)
    private mutating func tat(_ key: LimitKey) -> UInt64 {
        let slot = find(key)
        return slot < 0 ? 0 : slots[slot].tat
    }

    /// Slot of `key`; -1 if it is not cached.
    @inline(__always)
    private mutating func find(_ key: LimitKey) -> Int {
        let start = Int(truncatingIfNeeded: key.low) & mask
        for slot in start..<start + Self.width where slots[slot].key == key { return slot }
        return -1
    }

    /// Stores the TAT of a reply; not of what counts once: such come once each and would take the place of keys that come again.
    ///
    /// - Parameters:
    ///   - granted: grants to this worker, to be counted for the local limiter; 0 if the failure mode does not need them.
    ///   - gateways: number of gateways that share the rate.
    mutating func store(_ item: LimitCharge.Item, tat: UInt64, granted: UInt32, gateways: UInt32, _ clock: UInt64) {
        guard !item.subject.countsOnce else { return }
        let slot = claim(item.key)
        slots[slot].tat = tat
        let next = tat &+ item.rate.interval
        if next > clock &+ item.rate.storedTolerance {
            let until = next &- item.rate.storedTolerance
            refusing[Self.group(item.key)] = max(refusing[Self.group(item.key)], until)
            refusingLast = max(refusingLast, until)
        }
        guard granted > 0 else { return }
        // Capped at one burst: a gateway that just started owes at most that.
        let (length, isTooLong) = item.rate.shareInterval(of: gateways).multipliedReportingOverflow(by: UInt64(granted))
        let paid = isTooLong ? item.rate.tolerance : min(length, item.rate.tolerance)
        slots[slot].ownTAT = min(max(slots[slot].ownTAT, clock) &+ paid, clock &+ item.rate.tolerance)
    }

    /// This worker's grants that its share of the rate has not yet absorbed, rounded up; clears them.
    mutating func drainOwnGrants(_ share: LimitCharge.Item, _ clock: UInt64) -> UInt32 {
        let slot = find(share.key)
        guard slot >= 0 else { return 0 }
        let left = slots[slot].ownTAT - min(slots[slot].ownTAT, clock)
        slots[slot].ownTAT = 0
        return UInt32(clamping: (left &+ share.rate.interval &- 1) / share.rate.interval)
    }

    // MARK: debts

    /// Microseconds after which a debt that no command has paid is forgiven, unless the count takes longer to recover.
    private static let forgivenAfter: UInt64 = 10_000_000

    /// Whether one more local grant of this share stays within one burst of debt. From `drainsFrom` on debts drain with time.
    mutating func mayOwe(_ share: LimitCharge.Item, drainsFrom: UInt64?, _ clock: UInt64) -> Bool {
        let slot = find(share.key)
        guard slot >= 0, slots[slot].debt > 0 else { return true }
        if clock - min(clock, slots[slot].owedAt) > max(share.rate.tolerance, Self.forgivenAfter) {
            slots[slot].debt = 0
        } else if let drainsFrom {
            let since = max(drainsFrom, slots[slot].owedAt)
            slots[slot].debt -= min(slots[slot].debt, clock - min(clock, since))
            slots[slot].owedAt = max(since, clock)
        }
        return slots[slot].debt &+ share.rate.interval <= share.rate.tolerance
    }

    /// Adds a local grant of this share to its debt.
    mutating func owe(_ share: LimitCharge.Item, _ clock: UInt64) {
        let slot = claim(share.key)
        slots[slot].debt = min(slots[slot].debt &+ share.rate.interval, share.rate.tolerance)
        slots[slot].owedAt = clock
    }

    /// Whole grants that every count of `charge` owes.
    mutating func debt(of charge: inout LimitCharge, gateways: UInt32) -> UInt32 {
        var least = UInt64(UInt32.max)
        for index in 0..<charge.count {
            let slot = find(charge[index].key)
            guard slot >= 0, slots[slot].debt > 0 else { return 0 }
            least = min(least, slots[slot].debt / charge[index].rate.shareInterval(of: gateways))
        }
        return UInt32(truncatingIfNeeded: least)
    }

    /// Redis has counted `grants` on each count of `charge` whose bit is not set in `missing` beyond those of waiting requests.
    mutating func pay(_ charge: inout LimitCharge, grants: UInt32, missing: UInt8 = 0, gateways: UInt32) {
        guard grants > 0 else { return }
        for index in 0..<charge.count where missing & 1 << index == 0 {
            let slot = find(charge[index].key)
            guard slot >= 0, slots[slot].debt > 0 else { continue }
            let (paid, isAll) = charge[index].rate.shareInterval(of: gateways).multipliedReportingOverflow(by: UInt64(grants))
            slots[slot].debt -= isAll ? slots[slot].debt : min(paid, slots[slot].debt)
        }
    }

    /// The slot of `key`; if it has none, a new one in place of the entry that is evicted for it.
    private mutating func claim(_ key: LimitKey) -> Int {
        let start = Int(truncatingIfNeeded: key.low) & mask
        var victim = start
        for slot in start..<start + Self.width {
            if slots[slot].key == key { return slot }
            if slots[slot].rank < slots[victim].rank { victim = slot }
        }
        slots[victim] = Slot(key: key)
        return victim
    }
}

extension LimitReading {
    /// The state of a shared count with this TAT at `clock`, both in microseconds.
    init(tat: UInt64, _ rate: LimitRate, at clock: UInt64) {
        self.init(
            GCRA.take(now: clock, tat: tat, interval: rate.interval, tolerance: rate.storedTolerance, want: 0))
    }
}
