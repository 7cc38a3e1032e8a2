package import Wire

/// Trace context (W3C Trace Context, level 1): a trace and the span that makes the request.
package struct TraceContext: Equatable, Sendable {
    /// 16 bytes, never all zero.
    package private(set) var traceID: (high: UInt64, low: UInt64)
    /// Never zero.
    package private(set) var spanID: UInt64
    /// Whether the caller records this trace; only as trustworthy as the caller.
    package private(set) var isSampled: Bool

    /// Parses a `traceparent` value; nil if it is invalid. Versions above 00 may have more parts, which are ignored.
    package init?(parsing value: RawSpan) {
        guard value.byteCount >= Self.length, let version = Self.hex(value, 0, 2), version != 0xFF else { return nil }
        guard value.byteCount == Self.length || version > 0 && value[Self.length] == UInt8(ascii: "-") else { return nil }
        guard value[2] == UInt8(ascii: "-"), value[35] == UInt8(ascii: "-"), value[52] == UInt8(ascii: "-"),
            let high = Self.hex(value, 3, 16), let low = Self.hex(value, 19, 16), let span = Self.hex(value, 36, 16),
            let flags = Self.hex(value, 53, 2), high | low != 0, span != 0
        else { return nil }
        traceID = (high, low)
        spanID = span
        isSampled = flags & 1 == 1
    }

    /// Starts a trace from 24 random bytes.
    package init(traceHigh: UInt64, traceLow: UInt64, spanID: UInt64, isSampled: Bool = false) {
        traceID = (traceHigh, traceHigh | traceLow == 0 ? 1 : traceLow)
        self.spanID = max(spanID, 1)
        self.isSampled = isSampled
    }

    /// Another span of the same trace, which is recorded.
    package func recorded(as spanID: UInt64) -> TraceContext {
        TraceContext(traceHigh: traceID.high, traceLow: traceID.low, spanID: spanID, isSampled: true)
    }

    /// The same trace with a span of its own. Without `trustsSampling` it is not sampled, because an untrusted client must
    /// not decide what is recorded.
    package func child(spanID: UInt64, trustsSampling: Bool) -> TraceContext {
        var child = self
        child.spanID = max(spanID, 1)
        child.isSampled = isSampled && trustsSampling
        return child
    }

    /// Appends a `traceparent` value of version 00, 55 bytes.
    package func write(into out: inout ByteBuffer) {
        out.append("00-")
        writeTraceID(into: &out)
        out.append(UInt8(ascii: "-"))
        writeSpanID(into: &out)
        out.append(isSampled ? "-01" as StaticString : "-00")
    }

    /// Appends the trace id, 32 hexadecimal digits.
    package func writeTraceID(into out: inout ByteBuffer) {
        out.append(hex: traceID.high, digits: 16)
        out.append(hex: traceID.low, digits: 16)
    }

    /// Appends the span id, 16 hexadecimal digits.
    package func writeSpanID(into out: inout ByteBuffer) { out.append(hex: spanID, digits: 16) }

    package static func == (left: Self, right: Self) -> Bool {
        left.traceID == right.traceID && left.spanID == right.spanID && left.isSampled == right.isSampled
    }

    /// Where the span id begins in a `traceparent` value.
    package static let spanOffset = 36

    /// Length of version 00 in bytes.
    private static let length = 55

    /// Parses lower-case digits only, as the standard requires.
    private static func hex(_ bytes: RawSpan, _ start: Int, _ digits: Int) -> UInt64? {
        var value: UInt64 = 0
        for offset in start..<start + digits {
            let byte = bytes[offset]
            guard let digit = byte.hexValue, byte == byte.lowercasedASCII else { return nil }
            value = value << 4 | UInt64(digit)
        }
        return value
    }
}
