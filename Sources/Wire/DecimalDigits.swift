/// Up to eight decimal digits as the bytes of a word, the first in the lowest: what is written and read of them at once.
package struct DecimalDigits: Equatable, Sendable {
    package let word: UInt64
    package let count: Int

    /// Numbers from here on have more digits.
    package static let bound: UInt64 = 100_000_000

    /// The digits of `value`, below `bound`, without padding.
    @inline(__always) package init(_ value: UInt64) {
        let digits = Self.padded(value)
        let zeros = min((digits ^ UInt64(repeatingByte: 0x30)).trailingZeroBitCount / 8, 7)
        word = digits &>> UInt64(8 * zeros)
        count = 8 - zeros
    }

    /// Eight digits of `value`, below `bound`: halves, quarters and digits are divided side by side.
    @inline(__always) static func padded(_ value: UInt64) -> UInt64 {
        let halves = value / 10_000 | (value % 10_000) << 32
        let hundreds = (halves &* 10_486) >> 20 & 0x0000_007F_0000_007F
        let quarters = hundreds | (halves &- hundreds &* 100) << 16
        let tens = (quarters &* 103) >> 10 & 0x000F_000F_000F_000F
        return (tens | (quarters &- tens &* 10) << 8) | UInt64(repeatingByte: 0x30)
    }

    /// The number that eight bytes spell; nil if one is no digit. Pairs, quarters and halves are put together side by side.
    @inline(__always) static func value(of word: UInt64) -> UInt64? {
        let digits = word ^ UInt64(repeatingByte: 0x30)
        guard (digits | digits &+ UInt64(repeatingByte: 6)) & UInt64(repeatingByte: 0xF0) == 0 else { return nil }
        let pairs = (digits &* 10 &+ digits >> 8) & 0x00FF_00FF_00FF_00FF
        let quarters = (pairs &* 100 &+ pairs >> 16) & 0x0000_FFFF_0000_FFFF
        return (quarters & 0xFFFF_FFFF) &* 10_000 &+ quarters >> 32
    }
}

/// Numbers in decimal with one space between two, as of a reply; each has at most sixteen digits.
package struct DecimalReader: ~Escapable {
    private let text: RawSpan
    private var offset = 0
    /// Whether all has been read.
    package private(set) var isAtEnd = false

    @_lifetime(copy text)
    package init(_ text: RawSpan) { self.text = text }

    /// The next number; nil if there is none, or what stands there is none.
    @_lifetime(self: copy self)
    package mutating func next() -> UInt64? {
        guard !isAtEnd else { return nil }
        let start = offset
        var value: UInt64 = 0
        while offset + 8 <= text.byteCount, offset - start <= 8, let eight = DecimalDigits.value(of: text.load64(offset)) {
            value = value &* DecimalDigits.bound &+ eight
            offset += 8
        }
        while offset < text.byteCount, offset - start <= 16, text[offset].isASCIIDigit {
            value = value &* 10 &+ UInt64(text[offset] & 0x0F)
            offset += 1
        }
        guard offset > start, offset - start <= 16 else { return nil }
        isAtEnd = offset == text.byteCount
        guard isAtEnd || text[offset] == UInt8(ascii: " ") else { return nil }
        offset += 1
        return value
    }
}
