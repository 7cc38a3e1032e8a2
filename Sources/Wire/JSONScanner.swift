/// Where a walk over JSON text has stopped.
package enum JSONStep: UInt8, Sendable {
    /// All bytes have been read, and more must come.
    case starved
    case beginObject, endObject, beginArray, endArray
    /// A name that is watched, or one that may be; its value comes next.
    case key
    /// A string, number or word that was asked for.
    case scalar
    /// The comma between two members or elements, or the line feed between two lines, that was asked for.
    case separator
}

/// A strict walk over JSON text (RFC 8259) that arrives in pieces, cut anywhere: what `JSONReader` is for a whole text.
///
/// It stops only where its user may have something to do; names, scalars and commas that nobody asked for, and arrays that
/// hold nothing else, are checked and passed over. It keeps none of the text but names and strings that were cut or escaped,
/// the first 255 bytes of them. Offsets are those of the piece that was handed in. After a fault it must not be asked again.
package struct JSONScanner: ~Copyable {
    /// Arrays and objects that may be open at once.
    package static let maximumDepth = 128
    /// Of a text that is not read in place, so many bytes are kept.
    package static let longestText = 255

    /// The names that are worth stopping at, as the bits of their first words.
    var watchedNames: UInt64 = 0
    /// Stop behind the next scalar, if one comes before anything else.
    package var asksForScalar = false
    /// Stop behind the next comma of this container.
    package var asksForSeparator = false
    /// Nothing at this depth or below is worth stopping at.
    package var quietDepth = Int.max
    /// One JSON text in each line, with no line feed inside.
    package let isLines: Bool

    /// The first byte of the piece that is not read.
    package internal(set) var offset = 0
    /// Where the latest value ended, or the bracket of the container that has none yet; below 0 in an earlier piece.
    package var valueEnd = 0
    /// What `valueEnd` was before the latest value: the comma and the name that belong to it stand in between.
    package internal(set) var lead = 0
    /// Arrays and objects open now.
    package internal(set) var depth = 0
    /// Whether the scalar just read is a string.
    package internal(set) var isString = false
    /// Whether the scalar just read is `null`.
    package internal(set) var isNull = false

    var phase = Phase.value
    var number = NumberPhase.minus
    /// Of the word being read, the letters to come.
    var letters: UInt64 = 0
    /// One bit per depth: 1 for an object.
    var shallow: UInt64 = 0
    var deep: UInt64 = 0
    var isInObject = false

    /// Where the text being read begins, or what of it is not yet in `spelled`.
    var textStart = 0
    var textEnd = 0
    var keepsText = false
    /// Whether the text is in `spelled`, for it was cut or has escapes.
    var isSpelled = false
    /// Whether the text just read was too long to be kept.
    package internal(set) var isTooLong = false
    var spelled = ByteBuffer()
    /// The beginning of an escape or of a scalar above ASCII, cut by the end of a piece.
    var fragment = ByteBuffer()

    enum Phase: UInt8 {
        case value, firstKey, key, colon, firstElement, afterValue
        case inKey, inString, inNumber, inWord
    }

    /// What has been read of a number: `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
    enum NumberPhase: UInt8 {
        case minus, zero, digits, point, fraction, e, sign, exponent
    }

    package init(isLines: Bool = false) { self.isLines = isLines }

    // MARK: pieces

    /// The next piece of the text is at hand.
    package mutating func beginPiece() { offset = 0 }

    /// A piece of `count` bytes has been read to its end.
    package mutating func endPiece(_ count: Int) {
        valueEnd -= count
        lead -= count
        offset = 0
    }

    /// Whether the latest byte lies inside a scalar that nobody asked for.
    package var isInsideScalar: Bool {
        switch phase {
        case .inString, .inNumber, .inWord: !asksForScalar
        case .value, .firstKey, .key, .colon, .firstElement, .afterValue, .inKey: false
        }
    }

    /// Whether nothing but white space has come, or nothing else behind the last line.
    package var isBlank: Bool { if case .value = phase { depth == 0 } else { false } }

    /// The text is over.
    package mutating func end() throws(JSONFault) {
        if case .inNumber = phase, depth == 0, number.isWhole { phase = .afterValue }
        var isBetween = isLines && isBlank
        if case .afterValue = phase { isBetween = true }
        guard depth == 0, isBetween else { throw JSONFault(kind: .endsEarly, offset: offset) }
    }

    // MARK: steps

    /// Reads on in `bytes`, the piece at hand, to where something is worth stopping at.
    package mutating func next(_ bytes: RawSpan) throws(JSONFault) -> JSONStep {
        if phase.rawValue >= Phase.inKey.rawValue, let step = try resume(bytes) { return step }
        while true {
            guard try skipWhiteSpace(bytes) else { return .starved }
            let byte = bytes[offset]
            switch phase {
            case .value:
                if let step = try value(byte, bytes) { return step }
            case .firstElement:
                if byte == UInt8(ascii: "]") {
                    if let step = close() { return step }
                } else if let step = try value(byte, bytes) {
                    return step
                }
            case .firstKey where byte == UInt8(ascii: "}"):
                if let step = close() { return step }
            case .firstKey, .key:
                guard byte == UInt8(ascii: "\"") else { throw unexpected }
                let start = offset
                if !asksForSeparator, let step = skim(bytes) { return step }
                if offset == start, let step = try key(bytes) { return step }
            case .colon:
                guard byte == UInt8(ascii: ":") else { throw unexpected }
                offset &+= 1
                phase = .value
            case .afterValue:
                if let step = try afterValue(byte) { return step }
            case .inKey, .inString, .inNumber, .inWord: preconditionFailure("inside a token")
            }
        }
    }

    /// Goes on inside a token that the end of a piece cut.
    mutating func resume(_ bytes: RawSpan) throws(JSONFault) -> JSONStep? {
        switch phase {
        case .inKey:
            guard try resumeText(bytes) else { return .starved }
            return keyEnded(bytes)
        case .inString:
            guard try resumeText(bytes) else { return .starved }
        case .inNumber:
            guard try readNumber(bytes) else { return .starved }
        case .inWord:
            guard try readWord(bytes) else { return .starved }
        case .value, .firstKey, .key, .colon, .firstElement, .afterValue: return nil
        }
        return scalarEnded() ? .scalar : nil
    }

    @inline(__always)
    mutating func value(_ byte: UInt8, _ bytes: RawSpan) throws(JSONFault) -> JSONStep? {
        let isRead: Bool
        switch byte {
        case UInt8(ascii: "\""):
            offset &+= 1
            isString = true
            isNull = false
            keepsText = asksForScalar
            beginText()
            phase = .inString
            isRead = try readText(bytes)
        case UInt8(ascii: "{"): return try open(object: true)
        case UInt8(ascii: "["): return try open(object: false)
        default:
            isRead = try beginPlain(byte, bytes)
        }
        guard isRead else { return .starved }
        return scalarEnded() ? .scalar : nil
    }

    /// Begins a number or a word; answers whether it is read to its end.
    mutating func beginPlain(_ byte: UInt8, _ bytes: RawSpan) throws(JSONFault) -> Bool {
        isString = false
        isNull = byte == UInt8(ascii: "n")
        switch byte {
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            phase = .inNumber
            number = NumberPhase(beginning: byte)
            offset &+= 1
            return try readNumber(bytes)
        case UInt8(ascii: "t"): return try beginWord(0x65_7572_74, bytes)
        case UInt8(ascii: "f"): return try beginWord(0x65_736C_6166, bytes)
        case UInt8(ascii: "n"): return try beginWord(0x6C_6C75_6E, bytes)
        default: throw unexpected
        }
    }

    /// Whether the scalar that has been read was asked for.
    @inline(__always)
    mutating func scalarEnded() -> Bool {
        phase = .afterValue
        lead = valueEnd
        valueEnd = offset
        guard asksForScalar else { return false }
        asksForScalar = false
        return depth < quietDepth
    }

    mutating func open(object: Bool) throws(JSONFault) -> JSONStep? {
        guard depth < Self.maximumDepth else { throw JSONFault(kind: .tooDeep, offset: offset) }
        let bit = 1 as UInt64 &<< UInt64(truncatingIfNeeded: depth)
        if depth < 64 { shallow = object ? shallow | bit : shallow & ~bit } else { deep = object ? deep | bit : deep & ~bit }
        depth &+= 1
        isInObject = object
        asksForScalar = false
        offset &+= 1
        lead = valueEnd
        valueEnd = offset
        phase = object ? .firstKey : .firstElement
        guard depth < quietDepth else { return nil }
        return object ? .beginObject : .beginArray
    }

    @inline(__always)
    mutating func close() -> JSONStep? {
        let wasObject = isInObject
        offset &+= 1
        depth &-= 1
        let outer = depth &- 1
        isInObject = depth > 0 && (outer < 64 ? shallow : deep) &>> UInt64(truncatingIfNeeded: outer) & 1 == 1
        asksForSeparator = false
        asksForScalar = false
        valueEnd = offset
        phase = .afterValue
        guard depth < quietDepth else { return nil }
        return wasObject ? .endObject : .endArray
    }

    @inline(__always)
    mutating func afterValue(_ byte: UInt8) throws(JSONFault) -> JSONStep? {
        let separator = depth > 0 ? UInt8(ascii: ",") : UInt8(ascii: "\n")
        if byte == separator {
            guard depth > 0 || isLines else { throw unexpected }
            offset &+= 1
            phase = isInObject ? .key : .value
            guard asksForSeparator else { return nil }
            asksForSeparator = false
            return .separator
        }
        guard depth > 0, byte == (isInObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else { throw unexpected }
        return close()
    }

    /// Whether there is a byte that is no white space. In lines, a line feed stands between texts and nowhere else.
    @inline(__always)
    mutating func skipWhiteSpace(_ bytes: RawSpan) throws(JSONFault) -> Bool {
        while offset < bytes.byteCount {
            let byte = bytes[offset]
            if byte > 0x20 { return true }
            guard byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { throw unexpected }
            if isLines, byte == 0x0A {
                guard depth == 0 else { throw unexpected }
                if case .afterValue = phase { return true }
            }
            offset &+= 1
            while offset &+ 8 <= bytes.byteCount, bytes.load64(offset) == 0x2020_2020_2020_2020 { offset &+= 8 }
        }
        return false
    }

    /// From now on, stops at every name.
    package mutating func watchEverything() { watchedNames = .max }

    /// From now on, stops at this name.
    package mutating func watch(_ name: RawSpan) { watchedNames |= 1 &<< PlainWord(name: name).bit }

    var unexpected: JSONFault { JSONFault(kind: .unexpectedByte, offset: offset) }
}
