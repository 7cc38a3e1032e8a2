internal import Accounts
internal import Gate
internal import Transport
internal import Wire

/// Counts attempts at accounts in the same table that counts for routes.
struct AttemptCounts: AttemptLimiter {
    private static let domain: UInt64 = 6

    let limiter: SharedLimiter

    func wait(_ bucket: AttemptBucket) async -> Int? {
        let outcome = take(bucket, 0)
        return outcome.remaining > 0 ? nil : max(1, Int(clamping: (outcome.retryAfter + 999_999) / 1_000_000))
    }

    func count(_ bucket: AttemptBucket) async { _ = take(bucket, 1) }

    private func take(_ bucket: AttemptBucket, _ want: UInt32) -> GCRA.Outcome {
        let (burst, perHour) = bucket.kind.rate
        guard let rate = LimitRate(count: perHour, windowSeconds: 3_600, burst: burst) else {
            preconditionFailure("a rate of attempts is out of range")
        }
        let key = "\(bucket.kind.rawValue) \(bucket.subject)".withRawBytes {
            limiter.hash.hash128($0, domain: Self.domain)
        }
        return limiter.take(LimitCharge.Item(key: key, rate: rate), now: EventLoop.now().monotonic, want: want)
    }
}
