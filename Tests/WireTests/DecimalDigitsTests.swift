import Testing

@testable import Wire

@Suite struct DecimalDigitsTests {
    private func numbers(_ text: String) -> [UInt64]? {
        let bytes = Array(text.utf8)
        var reader = DecimalReader(bytes.rawBytes)
        var found: [UInt64] = []
        while !reader.isAtEnd {
            guard let number = reader.next() else { return nil }
            found.append(number)
        }
        return found
    }

    @Test(
        arguments: [
            ("0", [0]), ("7 8", [7, 8]), ("12345678", [12_345_678]), ("123456789 1", [123_456_789, 1]),
            ("1 1763785652243456 1763785652363456", [1, 1_763_785_652_243_456, 1_763_785_652_363_456]),
            ("9999999999999999", [9_999_999_999_999_999]), ("0000000000000001", [1]),
        ] as [(String, [UInt64])])
    func numbersAreRead(_ text: String, _ expected: [UInt64]) { #expect(numbers(text) == expected) }

    @Test(arguments: ["", " ", "1 ", " 1", "1  2", "-1", "+1", "1.0", "1234567/", "1234567:", "12345678901234567", "1\n", "1\u{0}", "é"])
    func invalidNumbersAreNil(_ text: String) { #expect(numbers(text) == nil) }

    @Test func eachNumberIsReadAsItWasWritten() {
        var random = SplitMix64(seed: 3)
        for _ in 0..<2_000 {
            let number = random.next() % 10_000_000_000_000_000 / (random.next() % 3 == 0 ? 1_000_000_007 : 1)
            var out = ByteBuffer()
            out.append(decimal: number)
            #expect(out.readable.text == "\(number)")
            #expect(numbers(out.readable.text) == [number])
        }
    }

    /// Random bytes, mostly nearly numbers: the reader agrees with a simple one and never traps.
    @Test func randomBytesReadAsBySplitting() {
        var random = SplitMix64(seed: 4)
        let letters = Array("0123456789 0123456789/:;".utf8) + [0, 0x80, 0xFF, 0xB0]
        for _ in 0..<20_000 {
            let bytes = (0..<random.next() % 40).map { _ in letters[Int(random.next() % UInt64(letters.count))] }
            var reader = DecimalReader(bytes.rawBytes)
            var found: [UInt64]? = []
            while !reader.isAtEnd {
                guard let number = reader.next() else {
                    found = nil
                    break
                }
                found?.append(number)
            }
            let parts = bytes.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
            let plain = parts.map { part in
                part.count > 0 && part.count <= 16 && part.allSatisfy(\.isASCIIDigit)
                    ? part.reduce(0 as UInt64) { $0 * 10 + UInt64($1 - 48) } : nil
            }
            #expect(found == (plain.contains(nil) ? nil : plain.compactMap { $0 }), "\(bytes)")
        }
    }
}
