/// Timestamps in logs and JSON (RFC 3339), UTC only.
package enum ISO8601 {
    /// Appends the time as `2026-01-02T03:04:05.678Z`, always 24 bytes.
    package static func write(_ time: WallTime, into out: inout ByteBuffer) {
        let civil = CivilTime(time)
        out.append(padded: civil.year, digits: 4)
        out.append(UInt8(ascii: "-"))
        out.append(padded: civil.month, digits: 2)
        out.append(UInt8(ascii: "-"))
        out.append(padded: civil.day, digits: 2)
        out.append(UInt8(ascii: "T"))
        out.append(clockOf: civil)
        out.append(UInt8(ascii: "."))
        out.append(padded: civil.millisecond, digits: 3)
        out.append(UInt8(ascii: "Z"))
    }

    /// The same as a string.
    package static func text(_ time: WallTime) -> String {
        var out = ByteBuffer(capacity: 24)
        write(time, into: &out)
        return out.readable.text
    }

    /// Parses `2027-01-01T00:00:00Z`, with an optional fraction of 1 to 9 digits (cut to microseconds) and `Z` or `+00:00`; nil
    /// for other forms, and for dates and times that do not exist.
    package static func parse(_ text: String) -> WallTime? {
        text.withRawBytes { parse($0) }
    }

    package static func parse(_ text: RawSpan) -> WallTime? {
        guard text.byteCount >= 20, let date = date(text), let clock = clock(text) else { return nil }
        var offset = 19
        var microseconds: Int64 = 0
        if text[offset] == UInt8(ascii: ".") {
            guard let fraction = fraction(text, from: 20) else { return nil }
            (microseconds, offset) = fraction
        }
        let zone = text.dropping(offset)
        guard zone.equals("Z") || zone.equals("+00:00") else { return nil }
        return WallTime(microseconds: (date * 86_400 + clock) * 1_000_000 + microseconds)
    }

    /// Days since 1970.
    private static func date(_ text: RawSpan) -> Int64? {
        guard text[4] == UInt8(ascii: "-"), text[7] == UInt8(ascii: "-"), text[10] == UInt8(ascii: "T"),
            let year = number(text, 0..<4), let month = number(text, 5..<7), let day = number(text, 8..<10),
            (1...12).contains(month), day >= 1
        else { return nil }
        let days = CivilTime.days(year: year, month: month, day: day)
        // A day that does not exist, such as 30 February, converts back to a different one.
        let civil = CivilTime(WallTime(seconds: days * 86_400))
        return civil.month == month && civil.day == day ? days : nil
    }

    /// Seconds since midnight.
    private static func clock(_ text: RawSpan) -> Int64? {
        guard text[13] == UInt8(ascii: ":"), text[16] == UInt8(ascii: ":"), let hour = number(text, 11..<13),
            let minute = number(text, 14..<16), let second = number(text, 17..<19), hour < 24, minute < 60, second < 60
        else { return nil }
        return hour * 3_600 + minute * 60 + second
    }

    /// Microseconds, and the offset after the last digit.
    private static func fraction(_ text: RawSpan, from start: Int) -> (Int64, Int)? {
        var offset = start
        var value: Int64 = 0
        var unit: Int64 = 100_000
        while offset < text.byteCount, text[offset].isASCIIDigit {
            value += Int64(text[offset] - 48) * unit
            unit /= 10
            offset += 1
        }
        return (1...9).contains(offset - start) ? (value, offset) : nil
    }

    private static func number(_ text: RawSpan, _ range: Range<Int>) -> Int64? {
        var value: Int64 = 0
        for offset in range {
            guard text[offset].isASCIIDigit else { return nil }
            value = value * 10 + Int64(text[offset] - 48)
        }
        return value
    }
}
