/// The requests of all workers since the start, in sum and by route: the numbers of the console.
package struct TrafficSummary: Sendable {
    /// Requests of one route, or of all.
    package struct Counts: Sendable, Equatable {
        package internal(set) var requests: UInt64 = 0
        package internal(set) var refused: UInt64 = 0
        /// By the first digit of the status; 0 for those without an answer.
        package internal(set) var byClass = [UInt64](repeating: 0, count: 6)
        /// By duration: a count for each of the latency bounds, and one above them.
        package internal(set) var durations = [UInt64](repeating: 0, count: HistogramScale.latencyBounds.count + 1)

        package init() {}

        /// The latency bounds in microseconds, each with its count.
        package var buckets: [(bound: UInt64, count: UInt64)] { Array(zip(HistogramScale.latencyBounds, durations)) }

        static func + (one: Counts, other: Counts) -> Counts {
            var sum = one
            sum.requests += other.requests
            sum.refused += other.refused
            for index in sum.byClass.indices { sum.byClass[index] += other.byClass[index] }
            for index in sum.durations.indices { sum.durations[index] += other.durations[index] }
            return sum
        }

        /// Microseconds within which this share of the requests was answered, interpolated within its bucket; nil without requests.
        /// Above all bounds it is the largest bound.
        package func quantile(_ share: Double) -> UInt64? {
            let total = durations.reduce(0, +)
            guard total > 0 else { return nil }
            let rank = share * Double(total)
            var below: UInt64 = 0
            for (index, count) in durations.enumerated() where count > 0 {
                guard Double(below + count) >= rank else {
                    below += count
                    continue
                }
                guard index < HistogramScale.latencyBounds.count else { break }
                let start = index > 0 ? HistogramScale.latencyBounds[index - 1] : 0
                let width = HistogramScale.latencyBounds[index] - start
                return start + UInt64(Double(width) * max(0, rank - Double(below)) / Double(count))
            }
            return HistogramScale.latencyBounds.last
        }
    }

    /// The routes of the console on the main listeners. Their streams last as long as a page is open, so they would hide the clients'
    /// latency.
    private static let ofConsole: Set<String> = ["own-console", "own-admin-api", "own-admin"]

    /// All but those of the console.
    package private(set) var total = Counts()
    /// By the name of the route; `-` for requests that matched none.
    package private(set) var routes: [String: Counts] = [:]
    /// By code, those that happened, without the console's.
    package private(set) var refusals: [(code: String, count: UInt64)] = []
    /// Requests that a limit refused.
    package private(set) var limited: UInt64 = 0
    package private(set) var openConnections: UInt64 = 0
    package private(set) var http2Streams: UInt64 = 0
    package private(set) var openStreams: UInt64 = 0

    /// A duration in seconds, as JSON writes the number.
    package static func seconds(_ microseconds: UInt64) -> String { ExpositionWriter.number(Int64(clamping: microseconds), decimals: 6) }

    package init(_ snapshots: [MetricsSnapshot]) {
        guard let all = MetricsSnapshot.merged(snapshots) else { return }
        for (index, name) in all.labels.routes.names.enumerated() {
            let counts = all.counts(ofRoute: index)
            if !Self.ofConsole.contains(name) { total = total + counts }
            if counts.requests > 0 || counts.refused > 0 { routes[name, default: Counts()] = counts }
        }
        let codes = all.labels.words.refusalCodes
        var byCode = [UInt64](repeating: 0, count: codes.count)
        let names = all.labels.routes.names
        all.each(of: .refusals) { values, count in if !Self.ofConsole.contains(names[values.0]) { byCode[values.1] += count } }
        refusals = zip(codes, byCode).filter { $0.1 > 0 }.map { (code: $0.0, count: $0.1) }
        let refused = all.labels.words.limitOutcomes.firstIndex(of: "deny")
        all.each(of: .rateLimitDecisions) { values, count in if values.1 == refused { limited += count } }
        all.each(of: .connections) { _, count in openConnections += count }
        all.each(of: .http2Streams) { _, count in http2Streams += count }
        all.each(of: .streamsOpen) { _, count in openStreams += count }
    }
}

extension MetricsSnapshot {
    /// Calls `body` with the label values and the value of each series of a counter or gauge.
    fileprivate func each(of family: MetricFamily, _ body: ((Int, Int, Int, Int), UInt64) -> Void) {
        let shape = layout[family]
        for series in 0..<shape.seriesCount { body(shape.values(ofSeries: series), cells[shape.base + series * shape.width]) }
    }

    fileprivate func counts(ofRoute route: Int) -> TrafficSummary.Counts {
        var counts = TrafficSummary.Counts()
        let requests = layout[.requests]
        for method in 0..<requests.sizes.1 {
            for code in 0..<requests.sizes.2 {
                for tier in 0..<requests.sizes.3 { counts.byClass[code] += cells[requests.cell(route, method, code, tier)] }
            }
        }
        counts.requests = counts.byClass.reduce(0, +)
        for code in 0..<layout[.refusals].sizes.1 { counts.refused += cells[layout[.refusals].cell(route, code)] }
        let start = layout[.requestDuration].cell(route)
        for bucket in counts.durations.indices { counts.durations[bucket] = cells[start + bucket] }
        return counts
    }
}
