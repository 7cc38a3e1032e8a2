/// Durations in settings: `500ms`, `10s`, `5m`, `24h`, `30d`.
package enum DurationText {
    /// Parses a duration to milliseconds; nil for anything but digits and one unit, and above 10,000 days.
    package static func parse(_ text: String) -> UInt64? {
        guard let (value, factor) = Measure.parse(text, units), value <= longest / factor else { return nil }
        return value * factor
    }

    /// `milliseconds` in the largest unit in which it is an integer.
    package static func text(_ milliseconds: UInt64) -> String { Measure.text(milliseconds, units) }

    private static let units: [(name: String, factor: UInt64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1),
    ]
    private static let longest: UInt64 = 10_000 * 86_400_000
}

/// Sizes in settings: `512`, `512B`, `64KiB`, `10MiB`, `2GiB`.
package enum SizeText {
    /// Parses a size to bytes; nil for anything but digits and an optional unit, and above 1 PiB.
    package static func parse(_ text: String) -> UInt64? {
        let written = text.utf8.last?.isASCIIDigit == true ? text + "B" : text
        guard let (value, factor) = Measure.parse(written, units), value <= largest / factor else { return nil }
        return value * factor
    }

    /// `bytes` in the largest unit in which it is an integer.
    package static func text(_ bytes: UInt64) -> String { Measure.text(bytes, units) }

    private static let units: [(name: String, factor: UInt64)] = [
        ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1),
    ]
    private static let largest: UInt64 = 1 << 50
}

private enum Measure {
    /// The number before the unit, and the unit's factor.
    static func parse(_ text: String, _ units: [(name: String, factor: UInt64)]) -> (UInt64, UInt64)? {
        let digits = text.utf8.prefix(while: \.isASCIIDigit)
        let unit = Substring(text.utf8.dropFirst(digits.count))
        guard let value = UInt64(Substring(digits)) else { return nil }
        return units.first { $0.name == unit }.map { (value, $0.factor) }
    }

    static func text(_ value: UInt64, _ units: [(name: String, factor: UInt64)]) -> String {
        for unit in units where value % unit.factor == 0 && (value > 0 || unit.factor == 1) {
            return "\(value / unit.factor)\(unit.name)"
        }
        return "\(value)"
    }
}
