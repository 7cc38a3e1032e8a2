/// The fast path of the scanner, which skips unwatched members. It handles plain members only: wholly in this piece with 24
/// bytes after them, in ASCII and without escapes. Anything else is left to the general path.
extension JSONScanner {
    /// Skips plain members up to the first with a watched name, for which it returns `.key`. Returns nil, and leaves `offset`
    /// there, at the first member that is not plain.
    @inline(__always)
    mutating func skim(_ bytes: RawSpan) -> JSONStep? {
        let watched = depth < quietDepth ? watchedNames : 0
        let limit = bytes.byteCount &- 24
        phase = .key
        while offset < limit {
            let start = offset &+ 1
            let name = PlainWord(bytes, at: start)
            let end = name.isWhole ? start &+ name.count : bytes.endOfPlainText(from: start &+ 8)
            guard end < limit else { return nil }
            // The closing quote, the colon, perhaps a space, and the first byte of the value.
            let colon = bytes.load32(end)
            guard colon & 0xFFFF == 0x3A22 else { return nil }
            if watched &>> name.bit & 1 == 1 {
                isSpelled = false
                isTooLong = false
                textStart = start
                textEnd = end
                offset = end &+ 2
                phase = .value
                return .key
            }
            let isSpaced = colon & 0xFF_0000 == 0x20_0000
            let value = end &+ (isSpaced ? 3 : 2)
            let first = UInt8(truncatingIfNeeded: colon &>> (isSpaced ? 24 : 16))
            let next: Int
            switch first {
            case UInt8(ascii: "\""): next = bytes.endOfPlainString(at: value)
            case UInt8(ascii: "["):
                let isSkipped = depth < Self.maximumDepth && !(stopsAtEmptyArrays && bytes[value &+ 1] == UInt8(ascii: "]"))
                next = isSkipped ? bytes.endOfPlainArray(at: value) : 0
            default: next = bytes.endOfPlain(first, at: value)
            }
            guard next > 0, next < limit else {
                offset = value
                phase = .value
                return nil
            }
            lead = valueEnd
            valueEnd = next
            let comma = bytes.load32(next)
            if comma & 0xFFFF == 0x222C {
                offset = next &+ 1
            } else if comma & 0xFF_FFFF == 0x22_202C {
                offset = next &+ 2
            } else {
                offset = next
                phase = .afterValue
                return nil
            }
        }
        return nil
    }
}

extension RawSpan {
    /// The offset after the string at `start` if it is plain, else 0.
    @inline(__always)
    fileprivate func endOfPlainString(at start: Int) -> Int {
        let end = endOfPlainText(from: start &+ 1)
        if end < byteCount, self[end] == UInt8(ascii: "\"") { return end &+ 1 }
        return 0
    }

    /// The offset after the array at `start` if it contains plain scalars only, else 0.
    fileprivate func endOfPlainArray(at start: Int) -> Int {
        let limit = byteCount &- 24
        var offset = start &+ 1
        guard offset < limit else { return 0 }
        if self[offset] == UInt8(ascii: "]") { return offset &+ 1 }
        while offset < limit {
            let byte = self[offset]
            offset = byte == UInt8(ascii: "\"") ? endOfPlainString(at: offset) : endOfPlain(byte, at: offset)
            guard offset > 0, offset < limit else { return 0 }
            let comma = load16(offset)
            if comma & 0xFF == UInt16(UInt8(ascii: "]")) { return offset &+ 1 }
            guard comma & 0xFF == UInt16(UInt8(ascii: ",")) else { return 0 }
            offset &+= comma &>> 8 == 0x20 ? 2 : 1
        }
        return 0
    }

    /// The offset after the number or word at `start`, whose first byte is `byte`; 0 if it is neither.
    fileprivate func endOfPlain(_ byte: UInt8, at start: Int) -> Int {
        if byte.isASCIIDigit || byte == UInt8(ascii: "-") {
            var number = JSONScanner.NumberPhase(beginning: byte)
            let end = number.advance(in: self, from: start &+ 1)
            return number.isWhole && end < byteCount ? end : 0
        }
        guard byteCount &- start >= 8 else { return 0 }
        let word = load64(start) & 0xFF_FFFF_FFFF
        if word & 0xFFFF_FFFF == 0x6C6C_756E || word & 0xFFFF_FFFF == 0x6575_7274 { return start &+ 4 }
        return word == 0x65_736C_6166 ? start &+ 5 : 0
    }
}
