import Credentials
import Gate
import HTTP
package import Telemetry
package import Threads
internal import Transport
import Wire

/// One request's figures for the metrics and the access log.
struct RequestRecord: ~Copyable {
    var route = LabelID.none
    var tier = LabelID.none
    var method: Int?
    /// How it was answered, on a cached route.
    var cached: CacheResult?
    /// The status that the client got; 0 for none.
    var status = 0
    /// Whether the gateway has refused it for a bound or a shortage of its own.
    var isBeyondBound = false
    /// The code of a refusal, whose status the client of gRPC does not get as that of HTTP.
    var refusal: RefusalCode?
    var startedAt = MonotonicTime(nanoseconds: 0)
    var upstream = LabelID.none
    /// When the latest attempt was given to a connection.
    var sentAt = MonotonicTime(nanoseconds: 0)
    /// When the last of its content arrived.
    var wholeAt = MonotonicTime(nanoseconds: 0)
    var upstreamMicros: UInt64 = 0
    var upstreamStatus = 0
    var attempts = 0
    /// Whether the latest attempt has neither been answered nor failed.
    var attemptIsOpen = false
    /// Bytes of content from and to the client.
    var bytesIn: UInt64 = 0
    var bytesOut: UInt64 = 0
    /// The error for the log; empty for none.
    var error: StaticString = ""
    /// The first part of the log line, written while the request's head was in memory.
    var line = ByteBuffer()
    /// Whether it is counted and logged: not so on the admin listeners.
    var isRecorded = false
    /// Whether the line has the outcome of limits.
    var isLimited = false
    /// Proof and attestation that are counted when Redis has said whether they were used before.
    var awaited = SingleUses(rawValue: 0)
}

