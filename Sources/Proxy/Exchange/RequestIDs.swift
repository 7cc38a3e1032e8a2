import HTTP
import Telemetry
import Wire

/// The identifiers that every request carries to the upstream, into the log and back to the client.
struct RequestIDs: ~Copyable {
    private let pin = AddressPin()
    /// The text of `X-Request-Id`: 36 bytes of our own, or a trusted proxy's.
    var requestID = ByteBuffer(capacity: 64)
    /// The text of `traceparent`.
    var traceparent = ByteBuffer(capacity: 64)
}

extension WorkerTelemetry {
    /// Names the request: an id of ours, or a trusted proxy's; the trace it belongs to, or a new one.
    mutating func identify(
        _ head: borrowing RequestHead, _ bytes: RawSpan, trusted: Bool, at now: WallTime, _ ids: inout RequestIDs
    ) {
        ids.requestID.removeAll()
        if trusted, let index = head.fields.first(.xRequestID), RequestID.isSafe(bytes[head.fields[index].value]) {
            ids.requestID.append(bytes[head.fields[index].value])
        } else {
            writeID(at: now, &ids)
        }
        ids.traceparent.removeAll()
        trace(head, bytes, trusted: trusted).write(into: &ids.traceparent)
    }

    /// Names a request whose head was no good.
    mutating func identifyUnread(at now: WallTime, _ ids: inout RequestIDs) {
        ids.requestID.removeAll()
        ids.traceparent.removeAll()
        writeID(at: now, &ids)
    }

    private mutating func writeID(at now: WallTime, _ ids: inout RequestIDs) {
        let high = random.next()
        let low = random.next()
        RequestID.write(at: now, random: (high, low), into: &ids.requestID)
    }

    private mutating func trace(_ head: borrowing RequestHead, _ bytes: RawSpan, trusted: Bool) -> TraceContext {
        // The lowest bit set, for no id may be all zero.
        let span = random.next() | 1
        if let index = head.fields.first(.traceparent),
            let caller = TraceContext(parsing: bytes[head.fields[index].value])
        {
            return caller.child(spanID: span, trustsSampling: trusted)
        }
        return TraceContext(traceHigh: random.next(), traceLow: random.next() | 1, spanID: span)
    }
}
