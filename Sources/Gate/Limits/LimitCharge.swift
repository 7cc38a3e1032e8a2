
/// Whom a charge counts against: 128 bits of a keyed hash, of the policy (route, rate and burst) and of the subject.
///
/// The policy is part of it, so a caller whose tier changes is counted under the new one's limit at once.
@frozen
public struct LimitKey: Hashable, Sendable {
    public var high: UInt64
    public var low: UInt64

    @inlinable public init(high: UInt64 = 0, low: UInt64 = 0) {
        self.high = high
        self.low = low
    }

    /// The key of a subject under a policy. Both are outputs of a keyed hash, so that their sum is as good as a hash of
    /// the two together.
    @inlinable public func combined(with other: LimitKey) -> LimitKey {
        LimitKey(high: high ^ other.high, low: low ^ other.low)
    }
}

/// What a store of counts is asked: may one more pass? The seam between the gate and whatever counts.
package struct LimitCharge: Sendable {
    package var key: LimitKey
    package var rate: LimitRate

    package init(key: LimitKey, rate: LimitRate) {
        self.key = key
        self.rate = rate
    }
}

/// What a store of counts answers.
package enum LimitVerdict: Equatable, Sendable {
    /// Counted: the times are microseconds.
    case counted(GCRA.Outcome)
    /// Nothing could be counted, and the request passes all the same.
    case open
    /// Nothing could be counted, and the request must not pass.
    case closed(retryAfterSeconds: UInt32)
}
