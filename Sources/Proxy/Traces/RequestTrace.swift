import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// The recording of one request as spans, while it is under way. A class, so that exchanges whose requests are not recorded hold a
/// reference's room for it.
final class RequestTrace {
    /// The request's own span.
    var context = TraceContext(traceHigh: 0, traceLow: 0, spanID: 0)
    /// The trusted caller's span; 0 for none.
    var parentID: UInt64 = 0
    /// The untrusted caller's.
    var link: TraceContext?
    /// Difference of nanoseconds since 1970 and the monotonic clock. One for all spans of a trace, so that they fit together
    /// whatever happens to the wall clock.
    var epoch: UInt64 = 0
    var attributes = SpanAttributes()

    /// The span of the attempt under way, or of the first one; 0 once it has ended.
    var attemptID: UInt64 = 0
    var attemptIsUnderWay = false
    var attempt = SpanAttributes()

    /// The limits or the handler that it waits for.
    private(set) var wait: (subject: SpanSubject, began: MonotonicTime)?
    var waited = SpanAttributes()

    func beginWait(_ subject: SpanSubject, at now: MonotonicTime) {
        wait = (subject, now)
        waited.removeAll()
    }

    /// Prepares for a request, and keeps the buffers.
    func begin(_ context: TraceContext, parentID: UInt64, link: TraceContext?, attemptID: UInt64, at now: Moment) {
        self.context = context
        self.parentID = parentID
        self.link = link
        self.attemptID = attemptID
        epoch = UInt64(clamping: now.wall.microseconds) &* 1_000 &- now.monotonic.nanoseconds
        attemptIsUnderWay = false
        wait = nil
        attributes.removeAll()
    }

    /// The wait is over; returns what it was.
    func takeWait() -> (subject: SpanSubject, began: MonotonicTime)? {
        defer { wait = nil }
        return wait
    }
}

extension SpanAttributes {
    /// Adds the method of `text`.
    mutating func addMethod(_ method: Method, _ text: RawSpan) {
        guard method == .other else { return add(.method, text) }
        add(.method, "_OTHER" as StaticString)
        add(.methodOriginal, text)
    }

    /// Adds `server.address` and `server.port` from a host with or without a port.
    mutating func addServer(_ authority: RawSpan, isTLS: Bool) {
        var end = authority.byteCount
        var port: Int?
        if let colon = authority.lastColonOfPort {
            port = authority.extracting(colon + 1..<end).decimalPort
            end = colon
        }
        let isBracketed = end > 2 && authority[0] == UInt8(ascii: "[") && authority[end - 1] == UInt8(ascii: "]")
        add(.serverAddress, isBracketed ? authority.extracting(1..<end - 1) : authority.extracting(0..<end))
        if end > 0 { add(.serverPort, port ?? (isTLS ? 443 : 80)) }
    }
}

extension RawSpan {
    /// The colon before the port of an authority; nil without a port.
    fileprivate var lastColonOfPort: Int? {
        var offset = byteCount - 1
        while offset >= 0, self[offset].isASCIIDigit { offset -= 1 }
        return offset >= 0 && offset < byteCount - 1 && self[offset] == UInt8(ascii: ":") ? offset : nil
    }

    /// nil for more digits than a port has.
    fileprivate var decimalPort: Int? {
        guard byteCount <= 5 else { return nil }
        var value = 0
        for offset in 0..<byteCount { value = value * 10 + Int(self[offset]) - 48 }
        return value
    }
}
