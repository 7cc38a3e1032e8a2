import Wire

/// Writer of the Prometheus text format, version 0.0.4: the only place for its escapes and numbers.
struct ExpositionWriter: ~Copyable {
    private var out = ByteBuffer(capacity: 16_384)

    /// Returns the text.
    consuming func finish() -> [UInt8] { out.readable.array }

    /// Writes the HELP and TYPE lines of a family; its samples must follow.
    mutating func family(_ name: String, type: StaticString, help: String) {
        out.append("# HELP ")
        out.append(name)
        out.append(UInt8(ascii: " "))
        append(escaped: help, quotes: false)
        out.append("\n# TYPE ")
        out.append(name)
        out.append(UInt8(ascii: " "))
        out.append(type)
        out.append(UInt8(ascii: "\n"))
    }

    /// Writes a sample. The value is `value` × 10^-`decimals`.
    mutating func sample(_ name: String, _ labels: [(String, String)], _ value: Int64, decimals: Int = 0) {
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
        out.append(UInt8(ascii: "\n"))
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
