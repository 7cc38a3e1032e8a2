internal import Glibc
package import Wire

/// The clocks of this machine.
package enum SystemClock {
    /// Both clocks, without a system call.
    @Sendable package static func now() -> Moment {
        var monotonic = timespec()
        var wall = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &monotonic)
        unsafe clock_gettime(CLOCK_REALTIME, &wall)
        return Moment(
            monotonic: MonotonicTime(
                nanoseconds: UInt64(monotonic.tv_sec) &* 1_000_000_000 &+ UInt64(monotonic.tv_nsec)),
            wall: WallTime(microseconds: Int64(wall.tv_sec) &* 1_000_000 &+ Int64(wall.tv_nsec / 1000)))
    }
}
