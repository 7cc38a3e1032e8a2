import Testing
import Wire

@Suite struct MeasureTextTests {
    @Test(
        arguments: [
            ("0s", 0), ("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("24h", 86_400_000), ("30d", 2_592_000_000),
            ("90s", 90_000), ("10000d", 864_000_000_000),
        ] as [(String, UInt64)])
    func aDurationIsMilliseconds(_ text: String, _ milliseconds: UInt64) {
        #expect(DurationText.parse(text) == milliseconds)
    }

    @Test(arguments: [
        "", "5", "s", "1.5s", "-1s", "+1s", "5 s", "5S", "1h30m", "5min", "5\u{301}s", "10001d", "99999999999999999999s",
        "18446744073709551615d", "٣s",
    ])
    func otherDurationsAreRefused(_ text: String) { #expect(DurationText.parse(text) == nil) }

    @Test(
        arguments: [
            ("0", 0), ("512", 512), ("512B", 512), ("64KiB", 65_536), ("10MiB", 10_485_760), ("2GiB", 2_147_483_648),
            ("1TiB", 1_099_511_627_776),
        ] as [(String, UInt64)])
    func aSizeIsBytes(_ text: String, _ bytes: UInt64) { #expect(SizeText.parse(text) == bytes) }

    @Test(arguments: ["", "B", "64KB", "64kib", "1.5MiB", "-1", "99999999TiB", "18446744073709551616", "10 MiB", "10M"])
    func otherSizesAreRefused(_ text: String) { #expect(SizeText.parse(text) == nil) }

    @Test func durationsAndSizesAreWrittenInTheLargestExactUnit() {
        for text in ["0ms", "1ms", "1500ms", "90s", "5m", "25h", "30d"] {
            #expect(DurationText.parse(text).map(DurationText.text) == text)
        }
        #expect(DurationText.text(120_000) == "2m")
        for text in ["0B", "1000B", "64KiB", "10MiB", "3TiB"] { #expect(SizeText.parse(text).map(SizeText.text) == text) }
    }
}
