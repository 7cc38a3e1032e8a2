/// UTF-8 validation (The Unicode Standard, table 3-7): no surrogates, no overlong forms.
enum UTF8Sequence {
    /// The length of the scalar at `offset`, 1 to 4 bytes; 0 if it is not valid UTF-8.
    static func length(in bytes: RawSpan, at offset: Int) -> Int {
        let first = bytes[offset]
        if first < 0x80 { return 1 }
        let left = bytes.byteCount - offset
        switch first {
        case 0xC2...0xDF:
            return left >= 2 && isContinuation(bytes[offset + 1]) ? 2 : 0
        case 0xE0...0xEF:
            guard left >= 3, secondIsValid(first, bytes[offset + 1]) else { return 0 }
            return isContinuation(bytes[offset + 2]) ? 3 : 0
        case 0xF0...0xF4:
            guard left >= 4, secondIsValid(first, bytes[offset + 1]) else { return 0 }
            return isContinuation(bytes[offset + 2]) && isContinuation(bytes[offset + 3]) ? 4 : 0
        default:
            return 0
        }
    }

    /// The scalar of the valid sequence of two or three bytes at `offset`; nil for other lengths.
    static func scalar(in bytes: RawSpan, at offset: Int, _ length: Int) -> Unicode.Scalar? {
        guard length == 2 || length == 3 else { return nil }
        var value = UInt32(bytes[offset]) & (length == 2 ? 0x1F : 0x0F)
        for index in 1..<length { value = value << 6 | UInt32(bytes[offset + index] & 0x3F) }
        return Unicode.Scalar(value)
    }

    /// Whether the bytes from `offset` to the end are a scalar that is valid so far but incomplete.
    static func isCut(in bytes: RawSpan, at offset: Int) -> Bool {
        let left = bytes.byteCount - offset
        let first = bytes[offset]
        let whole = first < 0xC2 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 1
        guard left < whole else { return false }
        if left >= 2, !secondIsValid(first, bytes[offset + 1]) { return false }
        return left < 3 || isContinuation(bytes[offset + 2])
    }

    private static func isContinuation(_ byte: UInt8) -> Bool { byte & 0xC0 == 0x80 }

    /// Overlong forms, surrogates and scalars above U+10FFFF all show in the second byte.
    private static func secondIsValid(_ first: UInt8, _ second: UInt8) -> Bool {
        switch first {
        case 0xE0: 0xA0...0xBF ~= second
        case 0xED: 0x80...0x9F ~= second
        case 0xF0: 0x90...0xBF ~= second
        case 0xF4: 0x80...0x8F ~= second
        default: isContinuation(second)
        }
    }
}
