/// The event at which `JSONScanner` stops.
package enum JSONStep: UInt8, Sendable {
    /// The piece has been read to its end; the next one is needed.
    case starved
    case beginObject, endObject, beginArray, endArray
    /// A watched name, or one with the same hash; its value comes next.
    case key
    /// The string, number or word that the caller asked for.
    case scalar
    /// The comma between members or elements, or the line feed between lines, that the caller asked for.
    case separator
}

/// A strict streaming JSON scanner (RFC 8259): takes a text in pieces that may be cut anywhere. For whole texts there is
/// `JSONReader`.
///
/// It stops only at containers, watched names, and the scalar or separator that its caller asked for. Everything else is
/// validated and skipped. Of the text it copies only names and strings that were cut or escaped, up to 255 bytes of each.
/// Offsets are relative to the current piece. After a fault it must not be called again.
package struct JSONScanner: ~Copyable {
    /// The maximum number of open arrays and objects.
    package static let maximumDepth = 128
    /// The maximum number of bytes copied of a name or string that was cut or escaped.
    package static let maxText = 255

    /// The names to stop at: a 64-bit set of `PlainWord.bit`. A collision only costs the caller a comparison.
    var watchedNames: UInt64 = 0
    /// Stop after the next value if it is a scalar. Reset by that value.
    package var asksForScalar = false
    /// Stop after the next comma of this container. Reset by it, or by the end of the container.
    package var asksForSeparator = false
    /// No stops at this depth or deeper.
    package var quietDepth = Int.max
    /// Stop at empty arrays, too, which are otherwise skipped where they are plain.
    package var stopsAtEmptyArrays = false
    /// One JSON text in each line, with no line feed inside.
    package let isLines: Bool

    /// The offset of the first unread byte of the piece.
    package internal(set) var offset = 0
    /// The offset after the latest value, or after the opening bracket of a container without one yet; negative if that was in
    /// an earlier piece.
    package var valueEnd = 0
    /// `valueEnd` before the latest value: that value's comma and name start here.
    package internal(set) var lead = 0
    /// Arrays and objects open now.
    package internal(set) var depth = 0
    /// Whether the scalar just read is a string.
    package internal(set) var isString = false
    /// Whether the scalar just read is `null`.
    package internal(set) var isNull = false

    var phase = Phase.value
    var number = NumberPhase.minus
    /// The letters still expected of `true`, `false` or `null`, the next in the lowest byte.
    var letters: UInt64 = 0
    /// One bit per depth: 1 for an object.
    var shallow: UInt64 = 0
    var deep: UInt64 = 0
    var isInObject = false

    /// The start of the current name or string, or of the part that is not yet in `spelled`.
    var textStart = 0
    var textEnd = 0
    var keepsText = false
    /// Whether the text is in `spelled` because it was cut or has escapes.
    var isSpelled = false
    /// Whether the text just read exceeded `maxText`.
    package internal(set) var isTooLong = false
    /// Whether the string just read holds half a surrogate pair; in a name that is a fault.
    package internal(set) var hasHalves = false
    var spelled = ByteBuffer()
    /// The first bytes of an escape or of a non-ASCII scalar that the end of a piece has cut.
    var fragment = ByteBuffer()

    enum Phase: UInt8 {
        case value, firstKey, key, colon, firstElement, afterValue
        case inKey, inString, inNumber, inWord
    }

    /// The position inside a number: `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
    enum NumberPhase: UInt8 {
        case minus, zero, digits, point, fraction, e, sign, exponent
    }

    package init(isLines: Bool = false) { self.isLines = isLines }

    // MARK: pieces

    /// Begins the next piece of the text.
    package mutating func beginPiece() { offset = 0 }

    /// Ends a piece of `count` bytes, all of them read.
    package mutating func endPiece(_ count: Int) {
        valueEnd -= count
        lead -= count
        offset = 0
    }

    /// Whether the latest byte is inside a scalar that the caller did not ask for.
    package var isInsideScalar: Bool {
        switch phase {
        case .inString, .inNumber, .inWord: !asksForScalar
        case .value, .firstKey, .key, .colon, .firstElement, .afterValue, .inKey: false
        }
    }

    /// Whether only white space has come, in the text or since the last line feed between texts.
    package var isBlank: Bool { if case .value = phase { depth == 0 } else { false } }

    /// Ends the text; throws `endsEarly` inside a value.
    package mutating func end() throws(JSONFault) {
        if case .inNumber = phase, depth == 0, number.isWhole { phase = .afterValue }
        var isBetween = isLines && isBlank
        if case .afterValue = phase { isBetween = true }
        guard depth == 0, isBetween else { throw JSONFault(kind: .endsEarly, offset: offset) }
    }

    // MARK: steps

    /// Scans `bytes`, the current piece, up to the next stop.
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

    /// Continues a token that the end of the last piece has cut.
    mutating func resume(_ bytes: RawSpan) throws(JSONFault) -> JSONStep? {
        switch phase {
        case .inKey:
            guard try resumeText(bytes) else { return .starved }
            return try keyEnded(bytes)
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

    /// Begins a number or a word; returns whether its end is in this piece.
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

    /// Ends a scalar; returns whether the caller asked for it.
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

    /// Skips white space; returns whether another byte follows in the piece. In `isLines` mode a line feed may stand only
    /// between texts.
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
            // One space is usual; many stand in texts that are indented.
            if offset < bytes.byteCount, bytes[offset] > 0x20 { return true }
            while offset &+ 8 <= bytes.byteCount, bytes.load64(offset) == 0x2020_2020_2020_2020 { offset &+= 8 }
        }
        return false
    }

    /// Stops at this name, too, from now on.
    package mutating func watch(_ name: RawSpan) { watchedNames |= 1 &<< PlainWord(name: name).bit }

    var unexpected: JSONFault { JSONFault(kind: .unexpectedByte, offset: offset) }
}
