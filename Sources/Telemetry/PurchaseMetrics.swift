package import Wire

/// Metrics of purchases and of what stores notify; part of the process's metrics.
package struct PurchaseMetrics: Sendable {
    /// Types of one source that have series of their own; further ones count as `other`.
    private static let maxTypes = 64
    /// In milliseconds, 0.1 s to a day: stores notify seconds to minutes after the event, and repeat what failed for days.
    private static let lagBounds: [UInt64] = [
        100, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000,
    ]

    /// By the values of their labels.
    private var claims: [[String]: UInt64] = [:]
    private var events: [[String]: UInt64] = [:]
    private var types: [String: Set<String>] = [:]
    private var newest: [String: WallTime] = [:]
    private var lags = ProcessHistogram(lagBounds, decimals: 3)
    private var fences = ProcessHistogram(HistogramScale.latencyBounds, decimals: 6)
    private var incompleteFences: UInt64 = 0

    package init() {}

    package mutating func claimed(source: String, verdict: String) { claims[[source, verdict], default: 0] += 1 }

    /// `type` without its subtype is the label; only an authentic event has one.
    package mutating func notified(source: String, type: String?, verdict: String) {
        events[[source, type.map { known($0, of: source) } ?? "unread", verdict], default: 0] += 1
    }

    /// An event was kept so many milliseconds after the store's time for it.
    package mutating func kept(lagMilliseconds: Int64) { lags.observe(lagMilliseconds) }

    /// An event of a source was kept at this time, here or on another gateway.
    package mutating func kept(source: String, at time: WallTime) { newest[source] = max(newest[source] ?? time, time) }

    package mutating func fenced(milliseconds: Int64, isEverywhere: Bool) {
        fences.observe(milliseconds.multipliedReportingOverflow(by: 1_000).partialValue)
        if !isEverywhere { incompleteFences += 1 }
    }

    private mutating func known(_ type: String, of source: String) -> String {
        let name = type.utf8.prefix { $0 != UInt8(ascii: "/") }
        guard (1...64).contains(name.count), name.allSatisfy({ $0.isASCIILetter || $0.isASCIIDigit || "._-".utf8.contains($0) }) else {
            return "other"
        }
        let text = String(decoding: name, as: UTF8.self)
        var others = types[source] ?? []
        if others.contains(text) { return text }
        guard others.count < Self.maxTypes else { return "other" }
        others.insert(text)
        types[source] = others
        return text
    }
}

extension ExpositionWriter {
    mutating func write(_ purchases: PurchaseMetrics) { purchases.write(&self) }
}

extension PurchaseMetrics {
    fileprivate func write(_ writer: inout ExpositionWriter) {
        write(claims, .purchases, &writer)
        write(events, .storeEvents, &writer)
        writer.write(lags, writer.family(.storeEventLag))
        let newest = writer.family(.storeEventNewest)
        for (source, time) in self.newest.sorted(by: { $0.key < $1.key }) {
            writer.sample(newest, [("source", source)], time.microseconds, decimals: 6)
        }
        writer.write(fences, writer.family(.purchaseFence))
        writer.sample(writer.family(.incompleteFences), [], Int64(clamping: incompleteFences))
    }
    private func write(_ counts: [[String]: UInt64], _ family: ProcessFamily, _ writer: inout ExpositionWriter) {
        let name = writer.family(family)
        for (values, count) in counts.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            writer.sample(name, Array(zip(family.description.labels, values)), Int64(clamping: count))
        }
    }
}
