package import Wire

/// A value of `grpc-timeout`: one to eight digits and a unit, from `H` (hours) to `n` (nanoseconds).
package struct GRPCTimeout: Equatable, Sendable {
    /// At most `longest`.
    package let nanoseconds: UInt64

    /// Longer times count as this one, some 146 years.
    package static let longest: UInt64 = 1 << 62

    private static let maxDigits = 8

    /// Units, from the smallest, in nanoseconds.
    private static var units: [6 of (letter: UInt8, length: UInt64)] {
        [
            (UInt8(ascii: "n"), 1), (UInt8(ascii: "u"), 1_000), (UInt8(ascii: "m"), 1_000_000),
            (UInt8(ascii: "S"), 1_000_000_000), (UInt8(ascii: "M"), 60_000_000_000), (UInt8(ascii: "H"), 3_600_000_000_000),
        ]
    }

    /// A time of so many nanoseconds, or of `longest`.
    package init(nanoseconds: UInt64) { self.nanoseconds = min(nanoseconds, Self.longest) }

    /// Parses a value. Zero is a time: clients send it when theirs is over.
    package init?(_ text: RawSpan) {
        let digits = text.byteCount - 1
        guard digits >= 1, digits <= Self.maxDigits, let unit = Self.length(of: text[digits]) else { return nil }
        var count: UInt64 = 0
        for offset in 0..<digits {
            guard text[offset].isASCIIDigit else { return nil }
            count = count * 10 + UInt64(text[offset] & 15)
        }
        let (product, isTooLong) = count.multipliedReportingOverflow(by: unit)
        self.init(nanoseconds: isTooLong ? Self.longest : product)
    }

    private static func length(of letter: UInt8) -> UInt64? {
        let units = units
        for index in units.indices where units[index].letter == letter { return units[index].length }
        return nil
    }

    /// Writes it over nine bytes of `out` from `offset` on, rounded down in the smallest unit that has the room.
    /// Leading zeros keep the length the same, so that a shorter time can take the place of a longer one.
    package func write(over offset: Int, of out: inout ByteBuffer) {
        let units = Self.units
        var index = 0
        while nanoseconds / units[index].length > 99_999_999 { index += 1 }
        var count = nanoseconds / units[index].length
        for place in stride(from: offset + Self.maxDigits - 1, through: offset, by: -1) {
            out.set(UInt8(ascii: "0") + UInt8(count % 10), at: place)
            count /= 10
        }
        out.set(units[index].letter, at: offset + Self.maxDigits)
    }
}
