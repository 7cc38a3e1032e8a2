import Wire

/// The work that a span is about.
package enum SpanSubject: UInt8, Sendable {
    /// A request, from its head to the end of its exchange.
    case request
    /// One attempt to have it answered by an upstream.
    case attempt
    /// The wait for the verdict of limits in Redis.
    case limits
    /// The refresh of the caller's expired token.
    case refresh
    /// The work of one of the gateway's own endpoints.
    case handler
}

/// A span that has ended, of fixed size; its attributes lie beside it.
package struct SpanRecord: Sendable {
    package var subject: SpanSubject
    /// The trace, the span's own id, and whether it is sampled, which it always is.
    package var context: TraceContext
    /// The span that caused it; 0 for the root of a trace.
    package var parentID: UInt64
    /// Whether that span is another program's.
    package var parentIsRemote = false
    /// The context that an untrusted caller sent: the request began a trace of its own.
    package var link: TraceContext?
    /// Nanoseconds since 1970.
    package var start: UInt64
    package var end: UInt64
    package var isError = false
    /// Its bytes in the buffer's attributes.
    fileprivate(set) var attributes = Slice()

    package init(_ subject: SpanSubject, _ context: TraceContext, parentID: UInt64, start: UInt64, end: UInt64) {
        self.subject = subject
        self.context = context
        self.parentID = parentID
        self.start = start
        self.end = end
    }
}

/// A worker's spans until the exporter takes them. Bounded in number and bytes: a span that does not fit is dropped and counted.
///
/// Two of them take turns (`SpanHandover`): the worker fills one while the exporter reads the other, so neither waits and their memory
/// is kept.
package struct SpanBuffer: ~Copyable {
    private var records: [SpanRecord] = []
    private var attributes = ByteBuffer()
    /// Spans that did not fit.
    package private(set) var dropped: UInt64 = 0

    package init() {}

    package static let maxSpans = 1_024
    /// Bytes of attributes.
    package static let maxBytes = 512 * 1_024

    package var count: Int { records.count }
    package var isEmpty: Bool { records.isEmpty && dropped == 0 }

    /// Reserves the memory that a worker's spans may take.
    package mutating func reserve() {
        records.reserveCapacity(Self.maxSpans)
        attributes.reserve(Self.maxBytes)
    }

    package mutating func append(_ record: SpanRecord, _ encoded: RawSpan) {
        guard records.count < Self.maxSpans, attributes.count + encoded.byteCount <= Self.maxBytes else {
            dropped += 1
            return
        }
        var record = record
        record.attributes = Slice(start: attributes.count, count: encoded.byteCount)
        attributes.append(encoded)
        records.append(record)
    }

    /// Appends the spans of another buffer, as far as they fit.
    package mutating func append(contentsOf other: borrowing SpanBuffer) {
        for index in 0..<other.count {
            let record = other.records[index]
            append(record, other.attributes.readable[record.attributes])
        }
        dropped += other.dropped
    }

    /// Empties it and keeps its memory.
    package mutating func removeAll() {
        records.removeAll(keepingCapacity: true)
        attributes.removeAll()
        dropped = 0
    }

    /// Calls `body` with each span and its encoded attributes.
    package borrowing func forEach(_ body: (SpanRecord, RawSpan) -> Void) {
        for record in records { body(record, attributes.readable[record.attributes]) }
    }
}

// A buffer owns its memory alone, and is handed from one thread to another whole, under a lock.
extension SpanBuffer: @unchecked Sendable {}
