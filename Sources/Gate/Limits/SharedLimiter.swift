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
    /// What limit keys are made with, which keeps peers from choosing them. Gateways that count together share it.
    package let hash: KeyedHash

    private let table: SlotTable

    /// A table for `capacity` live keys: rounded up to a power of two, 8 at least. Its pages are committed as they
    /// are used, 17 bytes a key.
    package init(capacity: Int = 262_144, hash: KeyedHash = .random()) {
        self.hash = hash
        table = SlotTable(capacity: capacity)
    }

    /// Charges one to all counts of `charge`, or to none, from any thread. `now` is the monotonic clock of all callers.
    package func take(_ charge: inout LimitCharge, now: MonotonicTime, into verdict: inout LimitVerdict) {
        verdict.becomes(granted: true, .process, count: charge.count)
        verdict.countedAt = Self.clock(now)
        guard charge.count == 1 else { return table.take(&charge, now: Self.clock(now), &verdict) }
        let outcome = take(charge[0], now: now, want: 1)
        verdict[0] = LimitReading(outcome)
        if outcome.granted == 0 { verdict.becomes(granted: false, .process, count: 1) }
    }

    /// Charges up to `want` to one count: also what another store has granted, as far as it fits.
    package func take(_ item: LimitCharge.Item, now: MonotonicTime, want: UInt32) -> GCRA.Outcome {
        var place = SlotTable.Place()
        return table.take(item, now: Self.clock(now), want: want, &place)
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

    /// Where a charge was counted, and what stood there before and after.
    struct Place {
        var slot = 0
        var key: UInt = 0
        /// Whether `slot` is the number of a bucket, and the count that which its further keys share.
        var isShared = false
        var before: UInt64 = 0
        var after: UInt64 = 0
    }

    /// What a look through a bucket found.
    private enum Search {
        case found(slot: Int, WordPair)
        case free(slot: Int, WordPair)
        case full
    }

    // MARK: one count

    func take(_ item: LimitCharge.Item, now: UInt64, want: UInt32, _ place: inout Place) -> GCRA.Outcome {
        let key = Self.key(item)
        let bucket = bucket(item)
        while true {
            let horizon = unsafe horizons[bucket].load(ordering: .sequentiallyConsistent)
            switch search(key, bucket, horizon) {
            case .found(let slot, let pair):
                let outcome = Self.count(item, now, UInt64(pair.second), want)
                place = Place(slot: slot, key: key, before: UInt64(pair.second), after: outcome.tat)
                if outcome.granted == 0 || exchange(slot, pair, key, outcome.tat) { return outcome }
            case .free(let slot, let pair):
                let shared = unsafe overflows[bucket].load(ordering: .sequentiallyConsistent)
                let outcome = Self.count(item, now, shared, want)
                place = Place(slot: slot, key: key, before: shared, after: outcome.tat)
                if outcome.granted == 0 || exchange(slot, pair, key, outcome.tat) { return outcome }
            case .full:
                let moved = now > Self.slack ? now - Self.slack : 0
                if moved <= horizon { return takeShared(item, bucket, now, want, &place) }
                // If another worker moved it first, that serves as well.
                _ = unsafe horizons[bucket].compareExchange(
                    expected: horizon, desired: moved, ordering: .sequentiallyConsistent)
            }
        }
    }

    // MARK: several counts

    /// Charges one to all counts or to none, and says so in `verdict`, which is a grant until then.
    ///
    /// It looks before it takes: a request that is refused has touched nothing, so none meets a charge that is only about
    /// to be taken back. One that finds a count overtaken between the look and the taking puts back what it took. Each
    /// taking is a grant by its own count, so the bound of each holds whatever becomes of the others.
    func take(_ charge: inout LimitCharge, now: UInt64, _ verdict: inout LimitVerdict) {
        var allAdmit = true
        for index in 0..<charge.count {
            verdict[index] = LimitReading(look(charge[index], now))
            if verdict[index].remaining == 0 { allAdmit = false }
        }
        guard allAdmit else { return verdict.becomes(granted: false, .process, count: charge.count) }
        var places = InlineArray<4, Place>(repeating: Place())
        for index in 0..<charge.count {
            let outcome = take(charge[index], now: now, want: 1, &places[index])
            verdict[index] = LimitReading(outcome)
            guard outcome.granted == 0 else { continue }
            for earlier in (0..<index).reversed() {
                putBack(places[earlier], now)
                verdict[earlier] = LimitReading(look(charge[earlier], now))
            }
            return verdict.becomes(granted: false, .process, count: charge.count)
        }
    }

    /// What one count would say to a request, without charging it.
    private func look(_ item: LimitCharge.Item, _ now: UInt64) -> GCRA.Outcome {
        let bucket = bucket(item)
        let horizon = unsafe horizons[bucket].load(ordering: .sequentiallyConsistent)
        let tat =
            switch search(Self.key(item), bucket, horizon) {
            case .found(_, let pair): UInt64(pair.second)
            case .free, .full: unsafe overflows[bucket].load(ordering: .sequentiallyConsistent)
            }
        return Self.count(item, now, tat, 0)
    }

    /// Undoes a charge, if nobody has charged the count since; otherwise the charge stays and its caller has lost one.
    ///
    /// To take an interval off whatever stands there now would not undo it. A charge moves the TAT to an interval past
    /// the later of now and itself: once time has passed the TAT that the charge left, another charge begins at its own
    /// now and owes nothing to this one, and an interval off would let one more pass than the rate allows. So it is the
    /// exact word that is put back, for the exact word that was left there.
    ///
    /// A TAT in the past comes back as now, which says the same, a full burst, and keeps the slot from being free again:
    /// at a given horizon slots only stop being free, or two could be claimed for one key.
    private func putBack(_ place: Place, _ now: UInt64) {
        if place.isShared {
            _ = unsafe overflows[place.slot].compareExchange(
                expected: place.after, desired: place.before, ordering: .sequentiallyConsistent)
        } else {
            let left = WordPair(first: place.key, second: UInt(place.after))
            _ = exchange(place.slot, left, place.key, max(place.before, now))
        }
    }

    // MARK: slots

    /// 0 marks slots never used.
    private static func key(_ item: LimitCharge.Item) -> UInt { UInt(max(item.key.low, 1)) }

    private func bucket(_ item: LimitCharge.Item) -> Int { Int(item.key.high & bucketMask) }

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

    private func takeShared(
        _ item: LimitCharge.Item, _ bucket: Int, _ now: UInt64, _ want: UInt32, _ place: inout Place
    ) -> GCRA.Outcome {
        while true {
            let shared = unsafe overflows[bucket].load(ordering: .sequentiallyConsistent)
            let outcome = Self.count(item, now, shared, want)
            place = Place(slot: bucket, isShared: true, before: shared, after: outcome.tat)
            if outcome.granted == 0 { return outcome }
            let exchanged = unsafe overflows[bucket].compareExchange(
                expected: shared, desired: outcome.tat, ordering: .sequentiallyConsistent
            ).exchanged
            if exchanged { return outcome }
        }
    }

    private static func count(
        _ item: LimitCharge.Item, _ now: UInt64, _ tat: UInt64, _ want: UInt32
    ) -> GCRA.Outcome {
        GCRA.take(now: now, tat: tat, interval: item.rate.interval, tolerance: item.rate.tolerance, want: want)
    }
}

extension SharedLimiter {
    /// Gives back `credit` microseconds of one charge to a count: see `GCRA.credit`. A key that has no slot of its own any
    /// more is left as it is, which refuses too much and never too little.
    package func giveBack(_ item: LimitCharge.Item, credit: UInt64, now: MonotonicTime) {
        if credit > 0 { table.giveBack(item, credit, Self.clock(now)) }
    }
}

extension SlotTable {
    func giveBack(_ item: LimitCharge.Item, _ credit: UInt64, _ now: UInt64) {
        let key = Self.key(item)
        let bucket = bucket(item)
        while true {
            let horizon = unsafe horizons[bucket].load(ordering: .sequentiallyConsistent)
            guard case .found(let slot, let pair) = search(key, bucket, horizon) else { return }
            let tat = GCRA.giveBack(now: now, tat: UInt64(pair.second), credit: credit)
            if exchange(slot, pair, key, tat) { return }
        }
    }
}
