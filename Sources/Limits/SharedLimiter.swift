package import Gate
package import Wire

/// Rate limiter shared by all workers of a process: a table of fixed size without locks. Any thread.
///
/// **Bound.** A key is granted at most burst + rate × T in any window of length T, exactly, as long as it is not evicted. A
/// count never answers for another key or rate; a key that is not in the table has its full burst.
///
/// **Eviction.** Keys share buckets of eight. A new key that finds eight live ones evicts the one with the smallest TAT,
/// which gains at most one burst. Keys share buckets only within a partition: one per subject kind, so that subjects which
/// clients can invent evict none that they cannot; and one per recovery time (a minute, an hour, longer), so that daily
/// limits of many addresses do not crowd out limits per minute.
///
/// A partition has room for 262,144 keys. With 50,000 live keys about one bucket in 30,000 overflows, with 131,000 one in
/// 50. The hash is keyed, so clients cannot tell which keys share a bucket. (With Redis and no shared secret it is not, but
/// then this table is only the fallback.) To evict a given count a client needs about as many live keys as a partition
/// holds; to have nine of its own in some bucket, which then evict each other, a quarter of that. A client with that many
/// addresses (IPv6: /64s) or sign-ins gains one burst per eviction, as does the evicted key. Eviction never refuses a
/// request.
package final class SharedLimiter: Sendable {
    /// Hashes limit keys, so that clients cannot choose them. Gateways that share counts share its key.
    package let hash: KeyedHash

    /// The WebSockets that workers hold open.
    let sockets = OpenSockets()
    /// The ended sessions that workers know; their keys are hashed by `hash`.
    let revoked = RevocationList()
    private let table: CountTable

    /// Room for `capacity` live keys per partition, rounded up to a power of two, at least 8. Pages are committed as they
    /// are used, 17 bytes per key.
    package init(capacity: Int = 262_144, hash: KeyedHash = .random()) {
        self.hash = hash
        table = CountTable(partitions: LimitCharge.Item.partitions, capacity: capacity)
    }

    /// Number of live counts that were evicted.
    package var evictions: UInt64 { table.evictions }

    /// Charges one unit to all counts of `charge`, or to none. Any thread; `now` is the monotonic clock of all callers.
    package func take(_ charge: inout LimitCharge, now: MonotonicTime, into verdict: inout LimitVerdict) {
        let clock = Self.clock(now)
        verdict.becomes(granted: true, .process, count: charge.count)
        verdict.countedAt = clock
        guard charge.count == 1 else { return take(&charge, clock, &verdict) }
        let outcome = take(charge[0], now: now, want: 1)
        verdict[0] = LimitReading(outcome)
        if outcome.granted == 0 { verdict.becomes(granted: false, .process, count: 1) }
    }

    /// Charges up to `want` to one count; also used to add grants that Redis made.
    package func take(_ item: LimitCharge.Item, now: MonotonicTime, want: UInt32) -> GCRA.Outcome {
        var undo = CountTable.UndoRecord()
        return table.take(item, now: Self.clock(now), want: want, &undo)
    }

    /// Counts the attestation of a request in shadow mode, if it has one that counts once.
    package func watch(_ decision: inout Decision, now: MonotonicTime) {
        if let use = decision.watchedUse, take(use, now: now, want: 1).granted == 0 { decision.noteRepeatedUse() }
    }

    /// Refunds up to `credit` microseconds: moves the key's TAT back, to now at the earliest. No effect on a key without a
    /// TAT ahead of now. `GCRA.credit` computes the credit of one charge.
    ///
    /// The credit belongs to the count, not to one charge: if that charge has drained since, a later one is refunded in its
    /// place. So a key is granted at most burst + rate × T, plus one for each interval refunded within T.
    package func refund(_ item: LimitCharge.Item, credit: UInt64, now: MonotonicTime) {
        table.refund(item, credit, now: Self.clock(now))
    }

    /// Charges one unit to all counts or to none; `verdict` is a grant on entry.
    ///
    /// Reads all counts before charging any, so a refused request changes nothing. If a concurrent charge exhausts a count
    /// in between, the charges made so far are reverted. Each of them was a grant of its own count, so every bound holds
    /// either way.
    private func take(_ charge: inout LimitCharge, _ now: UInt64, _ verdict: inout LimitVerdict) {
        var allAdmit = true
        for index in 0..<charge.count {
            verdict[index] = LimitReading(table.look(charge[index], now: now))
            if verdict[index].remaining == 0 { allAdmit = false }
        }
        guard allAdmit else { return verdict.becomes(granted: false, .process, count: charge.count) }
        var undos = PerCount<CountTable.UndoRecord>(repeating: CountTable.UndoRecord())
        for index in 0..<charge.count {
            let outcome = table.take(charge[index], now: now, want: 1, &undos[index])
            verdict[index] = LimitReading(outcome)
            guard outcome.granted == 0 else { continue }
            for earlier in (0..<index).reversed() {
                table.revert(undos[earlier])
                verdict[earlier] = LimitReading(table.look(charge[earlier], now: now))
            }
            return verdict.becomes(granted: false, .process, count: charge.count)
        }
    }

    /// Microseconds, never 0, which is the TAT of an unused entry.
    private static func clock(_ now: MonotonicTime) -> UInt64 { now.nanoseconds / 1_000 &+ 1 }
}
