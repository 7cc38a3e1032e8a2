package import Wire

/// The bounds of the gateway and the times in which it sheds load, by bound. A plain value, guarded by its owner.
package struct Overload: Sendable {
    /// One period of shedding that has ended.
    package struct Ended: Equatable, Sendable {
        package let reason: OverloadReason
        package let milliseconds: UInt64
    }

    private struct Period {
        var began: MonotonicTime
        var latest: MonotonicTime
    }

    /// Without a shed for so long a period is over, in milliseconds: long enough that a steady overload is one of them.
    package static let quiet: UInt64 = 5_000

    private var periods: [OverloadReason: Period] = [:]
    /// The bounds in force: requests, connections or bytes.
    package var limits: [OverloadReason: Int] = [:]

    package init() {}

    /// Load was shed; returns whether a period begins.
    package mutating func shed(_ reason: OverloadReason, at now: MonotonicTime) -> Bool {
        let begins = periods[reason] == nil
        periods[reason, default: Period(began: now, latest: now)].latest = now
        return begins
    }

    /// The periods that are over by `now`, each once.
    package mutating func ended(by now: MonotonicTime) -> [Ended] {
        OverloadReason.allCases.compactMap { reason in
            guard let period = periods[reason], now >= period.latest.advanced(milliseconds: Self.quiet) else { return nil }
            periods[reason] = nil
            return Ended(reason: reason, milliseconds: period.latest.nanoseconds(since: period.began) / 1_000_000)
        }
    }

    /// The bounds that are reached now.
    package var reasons: [OverloadReason] { OverloadReason.allCases.filter { periods[$0] != nil } }

    /// Those of them that hold back every client: one that is beyond its share leaves room for the others.
    package var reachedByAll: [OverloadReason] { reasons.filter { $0 != .share } }
}
