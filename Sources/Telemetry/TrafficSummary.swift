package import Wire

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

// MARK: JSON

extension TrafficSummary {
    /// Writes its members into an open object.
    package func write(_ json: inout JSONWriter) {
        json.field("requests_total", Int(clamping: total.requests))
        json.key("by_status")
        total.writeClasses(&json)
        json.key("refusals")
        json.beginObject()
        for (code, count) in refusals {
            json.key(code)
            json.number(count)
        }
        json.endObject()
        json.field("limited_total", Int(clamping: limited))
        json.key("latency_seconds")
        json.beginObject()
        for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] { total.write(name, share, &json) }
        json.endObject()
        json.array("duration_buckets", Array(zip(HistogramScale.latencyBounds, total.durations))) { json, bucket in
            json.beginObject()
            json.key("le")
            json.seconds(microseconds: bucket.0)
            json.field("count", Int(clamping: bucket.1))
            json.endObject()
        }
        json.key("connections")
        json.beginObject()
        json.field("open", Int(clamping: openConnections))
        json.field("http2_streams", Int(clamping: http2Streams))
        json.endObject()
        json.field("streams_open", Int(clamping: openStreams))
    }
}

extension TrafficSummary.Counts {
    /// Writes its members into an open object.
    package func write(_ json: inout JSONWriter) {
        json.field("requests", Int(clamping: requests))
        json.field("refused", Int(clamping: refused))
        for code in 2...5 {
            json.key("\(code)xx")
            json.number(byClass[code])
        }
        write("p50", 0.5, &json)
        write("p99", 0.99, &json)
    }

    fileprivate func writeClasses(_ json: inout JSONWriter) {
        json.beginObject()
        for code in 1...5 {
            json.key("\(code)xx")
            json.number(byClass[code])
        }
        json.key("aborted")
        json.number(byClass[0])
        json.endObject()
    }

    /// Seconds; `null` without requests.
    fileprivate func write(_ name: String, _ share: Double, _ json: inout JSONWriter) {
        json.key(name)
        if let microseconds = quantile(share) { json.seconds(microseconds: microseconds) } else { json.null() }
    }
}

extension JSONWriter {
    fileprivate mutating func seconds(microseconds: UInt64) {
        verbatim(Array(ExpositionWriter.number(Int64(clamping: microseconds), decimals: 6).utf8).rawBytes)
    }
}

extension ProcessMetrics {
    /// Writes the members `bus` and `keys` into an open object.
    package func write(_ json: inout JSONWriter) {
        json.key("bus")
        json.beginObject()
        json.optional("carrier", bus.carrier)
        json.field("connected", bus.isConnected)
        json.field("messages", Int(clamping: bus.messages))
        json.field("refused", Int(clamping: bus.refusedMessages))
        json.endObject()
        json.key("keys")
        json.beginObject()
        for (issuer, state) in keySets.sorted(by: { $0.key < $1.key }) {
            json.key(issuer)
            json.beginObject()
            json.field("keys", state.keys)
            json.field("fetches", Int(clamping: state.fetches[KeySetFetch.ok.rawValue]))
            json.field("failures", Int(clamping: state.fetches.reduce(0, +) - state.fetches[KeySetFetch.ok.rawValue]))
            json.optional("fetched_at", state.lastSuccess.map(ISO8601.text))
            json.endObject()
        }
        json.endObject()
    }
}
