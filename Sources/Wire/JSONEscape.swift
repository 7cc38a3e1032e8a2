/// One escape of a JSON string: the scalar it spells and the bytes it takes, a surrogate pair being one (RFC 8259 §7).
struct JSONEscape {
    var scalar: UInt32
    var length: Int

    /// Reads the escape whose backslash is at `offset`.
    init(in bytes: RawSpan, at offset: Int) throws(JSONFault) {
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
            try pair(in: bytes, at: offset)
        default: throw JSONFault(kind: .unexpectedByte, offset: offset + 1)
        }
    }

    /// Joins the high surrogate just read to the low one that must follow it.
    private mutating func pair(in bytes: RawSpan, at offset: Int) throws(JSONFault) {
        guard scalar < 0xDC00 else { throw JSONFault(kind: .notUnicode, offset: offset) }
        let next = offset + 6
        try expect(UInt8(ascii: "\\"), in: bytes, at: next, of: offset)
        try expect(UInt8(ascii: "u"), in: bytes, at: next + 1, of: offset)
        let low = try Self.unit(in: bytes, at: next)
        guard low & 0xFC00 == 0xDC00 else { throw JSONFault(kind: .notUnicode, offset: next) }
        scalar = 0x10000 + (scalar & 0x3FF) << 10 + (low & 0x3FF)
        length = 12
    }

    private func expect(_ byte: UInt8, in bytes: RawSpan, at index: Int, of escape: Int) throws(JSONFault) {
        guard index < bytes.byteCount else { throw JSONFault(kind: .endsEarly, offset: index) }
        guard bytes[index] == byte else { throw JSONFault(kind: .notUnicode, offset: escape) }
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
    /// The first offset from `start` on that holds a quote, a backslash, a control character or a byte above ASCII;
    /// the end of the span if there is none. What it passes over stands for itself in a JSON string.
    @inline(__always)
    func endOfPlainText(from start: Int) -> Int {
        // Most names and many strings end among the first 16 bytes.
        guard start &+ 16 <= byteCount else { return endOfShortText(from: start) }
        let words = unsafe unsafeLoadUnaligned(fromByteOffset: start, as: SIMD2<UInt64>.self)
        let first = Self.specialBytes(words[0])
        if first != 0 { return start &+ first.trailingZeroBitCount / 8 }
        let second = Self.specialBytes(words[1])
        if second != 0 { return start &+ 8 &+ second.trailingZeroBitCount / 8 }
        return endOfLongText(from: start &+ 16)
    }

    private func endOfLongText(from start: Int) -> Int {
        var offset = start
        while offset &+ 32 <= byteCount {
            let words = unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: SIMD4<UInt64>.self)
            let marks = (
                Self.specialBytes(words[0]), Self.specialBytes(words[1]), Self.specialBytes(words[2]), Self.specialBytes(words[3])
            )
            if marks.0 | marks.1 | marks.2 | marks.3 != 0 {
                if marks.0 != 0 { return offset &+ marks.0.trailingZeroBitCount / 8 }
                if marks.1 != 0 { return offset &+ 8 &+ marks.1.trailingZeroBitCount / 8 }
                if marks.2 != 0 { return offset &+ 16 &+ marks.2.trailingZeroBitCount / 8 }
                return offset &+ 24 &+ marks.3.trailingZeroBitCount / 8
            }
            offset &+= 32
        }
        return endOfShortText(from: offset)
    }

    private func endOfShortText(from start: Int) -> Int {
        var offset = start
        while offset &+ 8 <= byteCount {
            let marks = Self.specialBytes(load64(offset))
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

    /// The high bit of each byte of `word` that is below 0x20, above 0x7F, a quote or a backslash. A byte above a hit
    /// may be marked wrongly, by the borrow; the lowest mark is always right.
    @inline(__always)
    private static func specialBytes(_ word: UInt64) -> UInt64 {
        let ones = UInt64(repeatingByte: 1)
        let quotes = (word ^ UInt64(repeatingByte: 0x22)) &- ones
        let backslashes = (word ^ UInt64(repeatingByte: 0x5C)) &- ones
        let controls = word &- UInt64(repeatingByte: 0x20)
        return (quotes | backslashes | controls | word) & UInt64(repeatingByte: 0x80)
    }
}
