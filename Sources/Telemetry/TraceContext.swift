package import Wire

/// A place in a distributed trace (W3C Trace Context, level 1): which trace, and which span of it is asking.
package struct TraceContext: Equatable, Sendable {
    /// 16 bytes, never all zero.
    package private(set) var traceID: (high: UInt64, low: UInt64)
    /// Never zero.
    package private(set) var spanID: UInt64
    /// Whether the caller records this trace. A caller's word, and worth as much as the caller.
    package private(set) var isSampled: Bool

    /// What a `traceparent` value says; nil if it must be ignored. Of a version above 00 the four known parts count,
    /// whatever follows them.
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

    /// The start of a trace, from 24 random bytes.
    package init(traceHigh: UInt64, traceLow: UInt64, spanID: UInt64) {
        traceID = (traceHigh, traceHigh | traceLow == 0 ? 1 : traceLow)
        self.spanID = max(spanID, 1)
        isSampled = false
    }

    /// The same trace, asked on by a span of its own. `trustsSampling`: an outsider must not decide what we record.
    package func child(spanID: UInt64, trustsSampling: Bool) -> TraceContext {
        var child = self
        child.spanID = max(spanID, 1)
        child.isSampled = isSampled && trustsSampling
        return child
    }

    /// Appends the value of a `traceparent` field, version 00, 55 bytes.
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

    /// The length of version 00.
    private static let length = 55

    /// Lower-case digits alone, as the standard asks.
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
