/// A histogram of the process's metrics.
struct ProcessHistogram: Sendable {
    /// Upper bounds of the buckets, inclusive; one more bucket has none.
    private let bounds: [UInt64]
    /// Decimal places of a value in seconds.
    private let decimals: Int
    private var counts: [UInt64]
    private var sum: UInt64 = 0

    init(_ bounds: [UInt64], decimals: Int) {
        self.bounds = bounds
        self.decimals = decimals
        counts = Array(repeating: 0, count: bounds.count + 1)
    }

    /// A negative value counts as 0.
    mutating func observe(_ value: Int64) {
        let value = UInt64(max(0, value))
        counts[bounds.firstIndex { value <= $0 } ?? bounds.count] += 1
        sum &+= value
    }

    fileprivate func write(_ name: String, _ writer: inout ExpositionWriter) {
        var total: UInt64 = 0
        for (index, count) in counts.enumerated() {
            total += count
            let le = index < bounds.count ? writer.bucketBound(Int64(bounds[index]), decimals: decimals) : "+Inf"
            writer.sample(name + "_bucket", [("le", le)], Int64(clamping: total))
        }
        writer.sample(name + "_sum", [], Int64(clamping: sum), decimals: decimals)
        writer.sample(name + "_count", [], Int64(clamping: total))
    }
}

extension ExpositionWriter {
    mutating func write(_ histogram: ProcessHistogram, _ name: String) { histogram.write(name, &self) }
}
