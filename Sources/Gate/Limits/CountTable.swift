import Glibc
import Synchronization

/// Entries of (key, TAT) in buckets of eight, which all workers of a process read and change without a lock.
///
/// **Charging.** An entry is one 16-byte word that is compared and exchanged as a whole. Of two workers that charge a key, or
/// of which one charges and the other evicts it, one fails its exchange and searches again, so no charge is lost.
///
/// **Eviction.** A new key takes the entry of its bucket that has the smallest TAT. Entries that have their full burst again
/// count as empty, so a live entry goes only when all eight of its bucket are live. Clocks of workers, read once per turn of
/// their loops, differ by less than `slack`, so an entry counts as empty when its TAT is `slack` ago.
///
/// **One entry per key.** Two workers that see a key for the first time never claim two entries for it. A bucket has one victim
/// at a time: a slot, under a number that no later victim of the bucket has. An entry carries the number under which it was
/// claimed, and the next victim is chosen only once the slot of the last one carries its number. A worker with a new key reads
/// the victim, searches the bucket for its key, reads the victim again, and then exchanges the entry in that slot, if the
/// victim is the same and the entry does not carry its number yet.
/// - That exchange succeeds only while the victim is current. If another was chosen after the second reading, somebody had
///   seen the slot carry the number, so the entry has changed since it was read.
/// - Two workers with one key and one victim exchange the same entry: one fails. If the second one's victim is another, it was
///   chosen after the first one's exchange; the search came after that choice, and found the key, or it has been evicted.
///
/// An entry that was charged since it was chosen, and has no longer the smallest TAT, is given the victim's number and stays:
/// then another victim is chosen. Entries have room for 12 bits of the number, so an exchange could take a changed entry for
/// an unchanged one only if its bucket had a multiple of 4,096 victims within that one attempt, and the same key stood there
/// with the same TAT to the microsecond. Its cost would be that of an eviction.
@safe
// Unchecked, for the compiler cannot see through the pointers: they are written once, in `init`, point to memory that
// lives as long as this object, and all access to it is atomic.
final class CountTable: @unchecked Sendable {
    private let slots: UnsafeMutablePointer<Atomic<WordPair>>
    private let victims: UnsafeMutablePointer<Atomic<UInt64>>
    private let live = Atomic<UInt64>(0)
    /// Buckets of each partition, less one: a power of two less one.
    private let bucketMask: UInt64

    private static let width = 8
    private static let slack: UInt64 = 1_000_000

    /// Room for `capacity` keys in each of so many partitions: rounded up to a power of two, 8 at least.
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

    /// Zeroed memory, for whose atomics all bits 0 is the value 0. `calloc` aligns to 16, all that the widest needs.
    private static func zeroed<Value: ~Copyable>(_ count: Int) -> UnsafeMutablePointer<Value> {
        let memory = unsafe calloc(count, MemoryLayout<Value>.stride)
        guard let memory = unsafe memory else { preconditionFailure("out of memory") }
        return unsafe memory.bindMemory(to: Value.self, capacity: count)
    }

    /// How many entries were evicted before they had their full burst again.
    var evictions: UInt64 { live.load(ordering: .relaxed) }

    // MARK: counting

    /// Charges up to `want`, and says in `place` where, for `putBack`.
    func take(_ item: LimitCharge.Item, now: UInt64, want: UInt32, _ place: inout Place) -> GCRA.Outcome {
        let key = Self.key(item)
        let bucket = bucket(item)
        while true {
            guard let (slot, entry) = find(key, bucket) else {
                let outcome = Self.count(item, now, 0, want)
                if outcome.granted == 0 || claim(key, bucket, outcome.tat, now, &place) { return outcome }
                continue
            }
            let outcome = Self.count(item, now, entry.tat, want)
            place = Place(slot: slot, left: entry.with(tat: outcome.tat), before: entry.tat)
            if outcome.granted == 0 || exchange(slot, entry, place.left) { return outcome }
        }
    }

    /// What the count would say to a request, without charging it. That of an unknown key is full.
    func look(_ item: LimitCharge.Item, now: UInt64) -> GCRA.Outcome {
        Self.count(item, now, find(Self.key(item), bucket(item))?.entry.tat ?? 0, 0)
    }

