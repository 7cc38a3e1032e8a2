/// The generic cell rate algorithm, as one pure function over whole microseconds.
///
/// A caller's whole history is one time, its TAT: the moment at which it has its full burst again. Each grant moves it
/// on by one interval, and it may lie at most `tolerance` = burst × interval ahead of now. Refusals move nothing.
///
/// The bound: whatever the order of calls and however their clocks lag, let the grants stamped within [a, a + T] be
/// counted in the order they were made. The first leaves TAT ≥ a + interval, each later one adds an interval, and the
/// last found TAT ≤ a + T + tolerance. So there are at most burst + T / interval of them, and `interval` is rounded up.
package enum GCRA {
    /// What one call decided.
    package struct Outcome: Equatable, Sendable {
        /// 0 to what was wanted.
        package var granted: UInt32
        /// To be kept; the old one if nothing was granted.
        package var tat: UInt64
        /// What could pass right after this.
        package var remaining: UInt32
        /// Microseconds until the full burst is there again.
        package var reset: UInt64
        /// Microseconds until one more may pass; 0 if `remaining` is not 0.
        package var retryAfter: UInt64
    }

    /// Grants up to `want` at `now`. All times are microseconds on one clock, below 2^62; `tat` is 0 for a new caller.
    @inline(__always)
    package static func take(
        now: UInt64, tat: UInt64, interval: UInt64, tolerance: UInt64, want: UInt32
    ) -> Outcome {
        let base = max(tat, now)
        let horizon = now &+ tolerance
        let room = horizon > base ? horizon &- base : 0
        // Most calls want one: no division then but the one for `remaining`.
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

    /// Microseconds that may be given back at `now` of one charge that was made at `chargedAt` and turned out not to count,
    /// such as a guess that was right: its interval less its age. So what is given back at once has cost nothing, and else
    /// it has cost the time it took.
    ///
    /// To give back the whole interval would be wrong: of a count that is idle otherwise the charge itself drains, and what
    /// has drained would be handed out twice. A steady stream of right guesses would empty the count while many of them are
    /// under way, and as many wrong ones more could pass as these give back in the end.
    ///
    /// With the credit the bound of all charges that are not given back stays burst + rate × T. Proof: beside this count, A =
    /// TAT − now or 0, imagine one that was never charged for what is given back in the end, B. Claim: at all times A is at
    /// least B + the sum of the credits of all charges still to be given back.
    /// - As time passes, A falls by at most as much as has passed, and never below 0; the right side, while it is above 0,
    ///   falls by at least as much, for at least one of its terms is above 0.
    /// - A charge adds an interval to A, and one to B or to the credits.
    /// - To give back takes the credit from A and from the sum, and the claim says that A has it: the floor at now in
    ///   `refund` is never the higher one.
    /// So A ≥ B: whatever A admits B would have admitted, and B is a count of its charges alone, with the bound above.
    ///
    /// Calls on one count must come in the order of their `now`; a clock that was set back gives back at most an interval.
    @inline(__always)
    package static func credit(interval: UInt64, chargedAt: UInt64, now: UInt64) -> UInt64 {
        let age = now > chargedAt ? now &- chargedAt : 0
        return interval > age ? interval &- age : 0
    }

    /// The TAT when `credit` has been given back.
    @inline(__always)
    package static func refund(now: UInt64, tat: UInt64, credit: UInt64) -> UInt64 {
        tat > credit ? max(now, tat &- credit) : now
    }
}
