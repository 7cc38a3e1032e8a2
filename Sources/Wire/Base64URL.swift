/// Base64 with the URL-safe alphabet and without padding (RFC 4648 §5), as JOSE uses it (RFC 7515 §2).
///
/// Decodes only the canonical spelling: no `=`, no white space, unused bits at the end zero. Two different texts therefore
/// never decode to the same bytes, and a respelled token cannot slip past a comparison.
package enum Base64URL {
    /// Decodes `text` and appends the bytes to `out`; false, with `out` unchanged, if `text` is not canonical.
    package static func decode(_ text: RawSpan, into out: inout ByteBuffer) -> Bool {
        let length = text.byteCount
        guard length % 4 != 1 else { return false }
        let before = out.count
        let whole = length & ~7
        let values = Self.values.rawBytes
        out.reserve(decodedCount(length) + 8)
        var offset = 0
        while offset < whole {
            guard let bits = Self.bits(ofLetters: text.load64(offset), values) else { return refuse(&out, before) }
            out.append(highBytes: bits, count: 6)
            offset += 8
        }
        guard whole < length else { return true }
        // The last 1 to 7 letters, padded with "A", the letter for zero.
        guard let bits = Self.bits(ofLetters: tail(of: text, from: whole), values) else { return refuse(&out, before) }
        let count = decodedCount(length - whole)
        guard bits << UInt64(8 * count) == 0 else { return refuse(&out, before) }
        out.append(highBytes: bits, count: count)
        return true
    }

    /// Encodes `bytes` and appends the letters to `out`.
    package static func encode(_ bytes: RawSpan, into out: inout ByteBuffer) {
        let count = bytes.byteCount
        out.reserve(encodedCount(count) + 8)
        var offset = 0
        // Each step loads eight bytes and uses six; the last group may not have eight, so the loop below encodes it.
        while offset + 8 <= count {
            out.append(lowBytes: letters(ofBits: bytes.load64(offset).byteSwapped), count: 8)
            offset += 6
        }
        while offset < count {
            let group = min(6, count - offset)
            var bits: UInt64 = 0
            for index in 0..<group { bits |= UInt64(bytes[offset + index]) << UInt64(56 - 8 * index) }
            out.append(lowBytes: letters(ofBits: bits), count: encodedCount(group))
            offset += group
        }
    }

    /// Decodes `text`; nil if it is not canonical.
    package static func decode(_ text: RawSpan) -> [UInt8]? {
        var out = ByteBuffer()
        guard decode(text, into: &out) else { return nil }
        return out.readable.array
    }

    /// Encodes `bytes` as a string.
    package static func encode(_ bytes: RawSpan) -> String {
        var out = ByteBuffer()
        encode(bytes, into: &out)
        return out.readable.text
    }

    /// The number of bytes that `letters` letters decode to.
    package static func decodedCount(_ letters: Int) -> Int { letters / 4 * 3 + letters % 4 * 3 / 4 }

    /// The number of letters that `bytes` bytes encode to.
    package static func encodedCount(_ bytes: Int) -> Int { bytes / 3 * 4 + (bytes % 3 * 4 + 2) / 3 }

    private static func refuse(_ out: inout ByteBuffer, _ before: Int) -> Bool {
        out.truncate(to: before)
        return false
    }

    private static func tail(of text: RawSpan, from start: Int) -> UInt64 {
        var word = UInt64(repeatingByte: UInt8(ascii: "A"))
        for offset in start..<text.byteCount {
            let shift = UInt64(8 * (offset - start))
            word = word & ~(0xFF << shift) | UInt64(text[offset]) << shift
        }
        return word
    }

    /// The value of each ASCII letter as a character; `@`, which is 64, for those outside the alphabet. A literal, because its length is
    /// known where it is read, so no bounds are checked.
    private static var values: StaticString {
        """
        @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@>@@\
        456789:;<=@@@@@@@\u{0}\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}\u{9}\u{a}\u{b}\u{c}\u{d}\u{e}\
        \u{f}\u{10}\u{11}\u{12}\u{13}\u{14}\u{15}\u{16}\u{17}\u{18}\u{19}@@@@?\
        @\u{1a}\u{1b}\u{1c}\u{1d}\u{1e}\u{1f} !\"#$%&'()*+,-./0123@@@@@
        """
    }

    /// The bits of eight letters, the first in the lowest byte, as the upper 48 bits of a word; nil if one is outside the alphabet.
    @inline(__always)
    private static func bits(ofLetters word: UInt64, _ values: RawSpan) -> UInt64? {
        let first = quad(word, values)
        let second = quad(word >> 32, values)
        guard word & highBits == 0, (first.all | second.all) & 64 == 0 else { return nil }
        return first.bits << 40 | second.bits << 16
    }

    /// The 24 bits of the lowest four letters of `word`, and all bits that occur in their values.
    @inline(__always)
    private static func quad(_ word: UInt64, _ values: RawSpan) -> (bits: UInt64, all: UInt64) {
        let first = UInt64(values[Int(truncatingIfNeeded: word & 0x7F)])
        let second = UInt64(values[Int(truncatingIfNeeded: word >> 8 & 0x7F)])
        let third = UInt64(values[Int(truncatingIfNeeded: word >> 16 & 0x7F)])
        let fourth = UInt64(values[Int(truncatingIfNeeded: word >> 24 & 0x7F)])
        return ((first << 6 | second) << 12 | (third << 6 | fourth), first | second | third | fourth)
    }

    /// The letters for the upper 48 bits of `bits`, the first in the lowest byte.
    @inline(__always)
    private static func letters(ofBits bits: UInt64) -> UInt64 {
        var values = (bits >> 40) << 32 | (bits >> 16 & 0xFF_FFFF)
        values = (values & 0x00FF_F000_00FF_F000) << 4 | (values & 0x0000_0FFF_0000_0FFF)
        values = (values & 0x0FC0_0FC0_0FC0_0FC0) << 2 | (values & 0x003F_003F_003F_003F)
        let word =
            values &+ 65 &* ones &+ atLeast(26, values) &* 6 &- atLeast(52, values) &* 75
            &- atLeast(62, values) &* 13 &+ atLeast(63, values) &* 49
        return word.byteSwapped
    }

    /// 1 in each byte of `word` that is at least `bound`; every byte must be below 128.
    @inline(__always)
    private static func atLeast(_ bound: UInt8, _ word: UInt64) -> UInt64 {
        (word &+ UInt64(repeatingByte: 128 - bound)) >> 7 & ones
    }

    private static var ones: UInt64 { 0x0101_0101_0101_0101 }
    private static var highBits: UInt64 { 0x8080_8080_8080_8080 }
}
