/// The back-off of delivery retries: 1 s, growing to 5 minutes.
enum RetrySchedule {
    private static let seconds: [UInt64] = [1, 4, 15, 60, 120, 300]

    /// Milliseconds from the `failures`th failure (1 or more) to the next attempt, varied by ±25 % by `jitter`, a random number,
    /// so that messages that failed together are not retried together.
    static func pause(failures: Int, jitter: UInt64) -> UInt64 {
        precondition(failures > 0)
        let pause = seconds[min(failures, seconds.count) - 1] * 1_000
        return pause - pause / 4 + jitter % (pause / 2)
    }
}
