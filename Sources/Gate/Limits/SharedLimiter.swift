import Glibc
import Synchronization
package import Wire

/// Counts for all workers of one process: a fixed table of (key, TAT) that is read and changed without a lock.
///
/// A key belongs to one bucket of eight slots, each one 16-byte word that is compared and exchanged as a whole, so that
/// to claim a slot and to charge it is one step, and no charge is ever lost. Slots are never emptied: one whose TAT has
/// passed may be claimed for another key.
///
/// Two workers that see a key for the first time at once must not claim two slots for it. They would if each judged
/// by its own clock which slots are free. So they judge by the bucket's horizon, which they share: a slot is free if
/// its TAT lies at or before the horizon. At a given horizon slots only stop being free, and the horizon moves on
/// only when somebody found none free. Hence whoever chose a slot that a later horizon, or another worker, overtook
/// finds that slot changed, fails its exchange, and looks again; and whoever did not chose the same slot as its
/// rival.
///
/// The horizon stays `slack` behind the clock, for the clocks of workers, read once per turn of their loops, differ.
///
/// A bucket full of live keys shares one more count among all further keys: it may refuse too much. A key that
/// later gets a slot of its own starts from that count. (Eight live keys in a bucket where 262,144 fit in all: with
/// 50,000 live keys about one bucket in 30,000.)
package final class SharedLimiter: Sendable {
    /// What keeps the keys of one process from being chosen by its peers.
    package let hash: KeyedHash

    private let table: SlotTable

    /// A table for `capacity` live keys: rounded up to a power of two, 8 at least. Its pages are committed as they
    /// are used, 17 bytes a key.
    package init(capacity: Int = 262_144, hash: KeyedHash = .random()) {
        self.hash = hash
        table = SlotTable(capacity: capacity)
    }

    /// Charges one, from any thread. `now` is the monotonic clock of all callers.
    package func take(_ charge: LimitCharge, now: MonotonicTime) -> LimitVerdict {
        .counted(take(charge, now: now, want: 1))
    }

    /// Charges up to `want`.
    package func take(_ charge: LimitCharge, now: MonotonicTime, want: UInt32) -> GCRA.Outcome {
        table.take(charge, now: Self.clock(now), want: want)
    }

    /// Microseconds, never 0: that is the TAT of a slot never used.
    private static func clock(_ now: MonotonicTime) -> UInt64 { now.nanoseconds / 1_000 &+ 1 }
}

/// The memory of a `SharedLimiter`, and its one algorithm.
@safe
// Unchecked, for the compiler cannot see through the pointers: they are written once, in `init`, point to memory that
// lives as long as this object, and all access to it is atomic.
private final class SlotTable: @unchecked Sendable {
    private let slots: UnsafeMutablePointer<Atomic<WordPair>>
    private let horizons: UnsafeMutablePointer<Atomic<UInt64>>
    private let overflows: UnsafeMutablePointer<Atomic<UInt64>>
    private let bucketMask: UInt64

    private static let width: UInt64 = 8
    private static let slack: UInt64 = 1_000_000

    init(capacity: Int) {
        var buckets = 1
        while buckets * Int(Self.width) < capacity { buckets *= 2 }
        bucketMask = UInt64(buckets - 1)
        unsafe slots = Self.zeroed(buckets * Int(Self.width))
        unsafe horizons = Self.zeroed(buckets)
        unsafe overflows = Self.zeroed(buckets)
    }

    deinit {
        unsafe free(slots)
        unsafe free(horizons)
        unsafe free(overflows)
    }

    /// Zeroed memory, for whose atomics all bits 0 is the value 0. `calloc` aligns to 16, all that the widest needs.
    private static func zeroed<Value: ~Copyable>(_ count: Int) -> UnsafeMutablePointer<Value> {
        let memory = unsafe calloc(count, MemoryLayout<Value>.stride)
        guard let memory = unsafe memory else { preconditionFailure("out of memory") }
        return unsafe memory.bindMemory(to: Value.self, capacity: count)
    }

    /// What a look through a bucket found.
    private enum Search {
        case found(slot: Int, WordPair)
        case free(slot: Int, WordPair)
        case full
    }

    func take(_ charge: LimitCharge, now: UInt64, want: UInt32) -> GCRA.Outcome {
        // 0 marks slots never used.
        let key = UInt(max(charge.key.low, 1))
        let bucket = Int(charge.key.high & bucketMask)
        while true {
            let horizon = unsafe horizons[bucket].load(ordering: .sequentiallyConsistent)
            switch search(key, bucket, horizon) {
            case .found(let slot, let pair):
                let outcome = Self.count(charge, now, UInt64(pair.second), want)
                if outcome.granted == 0 || exchange(slot, pair, key, outcome.tat) { return outcome }
            case .free(let slot, let pair):
                let shared = unsafe overflows[bucket].load(ordering: .sequentiallyConsistent)
                let outcome = Self.count(charge, now, shared, want)
                if outcome.granted == 0 || exchange(slot, pair, key, outcome.tat) { return outcome }
            case .full:
                let moved = now > Self.slack ? now - Self.slack : 0
                if moved <= horizon { return takeShared(charge, bucket, now, want) }
                // If another worker moved it first, that serves as well.
                _ = unsafe horizons[bucket].compareExchange(
                    expected: horizon, desired: moved, ordering: .sequentiallyConsistent)
            }
        }
    }

    /// Looks for `key`, and for the first free slot, from a slot on that depends on the key alone.
    private func search(_ key: UInt, _ bucket: Int, _ horizon: UInt64) -> Search {
        var free = -1
        var freePair = WordPair(first: 0, second: 0)
        let start = UInt64(key) >> 56
        for step in 0..<Self.width {
            let slot = bucket &* Int(Self.width) &+ Int((start &+ step) & (Self.width &- 1))
            let pair = unsafe slots[slot].load(ordering: .sequentiallyConsistent)
            if pair.first == key { return .found(slot: slot, pair) }
            if free < 0 && UInt64(pair.second) <= horizon {
                free = slot
                freePair = pair
            }
        }
        return free < 0 ? .full : .free(slot: free, freePair)
    }

    private func exchange(_ slot: Int, _ old: WordPair, _ key: UInt, _ tat: UInt64) -> Bool {
        unsafe slots[slot].compareExchange(
            expected: old, desired: WordPair(first: key, second: UInt(tat)), ordering: .sequentiallyConsistent
        ).exchanged
    }

    private func takeShared(_ charge: LimitCharge, _ bucket: Int, _ now: UInt64, _ want: UInt32) -> GCRA.Outcome {
        while true {
            let shared = unsafe overflows[bucket].load(ordering: .sequentiallyConsistent)
            let outcome = Self.count(charge, now, shared, want)
            if outcome.granted == 0 { return outcome }
            let exchanged = unsafe overflows[bucket].compareExchange(
                expected: shared, desired: outcome.tat, ordering: .sequentiallyConsistent
            ).exchanged
            if exchanged { return outcome }
        }
    }

    private static func count(_ charge: LimitCharge, _ now: UInt64, _ tat: UInt64, _ want: UInt32) -> GCRA.Outcome {
        GCRA.take(
            now: now, tat: tat, interval: charge.rate.interval, tolerance: charge.rate.tolerance, want: want)
    }
}
