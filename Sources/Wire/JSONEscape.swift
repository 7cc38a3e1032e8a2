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
        let next = offset + 6
        guard scalar < 0xDC00, next + 1 < bytes.byteCount, bytes[next] == UInt8(ascii: "\\"),
            bytes[next + 1] == UInt8(ascii: "u")
        else { throw JSONFault(kind: .notUnicode, offset: offset) }
        let low = try Self.unit(in: bytes, at: next)
        guard low & 0xFC00 == 0xDC00 else { throw JSONFault(kind: .notUnicode, offset: next) }
        scalar = 0x10000 + (scalar & 0x3FF) << 10 + (low & 0x3FF)
        length = 12
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
    func endOfPlainText(from start: Int) -> Int {
        var offset = start
        while offset + 8 <= byteCount {
            let marks = Self.specialBytes(load64(offset))
            if marks != 0 { return offset + marks.trailingZeroBitCount / 8 }
            offset += 8
        }
        while offset < byteCount {
            let byte = self[offset]
            if byte < 0x20 || byte >= 0x80 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { break }
            offset += 1
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
