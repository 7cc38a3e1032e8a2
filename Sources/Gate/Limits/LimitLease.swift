/// Grants that a worker holds in advance of the requests that will spend them.
struct LimitLease {
    private(set) var grants: UInt32 = 0
    /// On the worker's clock, in microseconds; none is spent from then on.
    private var until: UInt64 = 0

    /// Replaces what was held. `until` is as much later than the asking as the policy lets grants be held.
    mutating func hold(_ grants: UInt32, until: UInt64) {
        self.grants = grants
        self.until = until
    }

    /// Whether there was one to spend.
    mutating func spend(_ clock: UInt64) -> Bool {
        guard grants > 0, clock < until else { return false }
        grants -= 1
        return true
    }
}

/// How fast requests come for the same counts: two windows of 100 ms, the last one counted as far as it still lies within
/// the last 100 ms.
struct LimitDemand {
    private var start: UInt64 = 0
    private var count: UInt32 = 0
    private var before: UInt32 = 0

    private static let window: UInt64 = 100_000
    /// More than so many in a window are worth a lease.
    private static let hot: UInt64 = 4

    mutating func note(_ clock: UInt64) {
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

    /// How many grants to ask for beyond those that are needed now.
    ///
    /// Three quarters of what came in as much time as a lease lives, so that nearly all of it is spent and little dies
    /// unspent; and of what is `remaining` a half shared among all `holders`, so that leases shrink to nothing as the
    /// limit nears and none starves another.
    mutating func lease(_ clock: UInt64, leaseTime: UInt64, remaining: UInt32, holders: UInt32) -> UInt32 {
        roll(clock)
        let demand = UInt64(count) + UInt64(before) * (Self.window - (clock &- start)) / Self.window
        guard demand > Self.hot else { return 0 }
        let wanted = demand * leaseTime * 3 / (Self.window * 4)
        let lease = min(wanted, UInt64(remaining) / (2 * UInt64(max(holders, 1))))
        return lease < 2 ? 0 : UInt32(truncatingIfNeeded: lease)
    }
}
