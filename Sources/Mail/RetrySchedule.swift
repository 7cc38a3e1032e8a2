/// When to try again what could not be sent: soon at first, then every five minutes.
enum RetrySchedule {
    private static let seconds: [UInt64] = [1, 4, 15, 60, 120, 300]

    /// Milliseconds from the `failures`th failure (1 or more) to the next try, shifted by up to a quarter by `jitter`, so
    /// that what failed together does not come back together.
    static func pause(failures: Int, jitter: UInt64) -> UInt64 {
        precondition(failures > 0)
        let pause = seconds[min(failures, seconds.count) - 1] * 1_000
        return pause - pause / 4 + jitter % (pause / 2)
    }
}
