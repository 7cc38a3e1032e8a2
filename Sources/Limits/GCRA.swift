package import Gate
/// Generic cell rate algorithm as a pure function over whole microseconds.
///
/// The state of a count is one time, its TAT (theoretical arrival time): when the full burst is available again. Each grant
/// moves it by one interval, and it may be at most `tolerance` = burst × interval ahead of now. Refusals do not move it.
///
/// Bound: whatever the order of calls and the lag of their clocks, order the grants stamped within [a, a + T] as they were
/// made. The first leaves TAT ≥ a + interval, each later one adds an interval, and the last found TAT ≤ a + T + tolerance.
/// So there are at most burst + T / interval of them. `interval` is rounded up, which only lowers the bound.
package enum GCRA {
    /// Result of one call.
    package struct Outcome: Equatable, Sendable {
        /// From 0 to the number requested.
        package var granted: UInt32
        /// The TAT to store; unchanged if nothing was granted.
        package var tat: UInt64
        /// Grants available immediately after this call.
        package var remaining: UInt32
        /// Microseconds until the full burst is available.
        package var reset: UInt64
        /// Microseconds until one more is granted; 0 if `remaining` is not 0.
        package var retryAfter: UInt64
    }

    /// Grants up to `want` at `now`. Times are microseconds on one clock, below 2^62; `tat` is 0 for a new key.
    @inline(__always)
    package static func take(
        now: UInt64, tat: UInt64, interval: UInt64, tolerance: UInt64, want: UInt32
    ) -> Outcome {
        let base = max(tat, now)
        let horizon = now &+ tolerance
        let room = horizon > base ? horizon &- base : 0
        // The common call wants one and pays for one division, that of `remaining`.
        let fits = room / interval
        let granted = UInt32(truncatingIfNeeded: min(UInt64(want), fits))
        let remaining = fits &- UInt64(granted)
        let next = granted > 0 ? base &+ UInt64(granted) &* interval : tat
        let reset = next > now ? next &- now : 0
        let wait = remaining > 0 ? 0 : max(next, now) &+ interval &- horizon
        return Outcome(
            granted: granted, tat: next, remaining: UInt32(truncatingIfNeeded: remaining), reset: reset, retryAfter: wait)
    }

    // MARK: giving back

    /// Microseconds that may be refunded at `now` for one charge made at `chargedAt`: its interval less its age. An
    /// immediate refund cancels the charge; a later one leaves the time it was held charged.
    ///
    /// Refunding the whole interval would break the limit: an otherwise idle count drains by itself while the charge is
    /// open, and the drained part would be granted twice. A steady stream of correct passwords would then empty the count,
    /// and as many wrong ones could pass.
    ///
    /// With this credit, the charges that are never refunded stay within burst + rate × T. Proof: let A = max(TAT − now, 0)
    /// for this count, and B the same for an imaginary count that only sees the charges which are never refunded. Claim: A ≥
    /// B + the sum of the credits of all open charges.
    /// - Time passing lowers A by at most the elapsed time, and not below 0; the right side, while positive, falls by at
    ///   least as much, because at least one term is positive.
    /// - A charge adds an interval to A, and one to B or to the credits.
    /// - A refund takes the credit from A and from the sum. By the claim A is large enough, so the floor at now in `refund`
    ///   never applies.
    ///
    /// So A ≥ B: whatever this count admits, the imaginary one would admit too, and it obeys the bound above.
    ///
    /// Calls on one count must come in the order of their `now`; after a clock step backwards, at most one interval is
    /// refunded.
    @inline(__always)
    package static func credit(interval: UInt64, chargedAt: UInt64, now: UInt64) -> UInt64 {
        let age = now > chargedAt ? now &- chargedAt : 0
        return interval > age ? interval &- age : 0
    }

    /// The TAT after a refund of `credit` microseconds.
    @inline(__always)
    package static func refund(now: UInt64, tat: UInt64, credit: UInt64) -> UInt64 {
        tat > credit ? max(now, tat &- credit) : now
    }
}

extension LimitReading {
    package init(_ outcome: GCRA.Outcome) {
        self.init(remaining: outcome.remaining, reset: outcome.reset, retryAfter: outcome.retryAfter)
    }
}
