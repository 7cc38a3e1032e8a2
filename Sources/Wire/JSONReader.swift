/// A JSON syntax error and the offset of the offending byte.
package struct JSONFault: Error, Equatable, Sendable {
    package enum Kind: Equatable, Sendable {
        /// The text ends inside a value.
        case endsEarly
        /// A byte that the grammar does not allow there.
        case unexpectedByte
        /// A string that is not UTF-8, or an escape that is no Unicode scalar.
        case notUnicode
        /// More open arrays and objects than the reader's maximum depth.
        case tooDeep
        /// More bytes than fit 32-bit offsets.
        case tooLong
    }

    package var kind: Kind
    package var offset: Int
}

/// The contents of a JSON string, without its quotes, and whether they contain escapes.
package struct JSONText: Equatable, Sendable {
    package var slice: Slice
    package var hasEscapes: Bool
    /// Whether an escape is half a surrogate pair: the string is no Unicode text then, and equals none.
    package var hasHalves = false
}

/// A token of `JSONReader`.
package enum JSONToken: Equatable, Sendable {
    case beginObject, endObject, beginArray, endArray
    /// A member's name; its value comes next.
    case key(JSONText)
    case string(JSONText)
    /// The source of a number, which follows the grammar.
    case number(Slice)
    case bool(Bool)
    case null
    /// The text has ended after one complete value; only white space followed.
    case end
}

