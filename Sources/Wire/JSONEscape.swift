/// One escape in a JSON string: its scalar and its length in bytes. A surrogate pair is one escape (RFC 8259 §7).
struct JSONEscape {
    /// A surrogate for half a pair, which is no scalar.
    var scalar: UInt32
    var length: Int

    /// Whether it is a surrogate without the other half (RFC 8259 §8.2): what `JSON.stringify` writes for a string that was cut in an emoji.
    var isHalf: Bool { scalar & 0xFFFF_F800 == 0xD800 }

    /// Reads the escape whose backslash is at `offset`. Half a pair is a fault unless `takesHalves`.
    init(in bytes: RawSpan, at offset: Int, takesHalves: Bool) throws(JSONFault) {
        guard offset + 1 < bytes.byteCount else { throw JSONFault(kind: .endsEarly, offset: bytes.byteCount) }
        length = 2
        switch bytes[offset + 1] {
        case UInt8(ascii: "\""): scalar = 0x22
        case UInt8(ascii: "\\"): scalar = 0x5C
        case UInt8(ascii: "/"): scalar = 0x2F
        case UInt8(ascii: "b"): scalar = 0x08
        case UInt8(ascii: "f"): scalar = 0x0C
        case UInt8(ascii: "n"): scalar = 0x0A
        case UInt8(ascii: "r"): scalar = 0x0D
        case UInt8(ascii: "t"): scalar = 0x09
        case UInt8(ascii: "u"):
            length = 6
            scalar = try Self.unit(in: bytes, at: offset)
            guard scalar & 0xF800 == 0xD800 else { return }
            try pair(in: bytes, at: offset, takesHalves)
        default: throw JSONFault(kind: .unexpectedByte, offset: offset + 1)
        }
    }

    /// Joins the surrogate just read to the low one behind it, if it is a high one.
    private mutating func pair(in bytes: RawSpan, at offset: Int, _ takesHalves: Bool) throws(JSONFault) {
        let next = offset + 6
        let isFollowed = scalar < 0xDC00 ? try beginsUnit(bytes, at: next) : false
        let low = isFollowed ? try Self.unit(in: bytes, at: next) : 0
        if low & 0xFC00 == 0xDC00 {
            scalar = 0x10000 + (scalar & 0x3FF) << 10 + (low & 0x3FF)
            length = 12
        } else if !takesHalves {
            throw JSONFault(kind: .notUnicode, offset: isFollowed ? next : offset)
        }
    }

    private func beginsUnit(_ bytes: RawSpan, at offset: Int) throws(JSONFault) -> Bool {
        guard offset < bytes.byteCount else { throw JSONFault(kind: .endsEarly, offset: offset) }
        guard bytes[offset] == UInt8(ascii: "\\") else { return false }
        guard offset + 1 < bytes.byteCount else { throw JSONFault(kind: .endsEarly, offset: offset + 1) }
        return bytes[offset + 1] == UInt8(ascii: "u")
    }

    /// The four hexadecimal digits behind the `\u` at `offset`.
    private static func unit(in bytes: RawSpan, at offset: Int) throws(JSONFault) -> UInt32 {
        var value: UInt32 = 0
        for index in offset + 2..<offset + 6 {
            guard index < bytes.byteCount else { throw JSONFault(kind: .endsEarly, offset: index) }
            guard let digit = bytes[index].hexValue else { throw JSONFault(kind: .unexpectedByte, offset: index) }
            value = value << 4 | UInt32(digit)
        }
        return value
    }
}

extension RawSpan {
    /// The offset of the first quote, backslash, control character or non-ASCII byte at or after `start`, or the end of the
    /// span. The bytes before it stand for themselves in a JSON string.
    @inline(__always)
    func endOfPlainText(from start: Int) -> Int {
        // Most names and many strings end in the first word.
        guard byteCount &- start >= 8 else { return endOfShortText(from: start) }
        let marks = PlainWord.specialBytes(load64(start))
        return marks != 0 ? start &+ marks.trailingZeroBitCount / 8 : endOfLongText(from: start &+ 8)
    }

