import Testing
import Wire

@Suite struct BytesTests {
    @Test func aSliceNamesItsBytes() {
        let bytes = "hello world".utf8Bytes
        let slice = Slice(start: 6, count: 5)
        #expect(bytes.rawBytes[slice].text == "world")
        #expect(slice.end == 11)
        #expect(Slice().isEmpty)
        #expect(bytes.rawBytes[Slice()].byteCount == 0)
        #expect(bytes.rawBytes.dropping(6).text == "world")
        #expect(bytes.rawBytes.dropping(11).byteCount == 0)
    }

    @Test func wordsAreLoadedWithTheFirstByteLowest() {
        let bytes: [UInt8] = [9, 1, 2, 3, 4, 5, 6, 7, 8]
        #expect(bytes.rawBytes.load64(1) == 0x0807_0605_0403_0201)
        #expect(bytes.rawBytes[0] == 9)
        #expect(UInt64(repeatingByte: 0xA5) == 0xA5A5_A5A5_A5A5_A5A5)
    }

    @Test(arguments: [("", "", true), ("a", "", false), ("abc", "abc", true), ("abc", "abd", false), ("abc", "abcd", false)])
    func equalityIsByBytes(_ left: String, _ right: String, _ same: Bool) {
        #expect(left.utf8Bytes.rawBytes.equals(right.utf8Bytes.rawBytes) == same)
        #expect(right.utf8Bytes.rawBytes.equals(left.utf8Bytes.rawBytes) == same)
    }

    @Test func literalsCompareWithAndWithoutCase() {
        let bytes = "Content-Type".utf8Bytes
        #expect(bytes.rawBytes.equals("Content-Type" as StaticString) == true)
        #expect(bytes.rawBytes.equals("content-type" as StaticString) == false)
        #expect(bytes.rawBytes.equalsIgnoringCase("content-type") == true)
        #expect(bytes.rawBytes.equalsIgnoringCase("content-typo") == false)
        #expect(bytes.rawBytes.equalsIgnoringCase("content-typ") == false)
        #expect(bytes.rawBytes.hasPrefix("Content" as StaticString) == true)
        #expect(bytes.rawBytes.hasPrefix("" as StaticString) == true)
        #expect(bytes.rawBytes.hasPrefix("Content-Types" as StaticString) == false)
        #expect(bytes.rawBytes.hasPrefix("Con".utf8Bytes.rawBytes) == true)
        #expect(("literal" as StaticString).rawBytes.text == "literal")
        #expect(("" as StaticString).rawBytes.byteCount == 0)
    }

    @Test func caseFoldsLettersAlone() {
        for byte in UInt8.min...UInt8.max {
            let isCapital = (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
            #expect(byte.lowercasedASCII == (isCapital ? byte + 32 : byte))
            #expect(byte.isASCIIDigit == (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte))
            let isSmall = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
            #expect(byte.isASCIILetter == (isCapital || isSmall))
            #expect(byte.hexValue.map(Int.init) == (byte < 128 ? Character(Unicode.Scalar(byte)).hexDigitValue : nil))
        }
    }

    @Test func aByteIsFoundFromAnOffset() {
        let bytes = "a,b,c".utf8Bytes
        #expect(bytes.rawBytes.firstIndex(of: UInt8(ascii: ",")) == 1)
        #expect(bytes.rawBytes.firstIndex(of: UInt8(ascii: ","), from: 2) == 3)
        #expect(bytes.rawBytes.firstIndex(of: UInt8(ascii: ","), from: 4) == nil)
        #expect(bytes.rawBytes.firstIndex(of: UInt8(ascii: ","), from: 5) == nil)
        #expect(bytes.rawBytes.firstIndex(of: UInt8(ascii: ","), from: 99) == nil)
    }

    @Test func textIsCopiedAndRepaired() {
        #expect(([0x61, 0xFF] as [UInt8]).rawBytes.text == "a\u{FFFD}")
        #expect("naïve".withRawBytes { $0.array } == "naïve".utf8Bytes)
        #expect("".withRawBytes { $0.byteCount } == 0)
    }

    @Test func theSmallGeneratorIsTheKnownOne() {
        // The first three values for seed 1234567, as the reference implementation prints them.
        var random = SplitMix64(seed: 1_234_567)
        #expect(random.next() == 6_457_827_717_110_365_317)
        #expect(random.next() == 3_203_168_211_198_807_973)
        #expect(random.next() == 9_817_491_932_198_370_423)
    }

    @Test func timeOnAClockThatOnlyGoesForward() {
        let start = MonotonicTime(nanoseconds: 5_000_000)
        let later = start.advanced(milliseconds: 7)
        #expect(later.nanoseconds(since: start) == 7_000_000)
        #expect(start.nanoseconds(since: later) == 0)
        #expect(start < later)
        #expect(WallTime(seconds: 3).seconds == 3)
    }
}