/// Metrics, log lines and request ids of one worker.
package struct WorkerTelemetry: ~Copyable {
    var metrics: WorkerMetrics
    var labels: MetricLabels
    let line: AccessLogLine
    /// nil without an access log.
    private let sink: LineSink?
    private var lines = ByteBuffer()
    private var flushedAt = MonotonicTime(nanoseconds: 0)
    private var sampled: UInt32 = 0
    /// Names this worker's lines with limits, which are counted in the log so that missing ones show.
    private let logID: UInt64
    private var limitLines: UInt64 = 0
    private var limitMark = ByteBuffer()
    var answerNotices = AnswerNotices()
    /// For the log line about filtered answers without labels.
    var unlabelledAnswers = UnlabelledAnswers()
    /// Spans until they are handed to the exporter.
    var spans = SpanBuffer()
    private let handover: SpanHandover
    /// For request and trace ids, which must be unique but not secret.
    var random: SplitMix64

    /// Lines go to the sink in blocks of so many bytes, or after a tenth of a second.
    private static var blockSize: Int { 32 * 1_024 }

    /// Without a sink there is no access log.
    package init(
        labels: MetricLabels, sink: LineSink?, format: LogFormat, seed: UInt64, spans handover: SpanHandover = SpanHandover()
    ) {
        self.handover = handover
        self.labels = labels
        metrics = WorkerMetrics(labels)
        self.sink = sink
        line = AccessLogLine(format)
        random = SplitMix64(seed: seed)
        var ids = SplitMix64(seed: ~seed)
        logID = ids.next()
    }

    /// The label values that all workers' metrics have in common.
    package static var words: FixedLabelValues {
        FixedLabelValues(
            methods: Method.allCases.map { "\($0)".uppercased() }, algorithms: SigningAlgorithm.allCases.map(\.name),
            authOutcomes: AuthOutcome.allCases.map { $0.text.description },
            authReasons: AuthReason.allCases.map { $0.text.description },
            limitOutcomes: LimitOutcome.Result.allCases.map { $0.text.description },
            limitSources: LimitOutcome.Source.allCases.map { $0.text.description },
            refusalCodes: RefusalCode.allCases.map { $0.text.description })
    }

    mutating func adopt(_ labels: MetricLabels) {
        self.labels = labels
        metrics.adopt(labels)
    }

    var logs: Bool { sink != nil }
    /// Whether lines or spans wait to be flushed.
    var hasLines: Bool { !lines.isEmpty || !spans.isEmpty }

    /// Whether the gateway's own time is measured for this request: for one in 256, as reading the clock costs too.
    mutating func samples() -> Bool {
        sampled &+= 1
        return sampled & 255 == 1
    }

    // MARK: streams

    /// Counts a stream, and logs its beginning.
    mutating func streamOpened(_ record: inout RequestRecord, _ kind: StreamKind, at now: MonotonicTime) {
        guard record.isRecorded else { return }
        metrics.streamOpened(route: record.route, kind)
        guard logs else { return }
        lines.append(record.line.readable)
        line.add(.stream, kind.word, to: &lines)
        line.add(.streamEvent, "open", to: &lines)
        line.add(.status, record.status, to: &lines)
        line.add(.duration, micros: now.nanoseconds(since: record.startedAt) / 1_000, to: &lines)
        line.end(into: &lines)
    }

    /// Counts the end of a stream, and adds its reason to the line.
    mutating func streamEnded(_ record: inout RequestRecord, _ kind: StreamKind, _ reason: StreamEndReason) {
        guard record.isRecorded else { return }
        metrics.streamEnded(route: record.route, kind, reason)
        guard logs else { return }
        line.add(.stream, kind.word, to: &record.line)
        line.add(.streamEvent, "end", to: &record.line)
        line.add(.streamEnd, reason.word, to: &record.line)
    }

    // MARK: lines

    /// Completes the line that `record` began. `filtered`: counts of the route's filter; nil if it judged nothing.
    mutating func log(_ record: inout RequestRecord, _ filtered: FilterCounts?, micros: UInt64) {
        lines.append(record.line.readable)
        record.line.removeAll()
        if record.isLimited { addLimitLine() }
        line.add(.status, record.status, to: &lines)
        if let refusal = record.refusal { line.add(.code, refusal.text, to: &lines) }
        line.add(.bytesIn, record.bytesIn, to: &lines)
        line.add(.bytesOut, record.bytesOut, to: &lines)
        line.add(.duration, micros: micros, to: &lines)
        if record.attempts > 0 {
            line.add(.attempts, record.attempts, to: &lines)
            line.add(.upstreamStatus, record.upstreamStatus, to: &lines)
            line.add(.upstreamDuration, micros: record.upstreamMicros, to: &lines)
        }
        if let counts = filtered {
            line.add(.filterKept, Int(counts.kept), to: &lines)
            line.add(.filterDropped, Int(counts.dropped), to: &lines)
            line.add(.filterUnlabelled, Int(counts.unlabelled), to: &lines)
        }
        if let result = record.cached { line.add(.cacheResult, result.text, to: &lines) }
        if record.error.utf8CodeUnitCount > 0 { line.add(.error, record.error, to: &lines) }
        line.end(into: &lines)
    }

    /// Adds the limits' outcome. One that was judged without Redis carries this gateway's time in place of Redis's.
    func addLimit(_ limit: LimitOutcome, at now: WallTime, to out: inout ByteBuffer) {
        line.add(.limitOutcome, limit.result.text, to: &out)
        line.add(.limitSource, limit.source.text, to: &out)
        line.add(.limitRemaining, Int(limit.remaining), to: &out)
        line.add(
            .limitAt, limit.source == .fallback ? UInt64(clamping: now.microseconds) : limit.countedAt, to: &out)
    }

    /// Adds the number of the line among this worker's with limits.
    private mutating func addLimitLine() {
        limitLines += 1
        var mark = ByteBuffer()
        swap(&mark, &limitMark)
        mark.removeAll()
        mark.append(hex: logID >> 32, digits: 8)
        mark.append(UInt8(ascii: "."))
        mark.append(decimal: limitLines)
        line.add(.limitLine, mark.readable, to: &lines)
        swap(&mark, &limitMark)
    }

    /// Writes finished lines to the sink, and hands spans to the exporter, if it is time.
    mutating func flushIfDue(_ now: MonotonicTime) {
        guard hasLines else { return }
        if spans.count >= SpanBuffer.maxSpans / 4 { handover.offer(&spans) }
        guard lines.count >= Self.blockSize || now.nanoseconds(since: flushedAt) > 100_000_000 else { return }
        flushedAt = now
        flush()
        if !spans.isEmpty { handover.offer(&spans) }
    }

    /// The worker ends: nothing may be kept.
    mutating func flushAll() {
        flush()
        if !spans.isEmpty { handover.handOver(&spans) }
    }

    mutating func flush() {
        guard let sink, !lines.isEmpty else { return }
        sink.write(lines.readable)
        lines.removeAll()
    }
}
