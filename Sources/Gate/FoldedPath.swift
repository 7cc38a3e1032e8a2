import Wire

/// The folded form of a canonical path, in which paths are equal that some frameworks route alike: letters in lower case, and without
/// slashes and blanks at the end. Express, ASP.NET and Spring match without case or the last slash; others trim blanks.
extension CanonicalPath {
    /// Whether `path` may differ from its folded form: it has an upper-case letter or an encoding, or ends with a slash or `+`. Reads
    /// eight bytes at a time, the last eight once more where they are not a whole word.
    @inline(__always)
    static func needsFolding(_ path: RawSpan) -> Bool {
        let count = path.byteCount
        guard count > 1 else { return false }
        let last = path[count - 1]
        if last == UInt8(ascii: "/") || last == UInt8(ascii: "+") { return true }
        guard count >= 8 else { return needsFoldingBytewise(path) }
        var offset = 0
        while offset < count - 8 {
            if needsFolding(path.load64(offset)) { return true }
            offset += 8
        }
        return needsFolding(path.load64(count - 8))
    }

    /// Whether one of eight bytes is an upper-case letter or `%`. Canonical paths are ASCII, so no sum carries into the next byte.
    @inline(__always)
    private static func needsFolding(_ word: UInt64) -> Bool {
        let fromA = word &+ UInt64(repeatingByte: 0x80 - UInt8(ascii: "A"))
        let beyondZ = word &+ UInt64(repeatingByte: 0x7F - UInt8(ascii: "Z"))
        let percent = (word ^ UInt64(repeatingByte: UInt8(ascii: "%"))) &+ UInt64(repeatingByte: 0x7F)
        return (fromA & ~beyondZ | ~percent) & UInt64(repeatingByte: 0x80) != 0
    }

    private static func needsFoldingBytewise(_ path: RawSpan) -> Bool {
        for offset in 0..<path.byteCount where path[offset] == UInt8(ascii: "%") || path[offset] != path[offset].lowercasedASCII {
            return true
        }
        return false
    }

    /// Appends the folded form of the canonical `path`. `keepsEnd`: of a prefix rule's path, or where only the case is folded.
    static func appendFolded(_ path: RawSpan, keepsEnd: Bool = false, to out: inout ByteBuffer) {
        var end = path.byteCount
        while !keepsEnd, end > 1 {
            let shorter = path[end - 1] == UInt8(ascii: "/") ? end - 1 : endOfBlank(path, before: end)
            if shorter == end { break }
            end = max(shorter, 1)
        }
        var offset = 0
        while offset < end {
            if path[offset] == UInt8(ascii: "%"), let letter = encodedLetter(path.extracting(offset..<end)) {
                append(folded(letter.scalar), to: &out)
                offset += letter.width
            } else {
                out.append(path[offset].lowercasedASCII)
                offset += 1
            }
        }
    }

    /// The character outside of ASCII whose UTF-8 is encoded at the start of `rest`, and the length of its encoding.
    private static func encodedLetter(_ rest: RawSpan) -> (scalar: Unicode.Scalar, width: Int)? {
        guard let first = encodedByte(rest, 0), first >= 0xC2, first < 0xF5 else { return nil }
        let count = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4
        var value = UInt32(first) & (0x7F >> UInt32(count))
        for index in 1..<count {
            guard let byte = encodedByte(rest, index), byte & 0xC0 == 0x80 else { return nil }
            value = value << 6 | UInt32(byte & 0x3F)
        }
        // The longer encodings of a character, which are malformed, stay as they are.
        guard let scalar = Unicode.Scalar(value), UTF8.width(scalar) == count else { return nil }
        return (scalar, 3 * count)
    }

    private static func encodedByte(_ rest: RawSpan, _ index: Int) -> UInt8? {
        guard rest.byteCount >= 3 * index + 3, rest[3 * index] == UInt8(ascii: "%"), let high = rest[3 * index + 1].hexValue,
            let low = rest[3 * index + 2].hexValue
        else { return nil }
        return high << 4 | low
    }

    /// The lower case of a letter's upper case, where both are single characters, as frameworks compare characters without case. So are
    /// the Kelvin sign `k`, the long s `s` and both sigmas equal; the Turkish letters are both `i`.
    static func folded(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        if scalar == "\u{130}" { return "i" }
        return single(single(scalar) { $0.uppercaseMapping }) { $0.lowercaseMapping }
    }

    private static func single(_ scalar: Unicode.Scalar, _ mapping: (Unicode.Scalar.Properties) -> String) -> Unicode.Scalar {
        let mapped = mapping(scalar.properties).unicodeScalars
        return mapped.count == 1 ? mapped.first ?? scalar : scalar
    }

    private static func append(_ scalar: Unicode.Scalar, to out: inout ByteBuffer) {
        if scalar.isASCII { return out.append(UInt8(scalar.value)) }
        for byte in UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter {
            out.append(UInt8(ascii: "%"))
            for digit in [byte >> 4, byte & 15] { out.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "A") + digit - 10) }
        }
    }

    /// The end of `path` up to `end` without the blank there; `end` if there is none. Blanks are the encoded controls and spaces of
    /// ASCII, `+`, and the encoded spaces of Unicode.
    private static func endOfBlank(_ path: RawSpan, before end: Int) -> Int {
        if path[end - 1] == UInt8(ascii: "+") { return end - 1 }
        for width in stride(from: 3, through: 9, by: 3) where end > width && path[end - width] == UInt8(ascii: "%") {
            if isBlank(path.extracting(end - width..<end)) { return end - width }
        }
        return end
    }

    /// Whether `text`, one encoding or several, is that of a single blank.
    private static func isBlank(_ text: RawSpan) -> Bool {
        switch text.byteCount {
        case 3: return text[1] < UInt8(ascii: "2") || text.equals("%20") || text.equals("%7F")
        case 6: return text.equals("%C2%85") || text.equals("%C2%A0")
        default:
            if text.hasPrefix("%E2%80%") {
                guard let last = text[8].hexValue else { return false }
                // U+2000 to U+200B, U+2028, U+2029 and U+202F.
                return text[7] == UInt8(ascii: "8") && last <= 11
                    || text[7] == UInt8(ascii: "A") && (last == 8 || last == 9 || last == 15)
            }
            return text.equals("%E1%9A%80") || text.equals("%E2%81%9F") || text.equals("%E3%80%80") || text.equals("%EF%BB%BF")
        }
    }
}
