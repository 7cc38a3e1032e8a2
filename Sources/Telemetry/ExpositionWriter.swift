import Wire

/// Writer of an exposition: the only place for its escapes and numbers.
struct ExpositionWriter: ~Copyable {
    private let format: ExpositionFormat
    private var out = ByteBuffer(capacity: 16_384)

    init(_ format: ExpositionFormat) { self.format = format }

    /// Returns the text.
    consuming func finish() -> [UInt8] {
        if format == .openMetrics { out.append("# EOF\n") }
        return out.readable.array
    }

    /// Writes the metadata of a family; its samples must follow. OpenMetrics names a counter without `_total`, and its unit.
    mutating func family(_ name: String, type: StaticString, help: String) {
        let isOpen = format == .openMetrics
        let family = isOpen && name.hasSuffix("_total") ? String(name.dropLast(6)) : name
        out.append("# HELP ")
        out.append(family)
        out.append(UInt8(ascii: " "))
        append(escaped: help, quotes: isOpen)
        out.append("\n# TYPE ")
        out.append(family)
        out.append(UInt8(ascii: " "))
        out.append(type)
        out.append(UInt8(ascii: "\n"))
        if isOpen, let unit = ["seconds", "bytes"].first(where: { family.hasSuffix("_" + $0) }) {
            out.append("# UNIT ")
            out.append(family)
            out.append(UInt8(ascii: " "))
            out.append(unit)
            out.append(UInt8(ascii: "\n"))
        }
    }

    /// A bucket's `le`; in OpenMetrics always with a decimal point.
    func bucketBound(_ value: Int64, decimals: Int) -> String {
        let text = Self.number(value, decimals: decimals)
        return format == .openMetrics && !text.contains(".") ? text + ".0" : text
    }

    /// Writes a sample. The value is `value` × 10^-`decimals`. Only OpenMetrics has exemplars.
    mutating func sample(
        _ name: String, _ labels: [(String, String)], _ value: Int64, decimals: Int = 0, _ exemplar: Exemplar? = nil
    ) {
        out.append(name)
        for (index, label) in labels.enumerated() {
            out.append(UInt8(ascii: index == 0 ? "{" : ","))
            out.append(label.0)
            out.append("=\"")
            append(escaped: label.1, quotes: true)
            out.append(UInt8(ascii: "\""))
        }
        if !labels.isEmpty { out.append(UInt8(ascii: "}")) }
        out.append(UInt8(ascii: " "))
        out.append(Self.number(value, decimals: decimals))
        if let exemplar, format == .openMetrics { append(exemplar) }
        out.append(UInt8(ascii: "\n"))
    }

    private mutating func append(_ exemplar: Exemplar) {
        out.append(" # {trace_id=\"")
        exemplar.context.writeTraceID(into: &out)
        out.append("\",span_id=\"")
        exemplar.context.writeSpanID(into: &out)
        out.append("\"} ")
        out.append(Self.number(Int64(clamping: exemplar.micros), decimals: 6))
        out.append(UInt8(ascii: " "))
        out.append(Self.number(exemplar.at.microseconds, decimals: 6))
    }

    /// `value` with `decimals` decimal places, without trailing zeros.
    static func number(_ value: Int64, decimals: Int) -> String {
        var digits = String(value.magnitude)
        if decimals > 0 {
            digits = String(repeating: "0", count: max(0, decimals + 1 - digits.count)) + digits
            var fraction = digits.suffix(decimals)
            while fraction.last == "0" { fraction.removeLast() }
            digits = digits.dropLast(decimals) + (fraction.isEmpty ? "" : "." + fraction)
        }
        return value < 0 ? "-" + digits : digits
    }

    private mutating func append(escaped text: String, quotes: Bool) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\\"): out.append("\\\\")
            case UInt8(ascii: "\n"): out.append("\\n")
            case UInt8(ascii: "\"") where quotes: out.append("\\\"")
            default: out.append(byte)
            }
        }
    }
}