/// A strict pull reader over one complete JSON text (RFC 8259): no comments, no trailing commas, UTF-8 only,
/// without a byte order mark. Half a surrogate pair is a fault in a name, and in a string unless the reader takes halves.
///
/// Duplicate keys are all returned, so that a caller can refuse them. Each byte is read once; nothing is copied or allocated.
/// After a fault every further call throws the same fault.
package struct JSONReader: ~Escapable {
    /// The text; the slices in tokens refer to it.
    package let bytes: RawSpan
    /// The maximum number of open arrays and objects.
    let maximumDepth: Int
    private let takesHalves: Bool
    /// Arrays and objects open now.
    package private(set) var depth = 0
    /// The offset of the first unread byte.
    package private(set) var offset = 0
    /// One bit per open container, the innermost lowest: 1 for an object.
    private var containers: UInt64 = 0
    private var expects = Expectation.value
    private var fault: JSONFault?

    /// The state of the parser: which tokens the grammar allows next.
    private enum Expectation {
        case value
        /// After `{`: a key or `}`.
        case firstKey
        /// After `[`: a value or `]`.
        case firstElement
        /// After a value: a comma, the end of its container, or the end of the text.
        case afterValue
    }

    /// A reader at the start of `bytes` that follows at most `maximumDepth` (1 to 64) open arrays and objects. With `takesHalves` it
    /// hands out strings that hold half a surrogate pair, for a caller that looks at `hasHalves`.
    @_lifetime(copy bytes)
    package init(_ bytes: RawSpan, maximumDepth: Int = 32, takesHalves: Bool = false) {
        precondition((1...64).contains(maximumDepth))
        self.bytes = bytes
        self.maximumDepth = maximumDepth
        self.takesHalves = takesHalves
        if bytes.byteCount > Int(Int32.max) { fault = JSONFault(kind: .tooLong, offset: 0) }
    }

    /// The next token; after `.end` it stays `.end`.
    @_lifetime(self: copy self)
    package mutating func next() throws(JSONFault) -> JSONToken {
        if let fault { throw fault }
        do {
            return try step()
        } catch {
            fault = error
            throw error
        }
    }

    /// Skips one whole value and validates it like any other. Call it only where a value comes next: after a key, or for an
    /// array element that is known to exist.
    @_lifetime(self: copy self)
    package mutating func skipValue() throws(JSONFault) {
        let outer = depth
        repeat { _ = try next() } while depth > outer
    }

    @_lifetime(self: copy self)
    private mutating func step() throws(JSONFault) -> JSONToken {
        skipWhiteSpace()
        switch expects {
        case .value: return try value()
        case .firstKey: return peek() == UInt8(ascii: "}") ? close() : try key()
        case .firstElement: return peek() == UInt8(ascii: "]") ? close() : try value()
        case .afterValue: return try afterValue()
        }
    }

    @_lifetime(self: copy self)
    private mutating func afterValue() throws(JSONFault) -> JSONToken {
        guard depth > 0 else {
            if offset < bytes.byteCount { throw unexpected() }
            return .end
        }
        let inObject = containers & 1 == 1
        switch peek() {
        case UInt8(ascii: ","):
            offset += 1
            skipWhiteSpace()
            return inObject ? try key() : try value()
        case UInt8(ascii: "}") where inObject, UInt8(ascii: "]") where !inObject:
            return close()
        default:
            throw unexpected()
        }
    }

    @_lifetime(self: copy self)
    private mutating func value() throws(JSONFault) -> JSONToken {
        guard let byte = peek() else { throw unexpected() }
        switch byte {
        case UInt8(ascii: "{"): return try open(object: true)
        case UInt8(ascii: "["): return try open(object: false)
        case UInt8(ascii: "\""):
            expects = .afterValue
            return .string(try text(takesHalves: takesHalves))
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            expects = .afterValue
            return .number(try number())
        case UInt8(ascii: "t"): return try literal("true", .bool(true))
        case UInt8(ascii: "f"): return try literal("false", .bool(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        default: throw unexpected()
        }
    }

    @_lifetime(self: copy self)
    private mutating func open(object: Bool) throws(JSONFault) -> JSONToken {
        guard depth < maximumDepth else { throw JSONFault(kind: .tooDeep, offset: offset) }
        offset += 1
        depth += 1
        containers = containers << 1 | (object ? 1 : 0)
        expects = object ? .firstKey : .firstElement
        return object ? .beginObject : .beginArray
    }

    @_lifetime(self: copy self)
    private mutating func close() -> JSONToken {
        let wasObject = containers & 1 == 1
        offset += 1
        depth -= 1
        containers >>= 1
        expects = .afterValue
        return wasObject ? .endObject : .endArray
    }

    /// A member's name and the colon after it.
    @_lifetime(self: copy self)
    private mutating func key() throws(JSONFault) -> JSONToken {
        guard peek() == UInt8(ascii: "\"") else { throw unexpected() }
        let name = try text(takesHalves: false)
        skipWhiteSpace()
        guard peek() == UInt8(ascii: ":") else { throw unexpected() }
        offset += 1
        expects = .value
        return .key(name)
    }

    @_lifetime(self: copy self)
    private mutating func literal(_ word: StaticString, _ token: JSONToken) throws(JSONFault) -> JSONToken {
        let letters = unsafe word.utf8Start
        for index in 0..<word.utf8CodeUnitCount {
            guard peek() == (unsafe letters[index]) else { throw unexpected() }
            offset += 1
        }
        expects = .afterValue
        return token
    }

    /// A string, both quotes included.
    @_lifetime(self: copy self)
    private mutating func text(takesHalves: Bool) throws(JSONFault) -> JSONText {
        let start = offset + 1
        var hasEscapes = false
        var hasHalves = false
        offset = start
        while true {
            offset = bytes.endOfPlainText(from: offset)
            guard let byte = peek() else { throw unexpected() }
            switch byte {
            case UInt8(ascii: "\""):
                offset += 1
                return JSONText(slice: Slice(start: start, count: offset - 1 - start), hasEscapes: hasEscapes, hasHalves: hasHalves)
            case UInt8(ascii: "\\"):
                hasEscapes = true
                let escape = try JSONEscape(in: bytes, at: offset, takesHalves: takesHalves)
                if escape.isHalf { hasHalves = true }
                offset += escape.length
            case 0x80...:
                let length = UTF8Sequence.length(in: bytes, at: offset)
                guard length > 0 else { throw JSONFault(kind: .notUnicode, offset: offset) }
                offset += length
            default:
                throw unexpected()
            }
        }
    }

    /// `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
    @_lifetime(self: copy self)
    private mutating func number() throws(JSONFault) -> Slice {
        let start = offset
        if peek() == UInt8(ascii: "-") { offset += 1 }
        if peek() == UInt8(ascii: "0") { offset += 1 } else { try digits() }
        if peek() == UInt8(ascii: ".") {
            offset += 1
            try digits()
        }
        if let byte = peek(), byte | 0x20 == UInt8(ascii: "e") {
            offset += 1
            if let sign = peek(), sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { offset += 1 }
            try digits()
        }
        return Slice(start: start, count: offset - start)
    }

    /// One digit or more.
    @_lifetime(self: copy self)
    private mutating func digits() throws(JSONFault) {
        let start = offset
        while let byte = peek(), byte.isASCIIDigit { offset += 1 }
        if offset == start { throw unexpected() }
    }

    @_lifetime(self: copy self)
    private mutating func skipWhiteSpace() {
        while let byte = peek(), byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { offset += 1 }
    }

    private func peek() -> UInt8? { offset < bytes.byteCount ? bytes[offset] : nil }

    private func unexpected() -> JSONFault {
        JSONFault(kind: offset < bytes.byteCount ? .unexpectedByte : .endsEarly, offset: offset)
    }
}
