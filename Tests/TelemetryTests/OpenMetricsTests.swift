import Telemetry
import Testing
import Wire

/// The exposition as OpenMetrics 1.0, which has exemplars.
@Suite struct OpenMetricsTests {
    private static func text(_ workers: [MetricsSnapshot], _ format: ExpositionFormat = .openMetrics) -> String {
        String(decoding: Exposition.render(workers, sampleProcess, as: format, at: WallTime(seconds: 0)), as: UTF8.self)
    }

    private static func context(_ number: UInt64) -> TraceContext {
        TraceContext(traceHigh: 1, traceLow: number, spanID: number, isSampled: true)
    }

    /// One worker's numbers after recorded requests of these durations.
    private static func snapshot(_ requests: [(micros: UInt64, trace: UInt64, at: Int64)]) -> MetricsSnapshot {
        let labels = sampleLabels()
        var metrics = WorkerMetrics(labels)
        for request in requests {
            metrics.requestStarted()
            metrics.requestFinished(
                route: labels.routes[0], method: 0, statusCode: 200, tier: .none, durationMicros: request.micros, bytesIn: 1, bytesOut: 1)
            metrics.requestRecorded(
                route: labels.routes[0], durationMicros: request.micros, as: Self.context(request.trace), at: WallTime(seconds: request.at))
        }
        return metrics.snapshot()
    }

    @Test func countersAreNamedWithoutTheirSuffixAndUnitsAreTold() {
        let text = Self.text([Self.snapshot([])])
        #expect(text.hasSuffix("\n# EOF\n"))
        #expect(text.contains("# TYPE tollgate_http_requests counter\n") && !text.contains("# TYPE tollgate_http_requests_total"))
        #expect(text.contains("\ntollgate_connections_accepted_total 0\n"))
        #expect(
            text.contains("# UNIT tollgate_redis_command_seconds seconds\n")
                && text.contains("# UNIT tollgate_http_request_size_bytes bytes\n"))
        #expect(!Self.text([Self.snapshot([])], .prometheus).contains("# UNIT"))
    }

    @Test func theNewestRecordedRequestOfABucketIsItsExemplar() {
        let one = Self.snapshot([(700, 1, 10), (800, 2, 20), (20_000_000, 3, 30)])
        let other = Self.snapshot([(600, 4, 15), (400, 5, 16)])
        let lines = Self.text([one, other]).split(separator: "\n").filter { $0.hasPrefix("tollgate_http_request_duration_seconds_bucket") }
        func exemplar(_ le: String) -> Substring? { lines.first { $0.contains(#"le="\#(le)""#) }?.split(separator: "#").dropFirst().first }
        #expect(exemplar("0.0005") == #" {trace_id="00000000000000010000000000000005",span_id="0000000000000005"} 0.0004 16"#)
        #expect(
            exemplar("0.001") == #" {trace_id="00000000000000010000000000000002",span_id="0000000000000002"} 0.0008 20"#, "of all workers")
        #expect(exemplar("+Inf") == #" {trace_id="00000000000000010000000000000003",span_id="0000000000000003"} 20 30"#)
        #expect(exemplar("1.0") == nil && lines.contains { $0.contains(#"le="1.0"} 4"#) })
        #expect(!Self.text([one, other], .prometheus).contains("trace_id"), "the older format has none")
    }

    @Test func theFormatIsWhatTheScraperPrefers() {
        let table: [(String, ExpositionFormat)] = [
            ("", .prometheus), ("*/*", .prometheus), ("text/plain", .prometheus), ("text/html,application/xhtml+xml", .prometheus),
            ("application/openmetrics-text", .openMetrics), ("Application/OpenMetrics-Text; version=1.0.0", .openMetrics),
            (
                "application/openmetrics-text;version=1.0.0;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.3",
                .openMetrics
            ),
            ("text/plain;version=0.0.4, application/openmetrics-text;q=0.5", .prometheus),
            ("application/openmetrics-text;q=0", .prometheus),
        ]
        for (accept, format) in table { #expect(ExpositionFormat(accept: accept) == format, "\(accept)") }
    }
}
