package import Wire

/// Format of log lines.
package enum LogFormat: Sendable {
    /// One JSON object.
    case json
    /// `name=value` pairs; values with spaces, quotes or unprintable bytes are JSON strings.
    case text
}

/// Log level; `TOLLGATE_LOG` sets the minimum.
package enum LogLevel: Int, Comparable, CaseIterable, Sendable {
    case debug, info, warning, error

    package var text: StaticString {
        switch self {
        case .debug: "debug"
        case .info: "info"
        case .warning: "warning"
        case .error: "error"
        }
    }

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// Builder of a log line in a buffer: `begin`, fields, `end`. Its only state is the format, so a line may be begun, kept and
/// continued later. Does not allocate once the buffer is large enough.
///
/// Values go through `appendJSONString`, so a peer's value cannot start another line or field.
package struct LogLine: Sendable {
    package let format: LogFormat

    package init(_ format: LogFormat) { self.format = format }

    package func begin(_ level: LogLevel, _ message: StaticString, at now: WallTime, into out: inout ByteBuffer) {
        if format == .json { out.append(UInt8(ascii: "{")) }
        name("ts", to: &out)
        quote(to: &out)
        ISO8601.write(now, into: &out)
        quote(to: &out)
        add("level", level.text, to: &out)
        add("msg", message, to: &out)
    }

    package func end(into out: inout ByteBuffer) {
        switch format {
        case .json: out.append("}\n")
        case .text: out.append("\n")
        }
    }

    package func add(_ name: StaticString, _ value: RawSpan, to out: inout ByteBuffer) {
        key(name, to: &out)
        if format == .text && Self.isPlain(value) { out.append(value) } else { appendJSONString(value, into: &out) }
    }

    /// Adds `value` followed by `suffix` in one text; `suffix` must need no escapes.
    func add(_ name: StaticString, _ value: RawSpan, suffix: StaticString, to out: inout ByteBuffer) {
        add(name, value, to: &out)
        let isQuoted = out.readable[out.count - 1] == UInt8(ascii: "\"")
        if isQuoted { out.truncate(to: out.count - 1) }
        out.append(suffix)
        if isQuoted { out.append(UInt8(ascii: "\"")) }
    }

    package func add(_ name: StaticString, _ value: StaticString, to out: inout ByteBuffer) {
        add(name, value.rawBytes, to: &out)
    }

    @_disfavoredOverload
    package func add(_ name: StaticString, _ value: String, to out: inout ByteBuffer) {
        value.withRawBytes { add(name, $0, to: &out) }
    }

    package func add(_ name: StaticString, _ value: Int, to out: inout ByteBuffer) {
        key(name, to: &out)
        out.append(decimal: value)
    }

    package func add(_ name: StaticString, _ value: UInt64, to out: inout ByteBuffer) {
        key(name, to: &out)
        out.append(decimal: value)
    }

    package func add(_ name: StaticString, _ value: IPAddress, to out: inout ByteBuffer) {
        key(name, to: &out)
        quote(to: &out)
        value.write(into: &out)
        quote(to: &out)
    }

    /// Adds the trace id and the span id.
    package func add(_ trace: TraceContext, to out: inout ByteBuffer) {
        key("trace_id", to: &out)
        quote(to: &out)
        trace.writeTraceID(into: &out)
        quote(to: &out)
        key("span_id", to: &out)
        quote(to: &out)
        trace.writeSpanID(into: &out)
        quote(to: &out)
    }

    /// Adds microseconds as milliseconds with three decimals.
    package func add(_ name: StaticString, milliseconds micros: UInt64, to out: inout ByteBuffer) {
        key(name, to: &out)
        let (whole, rest) = micros.quotientAndRemainder(dividingBy: 1_000)
        out.append(decimal: whole)
        out.append(UInt8(ascii: "."))
        if rest < 100 { out.append(UInt8(ascii: "0")) }
        if rest < 10 { out.append(UInt8(ascii: "0")) }
        out.append(decimal: rest)
    }

    /// Writes the separator and the field's name.
    private func key(_ name: StaticString, to out: inout ByteBuffer) {
        out.append(UInt8(ascii: format == .json ? "," : " "))
        self.name(name, to: &out)
    }

    private func name(_ name: StaticString, to out: inout ByteBuffer) {
        quote(to: &out)
        out.append(name)
        quote(to: &out)
        out.append(UInt8(ascii: format == .json ? ":" : "="))
    }

    private func quote(to out: inout ByteBuffer) {
        if format == .json { out.append(UInt8(ascii: "\"")) }
    }

    /// Whether `value` may be unquoted: not empty, visible ASCII, no quote, backslash or equals sign.
    private static func isPlain(_ value: RawSpan) -> Bool {
        for offset in 0..<value.byteCount {
            let byte = value[offset]
            if byte <= 0x20 || byte >= 0x7F || byte == UInt8(ascii: "\"") { return false }
            if byte == UInt8(ascii: "=") || byte == UInt8(ascii: "\\") { return false }
        }
        return value.byteCount > 0
    }
}
