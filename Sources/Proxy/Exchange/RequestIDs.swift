import HTTP
import Telemetry
import Wire

extension WorkerTelemetry {
    /// Sets both: a new request id or a trusted proxy's, and a span of the caller's trace or of a new one.
    mutating func identify(
        _ head: borrowing RequestHead, _ bytes: RawSpan, trusted: Bool, at now: WallTime, _ requestID: inout ByteBuffer,
        _ traceparent: inout ByteBuffer
    ) {
        requestID.removeAll()
        if trusted, let index = head.fields.first(.xRequestID), RequestID.isSafe(bytes[head.fields[index].value]) {
            requestID.append(bytes[head.fields[index].value])
        } else {
            writeID(at: now, &requestID)
        }
        traceparent.removeAll()
        trace(head, bytes, trusted: trusted).write(into: &traceparent)
    }

    /// Sets the id of a request whose head is malformed.
    mutating func identifyUnread(at now: WallTime, _ requestID: inout ByteBuffer) {
        requestID.removeAll()
        writeID(at: now, &requestID)
    }

    private mutating func writeID(at now: WallTime, _ requestID: inout ByteBuffer) {
        RequestID.write(at: now, random: (random.next(), random.next()), into: &requestID)
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
