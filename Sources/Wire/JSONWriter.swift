/// Appends `bytes` as a JSON string, quotes included. The only function in the tree that escapes JSON.
///
/// Escapes quotes, backslashes and control characters, those of C1 and of bidirectional text included, because logs are read in
/// terminals. Each byte that is not part of valid UTF-8 becomes U+FFFD, so that
/// arbitrary bytes from a peer still produce valid JSON.
package func appendJSONString(_ bytes: RawSpan, into out: inout ByteBuffer) {
    let count = bytes.byteCount
    out.reserve(count + 2)
    out.append(UInt8(ascii: "\""))
    var offset = 0
    while true {
        let end = bytes.endOfPlainText(from: offset)
        out.append(bytes.extracting(offset..<end))
        guard end < count else { break }
        offset = end + appendSpecial(bytes, at: end, into: &out)
    }
    out.append(UInt8(ascii: "\""))
}

/// Appends the byte or scalar at `offset`, escaped if need be; returns how many bytes of the source that was.
private func appendSpecial(_ bytes: RawSpan, at offset: Int, into out: inout ByteBuffer) -> Int {
    switch bytes[offset] {
    case UInt8(ascii: "\""): out.append("\\\"")
    case UInt8(ascii: "\\"): out.append("\\\\")
    case 0x0A: out.append("\\n")
    case 0x0D: out.append("\\r")
    case 0x09: out.append("\\t")
    case 0x00..<0x20:
        out.append("\\u")
        out.append(hex: UInt64(bytes[offset]), digits: 4)
    default:
        let length = UTF8Sequence.length(in: bytes, at: offset)
        if length == 0 {
            out.append("\u{FFFD}")
        } else if let scalar = UTF8Sequence.scalar(in: bytes, at: offset, length), scalar.isControl {
            out.append("\\u")
            out.append(hex: UInt64(scalar.value), digits: 4)
        } else {
            out.append(bytes.extracting(offset..<offset + length))
        }
        return max(length, 1)
    }
    return 1
}

/// Writer of one JSON text. It places commas; the caller closes the objects and arrays that it opens.
///
///     JSONWriter.append(to: &out) { json in
///         json.beginObject()
///         json.field("code", "NOT_FOUND")
///         json.endObject()
///     }
///
/// Allocates nothing beyond what the buffer needs to grow.
package struct JSONWriter: ~Copyable {
    private var out: ByteBuffer
    /// Whether the next key or element needs a comma before it.
    private var needsComma = false

    /// A writer into a buffer of its own; `finish()` returns it.
    package init() { out = ByteBuffer(capacity: 256) }

    private init(_ out: consuming ByteBuffer) { self.out = out }

    /// The text.
    package consuming func finish() -> ByteBuffer { out }

    /// Calls `body` with a writer that appends to `buffer`.
    package static func append(to buffer: inout ByteBuffer, _ body: (inout JSONWriter) -> Void) {
        var writer = JSONWriter(exchange(&buffer, with: ByteBuffer()))
        body(&writer)
        buffer = writer.finish()
    }

    package mutating func beginObject() { open(UInt8(ascii: "{")) }
    package mutating func endObject() { close(UInt8(ascii: "}")) }
    package mutating func beginArray() { open(UInt8(ascii: "[")) }
    package mutating func endArray() { close(UInt8(ascii: "]")) }

    /// A member's name; its value comes next.
    package mutating func key(_ name: StaticString) { key(name.rawBytes) }

    @_disfavoredOverload
    package mutating func key(_ name: String) { name.withRawBytes { key($0) } }

    package mutating func key(_ name: RawSpan) {
        separate()
        appendJSONString(name, into: &out)
        out.append(UInt8(ascii: ":"))
        needsComma = false
    }

    package mutating func string(_ text: RawSpan) {
        separate()
        appendJSONString(text, into: &out)
    }

    package mutating func string(_ text: StaticString) { string(text.rawBytes) }
    @_disfavoredOverload
    package mutating func string(_ text: String) { text.withRawBytes { string($0) } }

    package mutating func number(_ value: Int) {
        separate()
        out.append(decimal: value)
    }

    package mutating func number(_ value: UInt64) {
        separate()
        out.append(decimal: value)
    }

    package mutating func bool(_ value: Bool) {
        separate()
        out.append(value ? "true" as StaticString : "false")
    }

    package mutating func null() {
        separate()
        out.append("null")
    }

    /// A value that is valid JSON already, for example one that a JSONReader accepted.
    package mutating func verbatim(_ json: RawSpan) {
        separate()
        out.append(json)
    }

    private mutating func open(_ bracket: UInt8) {
        separate()
        out.append(bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: UInt8) {
        out.append(bracket)
        needsComma = true
    }

    private mutating func separate() {
        if needsComma { out.append(UInt8(ascii: ",")) }
        needsComma = true
    }
}

extension JSONWriter {
    /// A member that is omitted if `text` is nil.
    package mutating func optional(_ name: StaticString, _ text: String?) {
        if let text { field(name, text) }
    }

    /// A member that is an array; `each` writes one value for each element.
    package mutating func array<Element>(_ name: StaticString, _ elements: [Element], _ each: (inout JSONWriter, Element) -> Void) {
        key(name)
        beginArray()
        for element in elements { each(&self, element) }
        endArray()
    }

    package mutating func field(_ name: StaticString, _ text: StaticString) {
        key(name)
        string(text)
    }

    @_disfavoredOverload
    package mutating func field(_ name: StaticString, _ text: String) {
        key(name)
        string(text)
    }

    package mutating func field(_ name: StaticString, _ text: RawSpan) {
        key(name)
        string(text)
    }

    package mutating func field(_ name: StaticString, _ value: Int) {
        key(name)
        number(value)
    }

    package mutating func field(_ name: StaticString, _ value: Bool) {
        key(name)
        bool(value)
    }
}