    private func endOfLongText(from start: Int) -> Int {
        var offset = start
        while byteCount &- offset >= 32 {
            let marks = PlainWord.specialBytes(unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: SIMD4<UInt64>.self))
            if marks[0] | marks[1] != 0 {
                return offset &+ (marks[0] != 0 ? marks[0].trailingZeroBitCount : 64 &+ marks[1].trailingZeroBitCount) / 8
            }
            if marks[2] | marks[3] != 0 {
                return offset &+ (marks[2] != 0 ? 128 &+ marks[2].trailingZeroBitCount : 192 &+ marks[3].trailingZeroBitCount) / 8
            }
            offset &+= 32
        }
        return endOfShortText(from: offset)
    }

    private func endOfShortText(from start: Int) -> Int {
        var offset = start
        while byteCount &- offset >= 8 {
            let marks = PlainWord.specialBytes(load64(offset))
            if marks != 0 { return offset &+ marks.trailingZeroBitCount / 8 }
            offset &+= 8
        }
        while offset < byteCount {
            let byte = self[offset]
            if byte < 0x20 || byte >= 0x80 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { break }
            offset &+= 1
        }
        return offset
    }
}

/// The first eight bytes of a text, cut at the first byte that does not stand for itself in a JSON string.
struct PlainWord {
    static let ones = UInt64(repeatingByte: 1)
    static let highBits = UInt64(repeatingByte: 0x80)
    static let backslashes = UInt64(repeatingByte: 0x5C)
    /// Flipping this bit turns the quote (0x22) into 0x20, just above the control characters, so that one comparison finds both.
    static let quoteBit = UInt64(repeatingByte: 0x02)
    static let belowQuote = UInt64(repeatingByte: 0x21)

    /// The bytes before the first special byte, and the lower seven bits of that byte.
    private let text: UInt64
    private let marks: UInt64

    @inline(__always)
    init(_ bytes: RawSpan, at offset: Int) {
        let word = bytes.load64(offset)
        marks = Self.specialBytes(word)
        text = word & ((marks & (0 &- marks)) &- 1)
    }

    /// The word of `name` as if read from a JSON text, where a closing quote follows the name.
    init(name: RawSpan) {
        var word: UInt64 = 0
        for offset in 0..<min(8, name.byteCount) { word |= UInt64(name[offset]) &<< UInt64(8 * offset) }
        if name.byteCount < 8 { word |= UInt64(UInt8(ascii: "\"")) &<< UInt64(8 * name.byteCount) }
        text = word
        marks = 0
    }

    /// Whether the text ends within the eight bytes, at a special byte.
    @inline(__always) var isWhole: Bool { marks != 0 }
    /// The number of bytes before the first special byte.
    @inline(__always) var count: Int { marks.trailingZeroBitCount / 8 }
    /// A six-bit hash of the text, for the set of watched names.
    @inline(__always) var bit: UInt64 { (text &* 0xC4CE_B9FE_1A85_EC53) &>> 58 }

    /// Sets the high bit of each byte of `word` that is below 0x20, above 0x7F, a quote or a backslash. The borrow of a hit may
    /// mark a higher byte wrongly; the lowest mark is always right.
    @inline(__always)
    static func specialBytes(_ word: UInt64) -> UInt64 {
        let quotes = (word ^ quoteBit) &- belowQuote
        let backslashes = (word ^ backslashes) &- ones
        return (quotes | backslashes | word) & highBits
    }

    /// The same for four words.
    @inline(__always)
    static func specialBytes(_ words: SIMD4<UInt64>) -> SIMD4<UInt64> {
        let quotes = (words ^ SIMD4(repeating: quoteBit)) &- SIMD4(repeating: belowQuote)
        let backslashes = (words ^ SIMD4(repeating: Self.backslashes)) &- SIMD4(repeating: ones)
        return (quotes | backslashes | words) & SIMD4(repeating: highBits)
    }
}
