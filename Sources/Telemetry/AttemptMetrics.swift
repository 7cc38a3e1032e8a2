/// Sign-in attempts refused per bucket; part of the process's metrics.
package struct AttemptMetrics: Sendable {
    private var refused: [(bucket: String, count: UInt64)]

    /// `buckets` lists all kinds.
    package init(buckets: [String]) { refused = buckets.map { (bucket: $0, count: 0) } }

    package mutating func refused(by bucket: String) {
        guard let index = refused.firstIndex(where: { $0.bucket == bucket }) else { return }
        refused[index].count += 1
    }

    var counts: [(bucket: String, count: UInt64)] { refused }
}

extension ExpositionWriter {
    mutating func write(_ attempts: AttemptMetrics) {
        let name = family(.refusedAttempts)
        for (bucket, count) in attempts.counts { sample(name, [("bucket", bucket)], Int64(clamping: count)) }
    }
}
