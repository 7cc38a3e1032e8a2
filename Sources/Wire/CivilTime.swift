/// A wall time broken down into date and time of day, in UTC and the proleptic Gregorian calendar.
struct CivilTime: Equatable {
    var year: Int64
    /// 1 to 12.
    var month: Int64
    /// 1 to 31.
    var day: Int64
    /// 0 to 23, 0 to 59, 0 to 59.
    var hour: Int64, minute: Int64, second: Int64
    /// 0 to 999.
    var millisecond: Int64
    /// 0 is Sunday.
    var weekday: Int64

    init(_ time: WallTime) {
        let seconds = time.seconds
        // The wrapping operators matter at the lowest WallTime only, where the two overflows cancel out.
        millisecond = (time.microseconds &- seconds &* 1_000_000) / 1_000
        let days = seconds >= 0 ? seconds / 86_400 : -((86_399 - seconds) / 86_400)
        let rest = seconds - days * 86_400
        (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60)
        weekday = ((days % 7) + 11) % 7
        // Years start in March here, so that a leap day is a year's last day (Howard Hinnant, "chrono-Compatible Low-Level
        // Date Algorithms").
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// Days from 1970-01-01 to the given day.
    static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

extension ByteBuffer {
    /// Appends `value` in decimal, padded with zeros to `digits` (1 to 8); higher digits are cut.
    mutating func append(padded value: Int64, digits: Int) {
        precondition((1...8).contains(digits))
        let word = DecimalDigits.padded(value.magnitude % DecimalDigits.bound)
        append(lowBytes: word >> UInt64(8 * (8 - digits)), count: digits)
    }
}

/// Dates in HTTP fields (RFC 9110 §5.6.7, IMF-fixdate).
package enum HTTPDate {
    /// Appends the time as `Sun, 06 Nov 1994 08:49:37 GMT`, always 29 bytes.
    package static func write(_ time: WallTime, into out: inout ByteBuffer) {
        let civil = CivilTime(time)
        out.append(name(civil.weekday, of: "SunMonTueWedThuFriSat"))
        out.append(", ")
        out.append(padded: civil.day, digits: 2)
        out.append(UInt8(ascii: " "))
        out.append(name(civil.month - 1, of: months))
        out.append(UInt8(ascii: " "))
        out.append(padded: civil.year, digits: 4)
        out.append(UInt8(ascii: " "))
        out.append(clockOf: civil)
        out.append(" GMT")
    }

    /// Parses an IMF-fixdate; nil for anything else, the obsolete forms included.
    package static func parse(_ text: RawSpan) -> WallTime? {
        guard text.byteCount == 29, let month = month(text.extracting(8..<11)), let year = number(text, 12, 4),
            let day = number(text, 5, 2), let hour = number(text, 17, 2), let minute = number(text, 20, 2),
            let second = number(text, 23, 2)
        else { return nil }
        let days = CivilTime.days(year: year, month: month, day: day)
        let time = WallTime(seconds: days * 86_400 + hour * 3_600 + minute * 60 + second)
        // Writing the time again checks the rest: weekday, separators, and days that do not exist, like 31 June.
        var again = ByteBuffer(capacity: 32)
        write(time, into: &again)
        return again.readable.equals(text) ? time : nil
    }

    private static func month(_ text: RawSpan) -> Int64? {
        (1...12).first { name($0 - 1, of: months).equals(text) }
    }

    private static func number(_ text: RawSpan, _ start: Int, _ digits: Int) -> Int64? {
        var value: Int64 = 0
        for offset in start..<start + digits {
            guard text[offset].isASCIIDigit else { return nil }
            value = value * 10 + Int64(text[offset] - 48)
        }
        return value
    }

    private static let months: StaticString = "JanFebMarAprMayJunJulAugSepOctNovDec"

    @_lifetime(immortal)
    private static func name(_ index: Int64, of names: StaticString) -> RawSpan {
        names.rawBytes.extracting(Int(index) * 3..<Int(index) * 3 + 3)
    }
}

extension ByteBuffer {
    /// `08:49:37`
    mutating func append(clockOf civil: CivilTime) {
        append(padded: civil.hour, digits: 2)
        append(UInt8(ascii: ":"))
        append(padded: civil.minute, digits: 2)
        append(UInt8(ascii: ":"))
        append(padded: civil.second, digits: 2)
    }
}
