import Credentials
import Gate
import HTTP
package import Telemetry
package import Transport
import Wire

/// What is known of one request for its metrics and its line in the access log.
struct RequestRecord: ~Copyable {
    var route = LabelID.none
    var upstream = LabelID.none
    var tier = LabelID.none
    var method: Int?
    /// What the client was answered; 0 if nothing.
    var status = 0
    var startedAt = MonotonicTime(nanoseconds: 0)
    /// When the latest attempt went to the upstream, and how long it took to its first byte.
    var sentAt = MonotonicTime(nanoseconds: 0)
    var upstreamStatus = 0
    var attempts = 0
    var bytesIn: UInt64 = 0
    var bytesOut: UInt64 = 0
    /// What went wrong, for the log.
    var error: StaticString = ""
    /// The first part of the log line, written while the request's bytes were there.
    var line = ByteBuffer()
}

/// Metrics, log lines and request ids of one worker.
package struct WorkerTelemetry: ~Copyable {
    var metrics: WorkerMetrics
    private(set) var labels: MetricLabels
    private let sink: LineSink?
    private let line: AccessLogLine
    private var lines = ByteBuffer()
    private var flushedAt = MonotonicTime(nanoseconds: 0)
    /// Names requests and traces. Not secret, but not to be guessed along either: seeded per worker.
    private var random: SplitMix64

    /// Lines are handed to the sink when so much has come together, or after a tenth of a second.
    private static var blockSize: Int { 32 * 1_024 }

    /// Without a sink there is no access log.
    package init(labels: MetricLabels, sink: LineSink?, format: LogFormat, seed: UInt64) {
        self.labels = labels
        metrics = WorkerMetrics(labels)
        self.sink = sink
        line = AccessLogLine(format)
        random = SplitMix64(seed: seed)
    }

    package mutating func adopt(_ labels: MetricLabels) {
        self.labels = labels
        metrics.adopt(labels)
    }

    // MARK: a request

    /// Names the request: an id of ours, or a trusted proxy's; its trace, or a new one.
    mutating func mark(
        _ head: borrowing RequestHead, _ bytes: RawSpan, trusted: Bool, at now: WallTime, _ marks: inout RequestMarks
    ) {
        marks.requestID.removeAll()
        marks.traceparent.removeAll()
        if trusted, let index = head.fields.first(.xRequestID), RequestID.isSafe(bytes[head.fields[index].value]) {
            marks.requestID.append(bytes[head.fields[index].value])
        } else {
            RequestID.write(at: now, random: (random.next(), random.next()), into: &marks.requestID)
        }
        if let index = head.fields.first(.traceparent),
            let trace = TraceContext(parsing: bytes[head.fields[index].value])
        {
            trace.child(spanID: random.next() | 1, trustsSampling: trusted).write(into: &marks.traceparent)
        } else {
            TraceContext(traceHigh: random.next(), traceLow: random.next(), spanID: random.next() | 1)
                .write(into: &marks.traceparent)
        }
    }

    /// A request without a head that could be read gets an id all the same.
    mutating func markUnread(at now: WallTime, _ marks: inout RequestMarks) {
        marks.requestID.removeAll()
        marks.traceparent.removeAll()
        RequestID.write(at: now, random: (random.next(), random.next()), into: &marks.requestID)
    }

    /// Hands finished lines on, if it is time.
    mutating func flushIfDue(_ now: MonotonicTime) {
        guard !lines.isEmpty else { return }
        guard lines.count >= Self.blockSize || now.nanoseconds(since: flushedAt) > 100_000_000 else { return }
        flushedAt = now
        flush()
    }

    mutating func flush() {
        guard let sink, !lines.isEmpty else { return }
        sink.write(lines.readable)
        lines.removeAll()
    }
}
