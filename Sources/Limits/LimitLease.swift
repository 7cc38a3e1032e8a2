import Gate
/// Lease: grants that a worker holds in advance of the requests that will spend them.
struct LimitLease {
    private(set) var grants: UInt32 = 0
    /// Expiry on the worker's clock, in microseconds.
    private var until: UInt64 = 0

    /// Replaces the lease. `until` is the send time of the command plus the policy's lease time.
    mutating func hold(_ grants: UInt32, until: UInt64) {
        self.grants = grants
        self.until = until
    }

    /// Spends one grant; false if there is none left or the lease has expired.
    mutating func spend(_ clock: UInt64) -> Bool {
        guard grants > 0, clock < until else { return false }
        grants -= 1
        return true
    }
}

/// Request rate for one set of counts: two windows of 100 ms, the earlier one weighted by its part of the last 100 ms.
struct LimitDemand {
    private var start: UInt64 = 0
    private var count: UInt32 = 0
    private var before: UInt32 = 0

    private static let window: UInt64 = 100_000
    /// More requests than this per window are worth a lease.
    private static let hot: UInt64 = 4

    mutating func record(_ clock: UInt64) {
        roll(clock)
        count &+= 1
    }

    private mutating func roll(_ clock: UInt64) {
        let elapsed = clock &- start
        guard elapsed >= Self.window else { return }
        let isNext = elapsed < 2 * Self.window
        before = isNext ? count : 0
        start = isNext ? start &+ Self.window : clock
        count = 0
    }

    /// Number of grants to ask for in addition to those that are needed now.
    ///
    /// Three quarters of the demand within one lease time, so that few grants expire unspent; and at most half of
    /// `remaining` divided among all `holders`, so that leases shrink to nothing as the limit nears and no holder starves
    /// another.
    mutating func lease(_ clock: UInt64, leaseTime: UInt64, remaining: UInt32, holders: UInt32) -> UInt32 {
        roll(clock)
        let demand = UInt64(count) + UInt64(before) * (Self.window - (clock &- start)) / Self.window
        guard demand > Self.hot else { return 0 }
        let wanted = demand * leaseTime * 3 / (Self.window * 4)
        let lease = min(wanted, UInt64(remaining) / (2 * UInt64(max(holders, 1))))
        return lease < 2 ? 0 : UInt32(truncatingIfNeeded: lease)
    }
}
