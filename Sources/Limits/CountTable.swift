import Gate
import Glibc
import Synchronization

/// Lock-free hash table of (key, TAT) entries in buckets of eight, shared by all workers of a process.
///
/// **Charging.** An entry is one 16-byte word, changed by compare-and-exchange. When two workers charge the same key, or one
/// charges and the other evicts it, one exchange fails and its worker searches again, so no charge is lost.
///
/// **Eviction.** A new key replaces the entry of its bucket with the smallest TAT. Entries whose full burst is available
/// count as empty, so a live entry is evicted only if all eight are live. Workers read their clocks once per loop turn, which
/// makes them differ by less than `slack`, so an entry counts as empty when its TAT is `slack` ago.
///
/// **One entry per key.** Two workers that insert the same key never claim two entries for it. A bucket has one victim
/// at a time: a slot and a number that no later victim of the bucket has. An entry stores the number under which it was
/// claimed; the next victim is chosen only once the slot of the last one stores its number. A worker with a new key reads
/// the victim, searches the bucket for its key, reads the victim again, and then exchanges the entry in that slot, if the
/// victim is unchanged and the entry does not store its number yet.
/// - That exchange succeeds only while the victim is current. If another was chosen after the second reading, a worker had
///   seen the slot store the number, so the entry has changed since it was read.
/// - Two workers with one key and one victim exchange the same entry: one fails. If the second worker has a later victim, it was
///   chosen after the first worker's exchange; its search came after that choice and found the key, unless it was evicted.
///
/// A victim that was charged since it was chosen, and no longer has the smallest TAT, stores the number and stays;
/// then another is chosen. Entries store 12 bits of the number, so an exchange could mistake a changed entry for
/// an unchanged one (ABA) only if the bucket had a multiple of 4,096 victims within that attempt and the entry held the same key
/// and the same TAT to the microsecond. The cost would be that of an eviction.
@safe
// Unchecked, for the compiler cannot see through the pointers: they are written once, in `init`, point to memory that
// lives as long as this object, and all access to it is atomic.
final class CountTable: @unchecked Sendable {
    private let slots: UnsafeMutablePointer<Atomic<WordPair>>
    private let victims: UnsafeMutablePointer<Atomic<UInt64>>
    private let live = Atomic<UInt64>(0)
    /// Buckets per partition, less one; a power of two less one.
    private let bucketMask: UInt64

    private static let width = 8
    private static let slack: UInt64 = 1_000_000

    /// Room for `capacity` keys per partition, rounded up to a power of two, at least 8.
    init(partitions: Int, capacity: Int) {
        var buckets = 1
        while buckets * Self.width < capacity { buckets *= 2 }
        bucketMask = UInt64(buckets - 1)
        unsafe slots = Self.zeroed(partitions * buckets * Self.width)
        unsafe victims = Self.zeroed(partitions * buckets)
    }

    deinit {
        unsafe free(slots)
        unsafe free(victims)
    }

    /// Zeroed memory; an atomic whose bits are all 0 holds 0. `calloc` aligns to 16, the largest alignment needed.
    private static func zeroed<Value: ~Copyable>(_ count: Int) -> UnsafeMutablePointer<Value> {
        let memory = unsafe calloc(count, MemoryLayout<Value>.stride)
        guard let memory = unsafe memory else { preconditionFailure("out of memory") }
        return unsafe memory.bindMemory(to: Value.self, capacity: count)
    }

    /// Number of entries evicted before their full burst was available.
    var evictions: UInt64 { live.load(ordering: .relaxed) }

    // MARK: counting

    /// Charges up to `want` units; `undo` is what `revert` needs.
    func take(_ item: LimitCharge.Item, now: UInt64, want: UInt32, _ undo: inout UndoRecord) -> GCRA.Outcome {
        let key = Self.key(item)
        let bucket = bucket(item)
        while true {
            guard let (slot, entry) = find(key, bucket) else {
                let outcome = Self.count(item, now, 0, want)
                if outcome.granted == 0 || claim(key, bucket, outcome.tat, now, &undo) { return outcome }
                continue
            }
            let outcome = Self.count(item, now, entry.tat, want)
            undo = UndoRecord(slot: slot, left: entry.with(tat: outcome.tat), before: entry.tat)
            if outcome.granted == 0 || exchange(slot, entry, undo.left) { return outcome }
        }
    }

