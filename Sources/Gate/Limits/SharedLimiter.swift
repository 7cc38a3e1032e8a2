package import Wire

/// Counts for all workers of one process, in a table of fixed size without locks.
///
/// **The bound.** A key is granted at most burst + rate × T in any window of length T, exactly, as long as it is not evicted.
/// No count ever answers for another key or another rate: a key that is not in the table has its full burst.
///
/// **Eviction.** Keys meet in buckets of eight. A new key that finds eight live ones there evicts the one with the smallest
/// TAT, which is granted at most one burst more for it. Only keys of one partition meet: of one kind of subject, so that those
/// of which clients have as many as they like evict none of which they have few; and of limits that recover alike (up to a
/// minute, up to an hour, longer), so that a hundred a day from many addresses do not keep every place from counts of a minute.
///
/// A partition has room for 262,144 keys. With 50,000 live ones about one bucket in 30,000 has more than eight; with 131,000
/// one in 50. Clients cannot tell which keys meet, for the hash is keyed. (With Redis and no secret between gateways it is not,
/// but then this table only stands in for Redis.) So it takes about as many live keys of a partition as fit to evict a given
/// count, and a quarter of that to have nine of one's own in some bucket, which then evict each other. Whoever has so many
/// addresses (IPv6: /64s), or has signed in so often, gains a burst for each eviction, and so does everybody whose count is
/// evicted. Nobody is refused for it.
package final class SharedLimiter: Sendable {
    /// What limit keys are made with, which keeps peers from choosing them. Gateways that count together share it.
    package let hash: KeyedHash

    private let table: CountTable

    /// Room for `capacity` live keys in each partition: rounded up to a power of two, 8 at least. Pages are committed as they
    /// are used, 17 bytes a key.
    package init(capacity: Int = 262_144, hash: KeyedHash = .random()) {
        self.hash = hash
        table = CountTable(partitions: LimitCharge.Item.partitions, capacity: capacity)
    }

    /// How many counts were evicted before they were full again.
    package var evictions: UInt64 { table.evictions }

    /// Charges one to all counts of `charge`, or to none, from any thread. `now` is the monotonic clock of all callers.
    package func take(_ charge: inout LimitCharge, now: MonotonicTime, into verdict: inout LimitVerdict) {
        let clock = Self.clock(now)
        verdict.becomes(granted: true, .process, count: charge.count)
        verdict.countedAt = clock
        guard charge.count == 1 else { return take(&charge, clock, &verdict) }
        let outcome = take(charge[0], now: now, want: 1)
        verdict[0] = LimitReading(outcome)
        if outcome.granted == 0 { verdict.becomes(granted: false, .process, count: 1) }
    }

    /// Charges up to `want` to one count: also what another store has granted, as far as it fits.
    package func take(_ item: LimitCharge.Item, now: MonotonicTime, want: UInt32) -> GCRA.Outcome {
        var place = CountTable.Place()
        return table.take(item, now: Self.clock(now), want: want, &place)
    }

    /// Returns up to `credit` microseconds of what a key was charged: its TAT moves back by so much, to now at the earliest.
    /// Does nothing for a key that has no TAT ahead of now. `GCRA.credit` says how much of one charge may be returned.
    ///
    /// The credit is for the count, not for one charge of it: if that charge has run down since, a later one is returned in
    /// its place. So a key is granted at most burst + rate × T, and one more for each interval returned within T.
    package func refund(_ item: LimitCharge.Item, credit: UInt64, now: MonotonicTime) {
        table.refund(item, credit, now: Self.clock(now))
    }

    /// Charges one to all counts or to none, and says so in `verdict`, which is a grant until then.
    ///
    /// It looks before it takes: a request that is refused has touched nothing, so none meets a charge that is only about
    /// to be taken back. One that finds a count overtaken between the look and the taking puts back what it took. Each
    /// taking is a grant by its own count, so the bound of each holds whatever becomes of the others.
    private func take(_ charge: inout LimitCharge, _ now: UInt64, _ verdict: inout LimitVerdict) {
        var allAdmit = true
        for index in 0..<charge.count {
            verdict[index] = LimitReading(table.look(charge[index], now: now))
            if verdict[index].remaining == 0 { allAdmit = false }
        }
        guard allAdmit else { return verdict.becomes(granted: false, .process, count: charge.count) }
        var places = InlineArray<4, CountTable.Place>(repeating: CountTable.Place())
        for index in 0..<charge.count {
            let outcome = table.take(charge[index], now: now, want: 1, &places[index])
            verdict[index] = LimitReading(outcome)
            guard outcome.granted == 0 else { continue }
            for earlier in (0..<index).reversed() {
                table.putBack(places[earlier])
                verdict[earlier] = LimitReading(table.look(charge[earlier], now: now))
            }
            return verdict.becomes(granted: false, .process, count: charge.count)
        }
    }

    /// Microseconds, never 0: that is the TAT of an entry never used.
    private static func clock(_ now: MonotonicTime) -> UInt64 { now.nanoseconds / 1_000 &+ 1 }
}
