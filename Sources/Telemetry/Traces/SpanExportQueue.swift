package import Wire

/// Why spans were dropped.
package enum SpanDropReason: Int, MetricLabelValue {
    /// A worker's buffer was full.
    case worker
    /// `OTEL_BSP_MAX_QUEUE_SIZE` was reached.
    case queue
    /// The collector did not take them, and would not if they were sent again.
    case refused
    /// The collector did not answer, or had no room, for `OTEL_BSP_EXPORT_TIMEOUT`.
    case unavailable
    /// The gateway ended, or a reload turned traces off.
    case ended
}

/// Counts of spans, for the process's metrics.
package struct SpanCounts: Equatable, Sendable {
    package var exported: UInt64 = 0
    /// By the raw value of `SpanDropReason`.
    package var dropped: [UInt64] = SpanDropReason.allCases.map { _ in 0 }
    package var queued = 0

    package init() {}

    package mutating func drop(_ count: UInt64, _ reason: SpanDropReason) { dropped[reason.rawValue] += count }
}

/// The collector's answer to a batch, by the rules of OTLP over HTTP.
package enum SpanExportOutcome: Equatable, Sendable {
    /// Taken, all but so many.
    case taken(rejected: UInt64)
    /// May be sent again: not before so many milliseconds if the collector says so.
    case retry(afterMilliseconds: UInt64?)
    case refused

    /// - Parameters:
    ///   - status: 0 without an answer.
    ///   - retryAfter: `Retry-After`, in seconds or as a date.
    package init(status: Int, retryAfter: String?, body: [UInt8], now: WallTime) {
        switch status {
        case 200..<300: self = .taken(rejected: Self.rejected(body))
        case 429, 502, 503, 504: self = .retry(afterMilliseconds: retryAfter.flatMap { Self.milliseconds($0, now) })
        case 0: self = .retry(afterMilliseconds: nil)
        default: self = .refused
        }
    }

    /// Milliseconds of a `Retry-After`, at most five minutes; nil if it is unreadable.
    private static func milliseconds(_ text: String, _ now: WallTime) -> UInt64? {
        let longest: UInt64 = 300_000
        if let seconds = UInt64(text) { return min(seconds, longest / 1_000) * 1_000 }
        guard let date = text.withRawBytes(HTTPDate.parse) else { return nil }
        return min(UInt64(clamping: (date.microseconds - now.microseconds) / 1_000), longest)
    }

    /// `partialSuccess.rejectedSpans`, which is an integer or, as JSON has it for 64 bits, a string.
    private static func rejected(_ body: [UInt8]) -> UInt64 {
        let bytes = body.rawBytes
        var reader = JSONReader(bytes)
        var isCount = false
        do {
            while true {
                switch try reader.next() {
                case .end: return 0
                case .key(let name): isCount = reader.text(name, equals: "rejectedSpans")
                case .number(let digits) where isCount: return UInt64(clamping: reader.integer(digits) ?? 0)
                case .string(let digits) where isCount: return UInt64(reader.string(digits)) ?? 0
                default: isCount = false
                }
            }
        } catch {
            // An answer without JSON, as some collectors have it, rejects nothing.
            return 0
        }
    }
}

/// Spans on their way to the collector: batches, one under way at a time, and retries. Pure; the exporter sends.
package struct SpanExportQueue: Sendable {
    /// `OTEL_BSP_…`.
    package struct Limits: Equatable, Sendable {
        /// Spans that wait, those under way excepted.
        package var queued = 2_048
        /// Spans of one batch.
        package var batch = 512
        /// How long a span waits for others at most, in milliseconds.
        package var delay: UInt64 = 5_000
        /// How long a batch is tried, in milliseconds.
        package var timeout: UInt64 = 30_000

        package init() {}
    }

    package var limits: Limits
    package private(set) var counts = SpanCounts()
    /// Each as JSON, the oldest first.
    private var waiting: [[UInt8]] = []
    private var oldestSince: MonotonicTime?
    private var underWay: [[UInt8]] = []
    private var isSent = false
    private var attempts = 0
    private var triedSince = MonotonicTime(nanoseconds: 0)
    /// Nothing is sent before: the collector asked for it, or has just failed.
    private var pausedUntil = MonotonicTime(nanoseconds: 0)
    /// Set once the gateway ends: nothing waits for company or for a retry.
    private var isEnding = false

    package init(_ limits: Limits) { self.limits = limits }

    /// Spans that wait or are under way.
    package var count: Int { waiting.count + underWay.count }

    package mutating func add(_ span: [UInt8], at now: MonotonicTime) {
        guard waiting.count < limits.queued else { return counts.drop(1, .queue) }
        if waiting.isEmpty { oldestSince = now }
        waiting.append(span)
        counts.queued = count
    }

    /// Spans that were lost before they came here.
    package mutating func lost(_ count: UInt64, _ reason: SpanDropReason) { counts.drop(count, reason) }

    /// The batch to send now; nil if there is none, one is under way, or it is too early. `ended` must follow.
    package mutating func next(at now: MonotonicTime) -> ArraySlice<[UInt8]>? {
        guard !isSent, count > 0, now >= due else { return nil }
        if underWay.isEmpty {
            underWay = Array(waiting.prefix(limits.batch))
            waiting.removeFirst(underWay.count)
            oldestSince = waiting.isEmpty ? nil : now
            triedSince = now
            attempts = 0
        }
        isSent = true
        attempts += 1
        return underWay[...]
    }

    /// The batch under way was answered. `jitter`: a random number.
    package mutating func ended(_ outcome: SpanExportOutcome, at now: MonotonicTime, jitter: UInt64) {
        isSent = false
        switch outcome {
        case .taken(let rejected):
            let lost = min(rejected, UInt64(underWay.count))
            counts.exported += UInt64(underWay.count) - lost
            counts.drop(lost, .refused)
            underWay = []
        case .refused: dropBatch(.refused)
        case .retry where isEnding: dropAll(.ended)
        case .retry(let milliseconds):
            // 1 s, 2 s, 4 s … 32 s, less up to a half, so that gateways do not return together.
            let backoff: UInt64 = 1_000 << UInt64(min(attempts - 1, 5))
            pausedUntil = now.advanced(milliseconds: milliseconds ?? backoff - jitter % (backoff / 2))
            if pausedUntil >= triedSince.advanced(milliseconds: limits.timeout) { dropBatch(.unavailable) }
        }
        counts.queued = count
    }

    /// From now on every span is sent at once, and once.
    package mutating func end() { isEnding = true }

    package mutating func dropAll(_ reason: SpanDropReason) {
        dropBatch(reason)
        counts.drop(UInt64(waiting.count), reason)
        waiting = []
        oldestSince = nil
        counts.queued = 0
    }

    private mutating func dropBatch(_ reason: SpanDropReason) {
        counts.drop(UInt64(underWay.count), reason)
        underWay = []
        isSent = false
    }

    /// Milliseconds until `next` may have a batch, at most `longest`.
    package func pause(at now: MonotonicTime, longest: Int32) -> Int32 {
        guard !isSent, count > 0 else { return longest }
        return Int32(min(UInt64(longest), (due.nanoseconds(since: now) + 999_999) / 1_000_000))
    }

    private var due: MonotonicTime {
        if isEnding { return MonotonicTime(nanoseconds: 0) }
        guard underWay.isEmpty, waiting.count < limits.batch, let oldestSince else { return pausedUntil }
        return max(pausedUntil, oldestSince.advanced(milliseconds: limits.delay))
    }
}
