package import Wire

/// Deadlines by small integer id; extending one costs a store.
package struct TimerWheel: ~Copyable {
    /// `slots` is a power of two; the horizon is `tickMilliseconds * slots`.
    package init(tickMilliseconds: Int = 16, slots: Int = 1024, now: MonotonicTime) {}
    /// Sets or moves the deadline of `id`.
    package mutating func set(_ id: Int, deadline: MonotonicTime) {}
    /// Forgets the deadline of `id`, if it has one.
    package mutating func clear(_ id: Int) {}
    /// Appends the ids whose deadline is at or before `now` to `due` and forgets them.
    package mutating func expire(_ now: MonotonicTime, into due: inout [Int]) {}
    /// How long an event loop may wait: -1 if no deadline is set.
    package func millisecondsToNext(_ now: MonotonicTime) -> Int32 { -1 }
}
