package import Accounts
import Synchronization
import Wire

/// Counts attempts without a window; only refunds lower a count.
package final class StrictLimiter: AttemptLimiter {
    /// The rates whose bursts are the limits.
    package static let rates = AttemptRates(
        openings: AttemptRate(count: 300, windowSeconds: 3_600, burst: 100),
        sms: AttemptRate(count: 1_000, windowSeconds: 3_600, burst: 50))

    private let counts = Mutex<[AttemptBucket: UInt32]>([:])

    package init() {}

    package func charge(_ buckets: [AttemptBucket]) async -> AttemptVerdict {
        counts.withLock { counts in
            let full = buckets.filter { counts[$0, default: 0] >= Self.rates[$0.kind].burst }
            guard full.isEmpty else { return .refused(full.map { AttemptRefusal($0.kind, retryAfterSeconds: 20) }) }
            for bucket in buckets { counts[bucket, default: 0] += 1 }
            let now = MonotonicTime(nanoseconds: 0)
            return .admitted(buckets.map { AttemptCharge($0, Self.rates[$0.kind], at: now, sharedAt: nil) })
        }
    }

    package func mark(_ bucket: AttemptBucket) async { _ = await charge([bucket]) }

    package func refund(_ charges: [AttemptCharge]) {
        counts.withLock { counts in
            for charge in charges {
                guard let count = counts[charge.bucket], count > 0 else { preconditionFailure("given back twice") }
                counts[charge.bucket] = count - 1
            }
        }
    }

    /// The sum of the counts of a kind.
    package func counted(_ kind: AttemptBucket.Kind) -> UInt32 {
        counts.withLock { $0.filter { $0.key.kind == kind }.map(\.value).reduce(0, +) }
    }
}
