/// Up to eight decimal digits as the ASCII bytes of one word, the first digit lowest, so that all are read or written at once.
package struct DecimalDigits: Equatable, Sendable {
    package let word: UInt64
    package let count: Int

    /// The first number with more than eight digits.
    package static let bound: UInt64 = 100_000_000

    /// The digits of `value` (below `bound`), without padding.
    @inline(__always) package init(_ value: UInt64) {
        let digits = Self.padded(value)
        let zeros = min((digits ^ UInt64(repeatingByte: 0x30)).trailingZeroBitCount / 8, 7)
        word = digits &>> UInt64(8 * zeros)
        count = 8 - zeros
    }

    /// The eight digits of `value` (below `bound`), zero-padded: splits into halves, quarters and digits, each step on all lanes.
    @inline(__always) static func padded(_ value: UInt64) -> UInt64 {
        let halves = value / 10_000 | (value % 10_000) << 32
        let hundreds = (halves &* 10_486) >> 20 & 0x0000_007F_0000_007F
        let quarters = hundreds | (halves &- hundreds &* 100) << 16
        let tens = (quarters &* 103) >> 10 & 0x000F_000F_000F_000F
        return (tens | (quarters &- tens &* 10) << 8) | UInt64(repeatingByte: 0x30)
    }

    /// Parses the leading digits of eight bytes; returns their value and their number (0 to 8). Joins pairs, then quarters,
    /// then halves, each step on all lanes.
    @inline(__always) static func read(_ word: UInt64) -> (value: UInt64, count: Int) {
        let digits = word ^ UInt64(repeatingByte: 0x30)
        // A byte above 9 sets a bit of the upper nibble, itself or after adding 6. A carry only disturbs bytes after the
        // first such byte, which are not used.
        let others = (digits | digits &+ UInt64(repeatingByte: 6)) & UInt64(repeatingByte: 0xF0)
        let count = others.trailingZeroBitCount / 8
        guard count > 0 else { return (0, 0) }
        // Shifted to the high end, so that the missing leading digits are zeros.
        let aligned = digits << UInt64(64 - 8 * count)
        let pairs = (aligned &* 10 &+ aligned >> 8) & 0x00FF_00FF_00FF_00FF
        let quarters = (pairs &* 100 &+ pairs >> 16) & 0x0000_FFFF_0000_FFFF
        return ((quarters & 0xFFFF_FFFF) &* 10_000 &+ quarters >> 32, count)
    }
}

/// Reader of decimal numbers separated by single spaces, as in the replies of our Lua scripts. At most 16 digits each.
package struct DecimalReader: ~Escapable {
    private let text: RawSpan
    /// The offset of the next number.
    package private(set) var offset: Int
    /// Whether the whole text has been read.
    package private(set) var isAtEnd = false

    /// A reader at `offset`, at which a number must begin.
    @_lifetime(copy text)
    package init(_ text: RawSpan, from offset: Int = 0) {
        precondition(offset <= text.byteCount)
        self.text = text
        self.offset = offset
    }

    /// The next number; nil at the end or at a syntax error.
    @_lifetime(self: copy self)
    package mutating func next() -> UInt64? {
        guard !isAtEnd else { return nil }
        var (value, count) = DecimalDigits.read(nextWord)
        offset += count
        guard count > 0 else { return nil }
        if count == 8 {
            let rest = DecimalDigits.read(nextWord)
            value = value &* Self.power(rest.count) &+ rest.value
            offset += rest.count
        }
        isAtEnd = offset == text.byteCount
        guard !isAtEnd else { return value }
        guard text[offset] == UInt8(ascii: " ") else { return nil }
        offset += 1
        return value
    }

    /// The next eight bytes, zero past the end of the text.
    @inline(__always) private var nextWord: UInt64 {
        if offset + 8 <= text.byteCount { return text.load64(offset) }
        var word: UInt64 = 0
        for index in (offset..<text.byteCount).reversed() { word = word << 8 | UInt64(text[index]) }
        return word
    }

    /// 10 to the power of `count`, 0 to 8.
    @inline(__always) private static func power(_ count: Int) -> UInt64 {
        if count == 8 { return DecimalDigits.bound }
        var power: UInt64 = 1
        for _ in 0..<count { power &*= 10 }
        return power
    }
}