    /// Undoes a charge, if nobody has charged or evicted the key since; otherwise the charge stays and its caller has lost one.
    ///
    /// To take an interval off whatever stands there now would not undo it. A charge moves the TAT to an interval past
    /// the later of now and itself: once time has passed the TAT that the charge left, another charge begins at its own
    /// now and owes nothing to this one, and an interval off would let one more pass than the rate allows. So it is the
    /// TAT before that is put back, for the exact entry that was left there.
    func putBack(_ place: Place) {
        _ = exchange(place.slot, place.left, place.left.with(tat: place.before))
    }

    /// Moves the TAT of a key back by `credit`, to `now` at the earliest.
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

    /// 0 marks slots never used.
    private static func key(_ item: LimitCharge.Item) -> UInt { UInt(max(item.key.low, 1)) }

    private func bucket(_ item: LimitCharge.Item) -> Int {
        item.partition &* Int(bucketMask &+ 1) &+ Int(item.key.high & bucketMask)
    }

    /// The slot that a search for `key` looks at as its `step`th. New keys take the first that is free, so most are found at once.
    private static func slot(_ step: Int, _ key: UInt, _ bucket: Int) -> Int {
        bucket &* width &+ ((Int(truncatingIfNeeded: key >> 56) &+ step) & (width &- 1))
    }

    /// The entry of `key`.
    @inline(__always)
    private func find(_ key: UInt, _ bucket: Int) -> (slot: Int, entry: CountEntry)? {
        for step in 0..<Self.width {
            let slot = Self.slot(step, key, bucket)
            let entry = load(slot)
            if entry.key == key { return (slot, entry) }
        }
        return nil
    }

    /// The entry that `key` would take, the first of the smallest rank; nil if the bucket holds the key.
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

    /// By what entries are evicted: the TAT, and 0 for all that certainly have their full burst again.
    private static func rank(_ entry: CountEntry, _ now: UInt64) -> UInt64 {
        entry.tat &+ slack <= now ? 0 : entry.tat
    }

    /// Writes a new key in place of its bucket's victim. False if it lost a race to another worker; then the caller searches
    /// again. Out of line, for most charges find their key and are not to pay for this.
    @inline(never)
    private func claim(_ key: UInt, _ bucket: Int, _ tat: UInt64, _ now: UInt64, _ place: inout Place) -> Bool {
        guard let victim = victim(for: key, bucket, now), let least = least(for: key, bucket, now) else { return false }
        let slot = bucket &* Self.width &+ victim.slot
        let entry = slot == least.slot ? least.entry : load(slot)
        guard entry.number != victim.entryNumber, unsafe victims[bucket].load(ordering: .sequentiallyConsistent) == victim.bits
        else { return false }
        guard Self.rank(entry, now) <= Self.rank(least.entry, now) else {
            _ = exchange(slot, entry, entry.with(number: victim.entryNumber))
            return false
        }
        place = Place(slot: slot, left: CountEntry(key: key, tat: tat, number: victim.entryNumber), before: 0)
        guard exchange(slot, entry, place.left) else { return false }
        if entry.tat > now { live.wrappingAdd(1, ordering: .relaxed) }
        return true
    }

    /// The victim of a bucket, chosen now if the last one was claimed; nil if another worker chose it or wrote the key meanwhile.
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
    /// Where a charge was counted, what it left there, and the TAT before it.
    struct Place {
        var slot = 0
        var left = CountEntry(key: 0, tat: 0, number: 0)
        var before: UInt64 = 0
    }
}

/// One entry: half of a key (its bucket tells more of it), the TAT in microseconds, and the low bits of its victim's number.
struct CountEntry {
    let key: UInt
    private let rest: UInt

    private static let tatBits: UInt = 52
    private static let latest: UInt = 1 << tatBits - 1

    init(key: UInt, tat: UInt64, number: UInt) {
        self.key = key
        // 142 years, of which a tolerance is a quarter at most.
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

/// The slot of a bucket whose entry the next new key takes, under a number of its own.
private struct Victim {
    let bits: UInt64

    /// Within its bucket.
    var slot: Int { Int(bits & 7) }
    /// As much of the number as an entry carries.
    var entryNumber: UInt { UInt(bits >> 3) & 0xFFF }

    func next(slot: Int) -> Victim { Victim(bits: (bits >> 3 &+ 1) << 3 | UInt64(slot)) }
}