    /// The state of a count, without a charge. An unknown key has its full burst.
    func look(_ item: LimitCharge.Item, now: UInt64) -> GCRA.Outcome {
        Self.count(item, now, find(Self.key(item), bucket(item))?.entry.tat ?? 0, 0)
    }

    /// Reverts a charge, if the entry is unchanged since; otherwise the charge stays and its caller has lost one unit.
    ///
    /// Subtracting an interval from the current TAT would not revert it. A charge moves the TAT to one interval past
    /// max(now, TAT). Once time has passed that TAT, the next charge starts from its own now and does not include this one,
    /// so subtracting would admit more than the rate. The earlier TAT is restored instead, and only for exactly the entry
    /// that the charge left.
    func revert(_ undo: UndoRecord) {
        _ = exchange(undo.slot, undo.left, undo.left.with(tat: undo.before))
    }

    /// Moves the TAT of a key back by `credit` microseconds, to `now` at the earliest.
    func refund(_ item: LimitCharge.Item, _ credit: UInt64, now: UInt64) {
        let key = Self.key(item)
        let bucket = bucket(item)
        while let (slot, entry) = find(key, bucket) {
            guard entry.tat > now else { return }
            if exchange(slot, entry, entry.with(tat: entry.tat - min(credit, entry.tat - now))) { return }
        }
    }

    private static func count(
        _ item: LimitCharge.Item, _ now: UInt64, _ tat: UInt64, _ want: UInt32
    ) -> GCRA.Outcome {
        GCRA.take(now: now, tat: tat, interval: item.rate.interval, tolerance: item.rate.tolerance, want: want)
    }

    // MARK: slots

    /// 0 marks unused slots.
    private static func key(_ item: LimitCharge.Item) -> UInt { UInt(max(item.key.low, 1)) }

    private func bucket(_ item: LimitCharge.Item) -> Int {
        item.partition &* Int(bucketMask &+ 1) &+ Int(item.key.high & bucketMask)
    }

    /// The `step`th slot of the search for `key`. New keys take the first empty one, so most searches end at once.
    private static func slot(_ step: Int, _ key: UInt, _ bucket: Int) -> Int {
        bucket &* width &+ ((Int(truncatingIfNeeded: key >> 56) &+ step) & (width &- 1))
    }

    /// The slot and entry of `key`; nil if it is not in the bucket.
    @inline(__always)
    private func find(_ key: UInt, _ bucket: Int) -> (slot: Int, entry: CountEntry)? {
        for step in 0..<Self.width {
            let slot = Self.slot(step, key, bucket)
            let entry = load(slot)
            if entry.key == key { return (slot, entry) }
        }
        return nil
    }

    /// The entry to evict for `key`, the first of the smallest rank; nil if the bucket holds the key.
    private func least(for key: UInt, _ bucket: Int, _ now: UInt64) -> (slot: Int, entry: CountEntry)? {
        var least = (slot: -1, entry: CountEntry(key: 0, tat: 0, number: 0))
        for step in 0..<Self.width {
            let slot = Self.slot(step, key, bucket)
            let entry = load(slot)
            if entry.key == key { return nil }
            if least.slot < 0 || Self.rank(entry, now) < Self.rank(least.entry, now) { least = (slot, entry) }
        }
        return least
    }

    /// Eviction order: the TAT, or 0 for an entry whose full burst is certainly available.
    private static func rank(_ entry: CountEntry, _ now: UInt64) -> UInt64 {
        entry.tat &+ slack <= now ? 0 : entry.tat
    }

