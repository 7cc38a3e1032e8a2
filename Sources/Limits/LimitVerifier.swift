package import Gate
/// Offline check of logged grants, from any number of gateways: in every window of length T each limit granted at most burst
/// + rate × T. Reports the windows that violate it (`tollgate limits verify`).
///
/// The arithmetic is exact: times are whole microseconds, and both sides are multiplied by the rate's count, so nothing is
/// rounded. The window from grant i to grant j violates the bound if (j - i + 1) × period > burst × period + (tj - ti) ×
/// count. For a given j, the worst i is the grant at which a bucket that replays the grants was last full, so one pass over
/// the sorted grants finds every j.
///
/// A grant of a limit with `+lease` is stamped when Redis granted it, up to `leaseTime` before it was spent. The bound on
/// stamps is therefore smaller, by the rate times `leaseTime` (`SharedLimitClient`).
package struct LimitVerifier: Sendable {
    /// One limit of one caller, as the log names it.
    package struct Subject: Hashable, Sendable {
        package var key: LimitKey
        package var rate: LimitRate

        package init(key: LimitKey, rate: LimitRate) {
            self.key = key
            self.rate = rate
        }
    }

    /// A window with too many grants, from its first grant to its last, in microseconds on the clock that counted.
    package struct Violation: Equatable, Sendable {
        package var subject: Subject
        package var from: UInt64
        package var to: UInt64
        package var admitted: Int
        /// Maximum grants in a window of that length.
        package var bound: Int
    }

    private var grants: [Subject: [UInt64]] = [:]
    package private(set) var grantCount = 0
    package var subjectCount: Int { grants.count }

    package init() {}

    /// Adds a grant at `time`, in microseconds; in any order.
    package mutating func add(_ subject: Subject, at time: UInt64) {
        grants[subject, default: []].append(time)
        grantCount += 1
    }

    /// The worst window of each subject that has one, largest excess first.
    package func violations() -> [Violation] {
        let found = grants.compactMap { Self.worst($0, $1.sorted()) }
        return found.sorted { ($0.admitted - $0.bound, $1.from) > ($1.admitted - $1.bound, $0.from) }
    }

    private static func worst(_ subject: Subject, _ times: [UInt64]) -> Violation? {
        let (count, period) = (UInt128(subject.rate.count), UInt128(subject.rate.windowSeconds) * 1_000_000)
        let room = UInt128(subject.rate.burst) * period - UInt128(subject.rate.leaseTime) * count
        var worst: Violation?
        var excess: UInt128 = 0
        var first = 0
        var full: UInt128 = 0
        for (index, time) in times.enumerated() {
            let now = UInt128(time) * count
            if index == 0 || full <= now {
                first = index
                full = now
            }
            full += period
            guard full - now > room, full - now - room > excess else { continue }
            excess = full - now - room
            let length = UInt128(time - times[first])
            worst = Violation(
                subject: subject, from: times[first], to: time, admitted: index - first + 1,
                bound: Int((room + length * count) / period))
        }
        return worst
    }
}
