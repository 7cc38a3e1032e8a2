import Testing
import Wire

@Suite struct DateTests {
    @Test(
        arguments: [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"), (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"), (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
        ] as [(Int64, String)])
    func anHTTPDateIsWritten(_ seconds: Int64, _ text: String) {
        var out = ByteBuffer()
        HTTPDate.write(WallTime(seconds: seconds), into: &out)
        #expect(out.text == text)
    }

    @Test func everyHTTPDateIsReadBack() {
        for day in stride(from: Int64(0), to: 2_900_000, by: 37) {
            let time = WallTime(seconds: day * 86_400 + (day & 0xFFFF))
            var out = ByteBuffer()
            HTTPDate.write(time, into: &out)
            let read = HTTPDate.parse(out.readable)
            #expect(read == time)
        }
    }

    @Test(arguments: [
        "", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Mon, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT ", "Sun, 06 nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
        "Thu, 31 Jun 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:60 GMT", "Sun, 06-Nov-94 08:49:37 GMT   ",
        "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08.49.37 GMT", "Sun, +6 Nov 1994 08:49:37 GMT",
    ])
    func anythingElseIsNoHTTPDate(_ text: String) {
        let read = HTTPDate.parse(Array(text.utf8).rawBytes)
        #expect(read == nil)
    }

    @Test func aLogTimeHasMilliseconds() {
        #expect(ISO8601.text(WallTime(microseconds: 1_767_323_045_678_999)) == "2026-01-02T03:04:05.678Z")
        #expect(ISO8601.text(WallTime(microseconds: -1)) == "1969-12-31T23:59:59.999Z")
    }

    @Test func everyDayIsReadBack() {
        for day in stride(from: Int64(-1_000_000), to: 2_900_000, by: 37) {
            let time = WallTime(microseconds: day * 86_400_000_000 + (day & 0xFFFF) * 1_000_000 + 250_000)
            if (0...9999).contains(day / 366 + 1970) && day > -719_000 { #expect(ISO8601.parse(ISO8601.text(time)) == time) }
        }
    }

    @Test(
        arguments: [
            ("2027-01-01T00:00:00Z", 1_798_761_600_000_000), ("2027-01-01T00:00:00+00:00", 1_798_761_600_000_000),
            ("2027-01-01T00:00:00.5Z", 1_798_761_600_500_000), ("2027-01-01T00:00:00.123456789Z", 1_798_761_600_123_456),
            ("2024-02-29T23:59:59.000001+00:00", 1_709_251_199_000_001),
        ] as [(String, Int64)])
    func utcIsRead(_ text: String, _ microseconds: Int64) {
        #expect(ISO8601.parse(text) == WallTime(microseconds: microseconds))
    }

    @Test(arguments: [
        "", "2027-01-01", "2027-01-01T00:00:00", "2027-01-01 00:00:00Z", "2027-01-01T00:00:00+01:00", "2027-13-01T00:00:00Z",
        "2027-00-01T00:00:00Z", "2027-02-29T00:00:00Z", "2100-02-29T00:00:00Z", "2027-04-31T00:00:00Z", "2027-01-00T00:00:00Z",
        "2027-01-01T24:00:00Z", "2027-01-01T00:60:00Z", "2027-01-01T00:00:60Z", "2027-01-01T00:00:00.Z",
        "2027-01-01T00:00:00.1234567890Z", "2027-01-01T00:00:00z", "2027-01-01T00:00:00Zx", "-027-01-01T00:00:00Z",
    ])
    func otherTimesAreRefused(_ text: String) { #expect(ISO8601.parse(text) == nil) }

    @Test func secondsOutOfRangeDoNotTrap() {
        #expect(WallTime(seconds: .max).microseconds == .max)
        #expect(WallTime(seconds: .min).microseconds == .min)
        #expect(WallTime(microseconds: -1).seconds == -1)
        #expect(WallTime(microseconds: .min).seconds == -9_223_372_036_855)
        #expect(ISO8601.text(WallTime(microseconds: .min)).hasSuffix("-21T19:59:05.224Z"))
        #expect(ISO8601.text(WallTime(microseconds: .max)).hasSuffix("-10T04:00:54.775Z"))
    }
}