    /// Writes a new key over its bucket's victim. False if another worker was faster; then the caller searches again. Not
    /// inlined, because most charges find their key.
    @inline(never)
    private func claim(_ key: UInt, _ bucket: Int, _ tat: UInt64, _ now: UInt64, _ undo: inout UndoRecord) -> Bool {
        guard let victim = victim(for: key, bucket, now), let least = least(for: key, bucket, now) else { return false }
        let slot = bucket &* Self.width &+ victim.slot
        let entry = slot == least.slot ? least.entry : load(slot)
        guard entry.number != victim.entryNumber, unsafe victims[bucket].load(ordering: .sequentiallyConsistent) == victim.bits
        else { return false }
        guard Self.rank(entry, now) <= Self.rank(least.entry, now) else {
            _ = exchange(slot, entry, entry.with(number: victim.entryNumber))
            return false
        }
        undo = UndoRecord(slot: slot, left: CountEntry(key: key, tat: tat, number: victim.entryNumber), before: 0)
        guard exchange(slot, entry, undo.left) else { return false }
        if entry.tat > now { live.wrappingAdd(1, ordering: .relaxed) }
        return true
    }

    /// The bucket's victim, chosen now if the last one was claimed; nil if another worker chose one or wrote the key
    /// meanwhile.
    private func victim(for key: UInt, _ bucket: Int, _ now: UInt64) -> Victim? {
        let victim = Victim(bits: unsafe victims[bucket].load(ordering: .sequentiallyConsistent))
        guard load(bucket &* Self.width &+ victim.slot).number == victim.entryNumber else { return victim }
        guard let least = least(for: key, bucket, now) else { return nil }
        let next = victim.next(slot: least.slot & (Self.width &- 1))
        let outcome = unsafe victims[bucket].compareExchange(
            expected: victim.bits, desired: next.bits, ordering: .sequentiallyConsistent)
        return outcome.exchanged ? next : nil
    }

    private func load(_ slot: Int) -> CountEntry {
        CountEntry(unsafe slots[slot].load(ordering: .sequentiallyConsistent))
    }

    private func exchange(_ slot: Int, _ old: CountEntry, _ new: CountEntry) -> Bool {
        unsafe slots[slot].compareExchange(expected: old.pair, desired: new.pair, ordering: .sequentiallyConsistent).exchanged
    }
}

extension CountTable {
    /// Undo record of a charge: where it was counted, the entry it left, and the TAT before it.
    struct UndoRecord {
        var slot = 0
        var left = CountEntry(key: 0, tat: 0, number: 0)
        var before: UInt64 = 0
    }
}

/// One entry: half of a key (the bucket implies more of it), the TAT in microseconds, and the low bits of its victim's
/// number.
struct CountEntry {
    let key: UInt
    private let rest: UInt

    private static let tatBits: UInt = 52
    private static let latest: UInt = 1 << tatBits - 1

    init(key: UInt, tat: UInt64, number: UInt) {
        self.key = key
        // 142 years, of which a tolerance is at most a quarter.
        rest = min(UInt(tat), Self.latest) | number << Self.tatBits
    }

    init(_ pair: WordPair) {
        key = pair.first
        rest = pair.second
    }

    var tat: UInt64 { UInt64(rest & Self.latest) }
    /// 12 bits.
    var number: UInt { rest >> Self.tatBits }
    var pair: WordPair { WordPair(first: key, second: rest) }

    func with(tat: UInt64) -> CountEntry { CountEntry(key: key, tat: tat, number: number) }
    func with(number: UInt) -> CountEntry { CountEntry(key: key, tat: tat, number: number) }
}

/// The slot of a bucket that the next new key replaces, with its number.
private struct Victim {
    let bits: UInt64

    /// Within its bucket.
    var slot: Int { Int(bits & 7) }
    /// The part of the number that an entry stores.
    var entryNumber: UInt { UInt(bits >> 3) & 0xFFF }

    func next(slot: Int) -> Victim { Victim(bits: (bits >> 3 &+ 1) << 3 | UInt64(slot)) }
}

extension LimitCharge.Item {
    /// Number of partitions.
    static var partitions: Int { SubjectKind.allCases.count * LimitRate.recoveries }

    /// Partition of the table: counts evict each other only within one. What counts once has the rate of the life that it has left.
    var partition: Int { Int(subject.rawValue) &* LimitRate.recoveries &+ (subject == .attestation ? 0 : rate.recovery) }
}

extension LimitRate {
    fileprivate static var recoveries: Int { 3 }

    /// Class of a limit by the time to refill its burst: up to a minute, up to an hour, longer (rounded up to powers of two
    /// of microseconds).
    fileprivate var recovery: Int { tolerance < 1 << 26 ? 0 : tolerance < 1 << 32 ? 1 : 2 }
}
