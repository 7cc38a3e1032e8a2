/// Proves of the grants of any number of gateways that no window of time saw more of them than its limit allows:
/// at most burst + rate × T in every window of length T. Or names the windows that did.
///
/// The arithmetic is exact: times are whole microseconds, and everything is multiplied by the rate's count, so that
/// nothing is rounded. A window from grant i to grant j holds too many if (j - i + 1) × period > burst × period +
/// (tj - ti) × count. For a given j the worst i is the one that a bucket replayed over the grants remembers as the
/// time it was last full, so one pass over the sorted grants finds every j.
///
/// A grant of a limit with `+lease` is stamped with the time at which Redis gave it, not that at which it was spent, up to
/// `leaseTime` later. So of the stamps fewer may come together: by the burst less what the rate gives in that time
/// (`SharedLimitClient`).
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

    /// A window that admitted too many: from its first grant to its last, microseconds on the clock that counted.
    package struct Violation: Equatable, Sendable {
        package var subject: Subject
        package var from: UInt64
        package var to: UInt64
        package var admitted: Int
        /// The most that may pass in a window of that length.
        package var bound: Int
    }

    private var grants: [Subject: [UInt64]] = [:]
    package private(set) var grantCount = 0
    package var subjectCount: Int { grants.count }

    package init() {}

    /// Takes note of a grant at `time`; the order does not matter.
    package mutating func add(_ subject: Subject, at time: UInt64) {
        grants[subject, default: []].append(time)
        grantCount += 1
    }

    /// The worst window of each subject that has one, the largest excess first.
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
