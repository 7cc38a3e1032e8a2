/// The scanner's tokens: names, strings, numbers and words, each of which the end of a piece may cut.
extension JSONScanner {
    /// The name or string just scanned, unescaped; truncated if `isTooLong`. Valid until the next token is scanned. Mutating
    /// because the compiler would copy a borrowed scanner at each call.
    @_lifetime(&self, copy bytes)
    package mutating func text(_ bytes: RawSpan) -> RawSpan {
        if isSpelled { return spelled.readable }
        return bytes.extracting(textStart..<textEnd)
    }

    /// Reads the value of the name just scanned if it is a plain string, as a scalar that was asked for; otherwise `next` does.
    package mutating func readPlainValue(_ bytes: RawSpan) -> Bool {
        guard case .value = phase, bytes.byteCount &- offset >= 24 else { return false }
        let first = bytes.load16(offset)
        let start = offset &+ (first == 0x2220 ? 2 : 1)
        guard first == 0x2220 || first & 0xFF == 0x22 else { return false }
        let end = bytes.endOfPlainText(from: start)
        guard end < bytes.byteCount, bytes[end] == UInt8(ascii: "\"") else { return false }
        isString = true
        isNull = false
        offset = start
        beginText()
        textEnd = end
        offset = end &+ 1
        asksForScalar = true
        return scalarEnded()
    }

    @inline(__always)
    mutating func key(_ bytes: RawSpan) throws(JSONFault) -> JSONStep? {
        offset &+= 1
        keepsText = true
        beginText()
        phase = .inKey
        guard try readText(bytes) else { return .starved }
        return try keyEnded(bytes)
    }

    @inline(__always)
    mutating func keyEnded(_ bytes: RawSpan) throws(JSONFault) -> JSONStep? {
        if isSpelled, hasHalves { throw JSONFault(kind: .notUnicode, offset: offset) }
        if offset < bytes.byteCount, bytes[offset] == UInt8(ascii: ":") {
            offset &+= 1
            phase = .value
        } else {
            phase = .colon
        }
        guard depth < quietDepth else { return nil }
        if isSpelled { return isTooLong ? nil : .key }
        let word =
            textStart &+ 8 <= bytes.byteCount
            ? PlainWord(bytes, at: textStart) : PlainWord(name: bytes.extracting(textStart..<textEnd))
        return watchedNames &>> word.bit & 1 == 1 ? .key : nil
    }

    @inline(__always)
    mutating func beginText() {
        textStart = offset
        isSpelled = false
        isTooLong = false
        hasHalves = false
    }

    /// Reads a text up to and including its closing quote; false if the piece ends first.
    @inline(__always)
    mutating func readText(_ bytes: RawSpan) throws(JSONFault) -> Bool {
        let end = bytes.endOfPlainText(from: offset)
        if end < bytes.byteCount, bytes[end] == UInt8(ascii: "\"") {
            textEnd = end
            offset = end &+ 1
            return true
        }
        return try readSpelled(bytes, from: end)
    }

    /// The general path of `readText`: for escapes, non-ASCII scalars, and texts that the end of the piece cuts.
    mutating func readSpelled(_ bytes: RawSpan, from plainEnd: Int) throws(JSONFault) -> Bool {
        if !isSpelled {
            isSpelled = true
            spelled.removeAll()
        }
        offset = plainEnd
        while offset < bytes.byteCount {
            switch bytes[offset] {
            case UInt8(ascii: "\""):
                spell(bytes.extracting(textStart..<offset))
                offset &+= 1
                return true
            case UInt8(ascii: "\\"):
                spell(bytes.extracting(textStart..<offset))
                textStart = offset
                guard let escape = try escape(bytes) else { return cut(bytes) }
                spell(escape)
                offset &+= escape.length
                textStart = offset
            case 0x80...:
                let length = UTF8Sequence.length(in: bytes, at: offset)
                if length == 0 {
                    guard UTF8Sequence.isCut(in: bytes, at: offset) else { throw JSONFault(kind: .notUnicode, offset: offset) }
                    spell(bytes.extracting(textStart..<offset))
                    return cut(bytes)
                }
                offset &+= length
                if offset < bytes.byteCount, bytes[offset] >= 0x80 { continue }
            default: throw unexpected
            }
            offset = bytes.endOfPlainText(from: offset)
        }
        spell(bytes.extracting(textStart..<offset))
        return false
    }

    /// The escape at `offset`; nil if the piece ends within it.
    func escape(_ bytes: RawSpan) throws(JSONFault) -> JSONEscape? {
        do throws(JSONFault) {
            return try JSONEscape(in: bytes, at: offset, takesHalves: true)
        } catch {
            guard error.kind == .endsEarly else { throw error }
            return nil
        }
    }

    /// Keeps the rest of the piece, an incomplete escape or scalar, for the next one. Returns false.
    mutating func cut(_ bytes: RawSpan) -> Bool {
        fragment.removeAll()
        fragment.append(bytes.dropping(offset))
        offset = bytes.byteCount
        return false
    }

    mutating func resumeText(_ bytes: RawSpan) throws(JSONFault) -> Bool {
        while !fragment.isEmpty {
            guard offset < bytes.byteCount else { return false }
            fragment.append(bytes[offset])
            offset &+= 1
            try completeFragment()
        }
        textStart = offset
        return try readSpelled(bytes, from: bytes.endOfPlainText(from: offset))
    }

