import HTTP
import Telemetry
import Wire

/// A request's identifiers, for the upstream, the log and the client.
struct RequestIDs: ~Copyable {
    private let pin = AddressPin()
    /// `X-Request-Id`: 36 bytes of our own, or a trusted proxy's.
    var requestID = ByteBuffer(capacity: 64)
    /// `traceparent` (W3C Trace Context).
    var traceparent = ByteBuffer(capacity: 64)
    /// Whether it names a span of the request that is recorded.
    var isRecorded = false
}

extension WorkerTelemetry {
    /// Sets both: a new request id or a trusted proxy's, and a span of the caller's trace or of a new one.
    mutating func identify(
        _ head: borrowing RequestHead, _ bytes: RawSpan, trusted: Bool, at now: WallTime, _ ids: inout RequestIDs
    ) {
        ids.requestID.removeAll()
        if trusted, let index = head.fields.first(.xRequestID), RequestID.isSafe(bytes[head.fields[index].value]) {
            ids.requestID.append(bytes[head.fields[index].value])
        } else {
            writeID(at: now, &ids)
        }
        ids.isRecorded = false
        ids.traceparent.removeAll()
        trace(head, bytes, trusted: trusted).write(into: &ids.traceparent)
    }

    /// Sets the id of a request whose head is malformed.
    mutating func identifyUnread(at now: WallTime, _ ids: inout RequestIDs) {
        ids.requestID.removeAll()
        ids.isRecorded = false
        ids.traceparent.removeAll()
        writeID(at: now, &ids)
    }

    private mutating func writeID(at now: WallTime, _ ids: inout RequestIDs) {
        RequestID.write(at: now, random: (random.next(), random.next()), into: &ids.requestID)
    }

    private mutating func trace(_ head: borrowing RequestHead, _ bytes: RawSpan, trusted: Bool) -> TraceContext {
        // The lowest bit is set because an id must not be all zero.
        let span = random.next() | 1
        if let index = head.fields.first(.traceparent),
            let caller = TraceContext(parsing: bytes[head.fields[index].value])
        {
            return caller.child(spanID: span, trustsSampling: trusted)
        }
        return TraceContext(traceHigh: random.next(), traceLow: random.next() | 1, spanID: span)
    }
}
