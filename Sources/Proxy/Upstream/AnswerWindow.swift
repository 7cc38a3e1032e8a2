/// Answers of one address in one window: successes, failures, and the times to their heads. A value; one worker's, or the sum of all.
package struct AnswerWindow: Equatable, Sendable {
    var successes = 0
    var failures = 0
    var times = TimeHistogram()

    var count: Int { successes + failures }
    var isEmpty: Bool { count == 0 && times.count == 0 }

    /// Percentage of successes; of no answers 100.
    var success: Int { count == 0 ? 100 : successes * 100 / count }

    mutating func add(_ other: AnswerWindow) {
        successes += other.successes
        failures += other.failures
        times.add(other.times)
    }

    /// Returns what was counted and starts anew.
    mutating func takeWindow() -> AnswerWindow {
        let harvested = self
        self = AnswerWindow()
        if !harvested.times.isOff { times.start() }
        return harvested
    }
}

/// Histogram of times in microseconds, four buckets to each power of two up to two minutes, so that a quantile is exact to a fifth.
struct TimeHistogram: Equatable, Sendable {
    private static let buckets = 112

    private(set) var count = 0
    /// Empty while times are not counted.
    private var counts: [UInt32] = []

    var isOff: Bool { counts.isEmpty }

    mutating func start() {
        if counts.isEmpty { counts = [UInt32](repeating: 0, count: Self.buckets) }
    }

    mutating func stop() { self = TimeHistogram() }

    mutating func add(microseconds: UInt64) {
        guard !counts.isEmpty else { return }
        count += 1
        counts[min(Self.bucket(microseconds), Self.buckets - 1)] &+= 1
    }

    mutating func add(_ other: TimeHistogram) {
        guard other.count > 0 else { return }
        start()
        count += other.count
        for bucket in counts.indices { counts[bucket] &+= other.counts[bucket] }
    }

    /// The least time of the bucket in which the median lies, in microseconds; nil of nothing.
    var median: UInt64? {
        guard count > 0 else { return nil }
        var rest = (count + 1) / 2
        for bucket in counts.indices {
            rest -= Int(counts[bucket])
            if rest <= 0 { return Self.least(bucket) }
        }
        return nil
    }

    private static func bucket(_ value: UInt64) -> Int {
        guard value >= 4 else { return Int(value) }
        let power = 63 - value.leadingZeroBitCount
        return (power - 1) * 4 + Int(value >> UInt64(power - 2) & 3)
    }

    private static func least(_ bucket: Int) -> UInt64 {
        guard bucket >= 4 else { return UInt64(bucket) }
        return UInt64(4 + bucket % 4) << UInt64(bucket / 4 - 1)
    }
}