    /// Moves the fragment to `spelled` if it is a whole escape or scalar now.
    mutating func completeFragment() throws(JSONFault) {
        var whole = ByteBuffer()
        swap(&whole, &fragment)
        defer { swap(&whole, &fragment) }
        if whole.readable[0] == UInt8(ascii: "\\") {
            return try completeEscapes(&whole)
        } else {
            guard UTF8Sequence.length(in: whole.readable, at: 0) > 0 else {
                guard UTF8Sequence.isCut(in: whole.readable, at: 0) else { throw JSONFault(kind: .notUnicode, offset: offset) }
                return
            }
            spell(whole.readable)
        }
        whole.removeAll()
    }

    /// Removes the whole escapes of `text`: one, or half a surrogate pair and the escape behind it. A byte behind such a half that
    /// begins no escape is left to the piece, from which it has just come.
    private mutating func completeEscapes(_ text: inout ByteBuffer) throws(JSONFault) {
        while !text.isEmpty {
            guard text.readable[0] == UInt8(ascii: "\\") else {
                offset &-= 1
                return text.removeAll()
            }
            do throws(JSONFault) {
                let escape = try JSONEscape(in: text.readable, at: 0, takesHalves: true)
                spell(escape)
                text.discard(escape.length)
            } catch {
                guard error.kind == .endsEarly else { throw JSONFault(kind: error.kind, offset: offset) }
                return
            }
        }
    }

    mutating func spell(_ text: RawSpan) {
        guard keepsText, !text.isEmpty else { return }
        guard spelled.count + text.byteCount <= Self.maxText else { return isTooLong = true }
        spelled.append(text)
    }

    mutating func spell(_ escape: JSONEscape) {
        if escape.isHalf { hasHalves = true }
        guard keepsText, spelled.count + 4 <= Self.maxText else { return isTooLong = true }
        spelled.append(scalar: Unicode.Scalar(escape.scalar) ?? "\u{FFFD}")
    }
}

extension JSONScanner {
    /// Reads a number on; returns whether the piece has a byte after it, which alone shows that it has ended.
    mutating func readNumber(_ bytes: RawSpan) throws(JSONFault) -> Bool {
        offset = number.advance(in: bytes, from: offset)
        guard offset < bytes.byteCount else { return false }
        guard number.isWhole else { throw unexpected }
        return true
    }

    /// `word`: its letters, the first in the lowest byte.
    mutating func beginWord(_ word: UInt64, _ bytes: RawSpan) throws(JSONFault) -> Bool {
        letters = word
        phase = .inWord
        return try readWord(bytes)
    }

    mutating func readWord(_ bytes: RawSpan) throws(JSONFault) -> Bool {
        while letters != 0 {
            guard offset < bytes.byteCount else { return false }
            guard bytes[offset] == UInt8(truncatingIfNeeded: letters) else { throw unexpected }
            letters &>>= 8
            offset &+= 1
        }
        return true
    }
}

extension JSONScanner.NumberPhase {
    /// `byte` must be a digit or the minus sign.
    @inline(__always)
    init(beginning byte: UInt8) {
        self = byte == UInt8(ascii: "-") ? .minus : byte == UInt8(ascii: "0") ? .zero : .digits
    }

    /// Whether the number may end here.
    @inline(__always)
    var isWhole: Bool {
        switch self {
        case .zero, .digits, .fraction, .exponent: true
        case .minus, .point, .e, .sign: false
        }
    }

    /// Advances over the bytes that continue the number and returns the offset after them. Digits after digits and the comma
    /// at the end are checked first, since they are the usual case.
    @inline(__always)
    mutating func advance(in bytes: RawSpan, from start: Int) -> Int {
        var offset = start
        while offset < bytes.byteCount {
            let byte = bytes[offset]
            if byte == UInt8(ascii: ",") { break }
            guard let next = byte.isASCIIDigit ? afterDigit(byte) : afterSign(byte) else { break }
            self = next
            offset &+= 1
        }
        return offset
    }

    /// The phase after a digit; nil if it does not continue the number.
    @inline(__always)
    private func afterDigit(_ byte: UInt8) -> Self? {
        if case .digits = self { return self }
        switch self {
        case .digits, .fraction, .exponent: return self
        case .minus: return byte == UInt8(ascii: "0") ? .zero : .digits
        case .zero: return nil
        case .point: return .fraction
        case .e, .sign: return .exponent
        }
    }

    /// The phase after `byte`, which is no digit; nil if it does not continue the number.
    private func afterSign(_ byte: UInt8) -> Self? {
        switch (self, byte) {
        case (.zero, UInt8(ascii: ".")), (.digits, UInt8(ascii: ".")): .point
        case (.zero, UInt8(ascii: "e")), (.digits, UInt8(ascii: "e")), (.fraction, UInt8(ascii: "e")),
            (.zero, UInt8(ascii: "E")), (.digits, UInt8(ascii: "E")), (.fraction, UInt8(ascii: "E")):
            .e
        case (.e, UInt8(ascii: "+")), (.e, UInt8(ascii: "-")): .sign
        default: nil
        }
    }
}
