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
}
