public import Wire

/// The gateway's changes to the fields of a message that it forwards: fields to add and fields to remove.
///
/// Gate gives names and values and does not know the wire form. Inside, added fields are HTTP/1 field lines, which HTTP/1 appends
/// whole. HTTP/2 walks them with `forEach`, which finds the ends of name and value by two scans of some 200 bytes. Slices are not
/// kept beside the lines: they would cost each HTTP/1 request a table, and `append(rendered:)` would have to rebase it.
@frozen
public struct FieldEdits: ~Copyable {
    @usableFromInline var lines = ByteBuffer()
    @usableFromInline var removed: UInt64 = 0
    /// Fields of the message that are removed by no `FieldName`: as bits, those of CORS and `Strict-Transport-Security`.
    @usableFromInline var lost: UInt8 = 0
    @usableFromInline var names: FieldNames?

    /// No changes.
    @inlinable public init() {}

    /// Memory that is kept for the next message, in bytes; more is freed.
    @usableFromInline static var maxKept: Int { 16_384 }

    @inlinable public mutating func removeAll() {
        if lines.capacity > Self.maxKept { lines = ByteBuffer() } else { lines.removeAll() }
        removed = 0
        lost = 0
        if names != nil { names = nil }
    }

    // MARK: adding

    /// Adds a field and returns the slice of its value, for the subscript. The caller guarantees a value without control characters.
    @discardableResult
    public mutating func add(_ name: StaticString, _ value: RawSpan) -> Slice {
        begin(name)
        let slice = Slice(start: lines.count, count: value.byteCount)
        lines.append(value)
        end()
        return slice
    }

    public mutating func add(_ name: StaticString, _ value: StaticString) {
        begin(name)
        lines.append(value)
        end()
    }

    public mutating func add(_ name: StaticString, decimal value: Int) {
        begin(name)
        lines.append(decimal: value)
        end()
    }

    /// Adds a field of foreign origin. One with a control character in its name or value is left out: a line break would inject
    /// fields.
    ///
    /// - Returns: whether it was added.
    @discardableResult
    public mutating func add(_ name: String, _ value: String) -> Bool {
        guard Self.isOneLine(name), Self.isOneLine(value) else { return false }
        lines.append(name)
        lines.append(": " as StaticString)
        lines.append(value)
        end()
        return true
    }

    private static func isOneLine(_ text: String) -> Bool { !text.utf8.contains { $0 < 0x20 && $0 != 0x09 } }

    /// Adds all that `other` adds, and removes what it removes.
    @inlinable public mutating func append(_ other: borrowing FieldEdits) {
        lines.append(other.http1)
        removed |= other.removed
        lost |= other.lost
        if let others = other.names { names = others }
    }

    /// Adds a field whose value is `id`; returns the slice of the value, for the subscript.
    package mutating func add(_ name: StaticString, _ id: UUID) -> Slice {
        begin(name)
        let start = lines.count
        id.write(into: &lines)
        let slice = Slice(start: start, count: lines.count - start)
        end()
        return slice
    }

    // MARK: a value in pieces

    /// Begins a field whose value is appended in pieces; `end` follows.
    @inlinable @inline(__always) public mutating func begin(_ name: StaticString) {
        lines.append(name)
        lines.append(": " as StaticString)
    }

    @inlinable public mutating func append(_ piece: RawSpan) { lines.append(piece) }
    /// Appends `piece` percent-encoded (RFC 3986 §2.1), but for unreserved bytes.
    package mutating func append(percentEncoded piece: RawSpan) { PercentEncoding.encode(piece, into: &lines) }
    @inlinable public mutating func append(_ piece: StaticString) { lines.append(piece) }
    package mutating func append(_ id: UUID) { id.write(into: &lines) }
    @inlinable public mutating func append(decimal value: UInt64) { lines.append(decimal: value) }
    @inlinable @inline(__always) public mutating func append(lowBytes word: UInt64, count: Int) {
        lines.append(lowBytes: word, count: count)
    }

    /// Ends the field.
    @inlinable public mutating func end() { lines.append("\r\n" as StaticString) }

    /// Adds bytes that came from another value's `http1`. They may end within a field; then `append` and `end` complete it.
    @inlinable public mutating func append(rendered: RawSpan) { lines.append(rendered) }

    // MARK: removing

    /// Removes every field of this name that the message has.
    @inlinable @inline(__always) public mutating func remove(_ name: FieldName) { removed |= name.bit & ~FieldName.other.bit }

    @inlinable @inline(__always) public func removes(_ name: FieldName) -> Bool { removed & name.bit != 0 }

    /// Removes every field with one of these names, in any spelling; those that were given before are forgotten.
    package mutating func remove(_ names: FieldNames) {
        self.names = names
        for name in names.names { remove(name.withRawBytes { FieldName.recognise($0) }) }
    }

    /// Whether a field of this name is removed.
    @inlinable @inline(__always) public func removes(_ known: FieldName, _ name: RawSpan) -> Bool {
        removes(known) || removesByName && names!.contains(name)
    }

    /// Whether fields are removed by names that `FieldName` does not have.
    @inlinable @inline(__always) public var removesByName: Bool { names != nil }

    /// Takes back the lines of a field that were added, because the message has one of its own. The name is in lower case.
    package mutating func withdraw(_ name: StaticString) {
        var kept = ByteBuffer()
        forEach { own, value in
            guard !own.equalsIgnoringCase(name) else { return }
            kept.append(own)
            kept.append(": " as StaticString)
            kept.append(value)
            kept.append("\r\n" as StaticString)
        }
        swap(&kept, &lines)
    }

    /// Removes the fields of CORS that the message has: every `Access-Control-…`, and `Origin` from its `Vary`.
    @inlinable public mutating func removeCORS() { lost |= 1 }

    @inlinable @inline(__always) public var removesCORS: Bool { lost & 1 != 0 }

    /// Removes every `Strict-Transport-Security` that the message has.
    package mutating func removeStrictTransport() { lost |= 2 }

    package var removesStrictTransport: Bool { lost & 2 != 0 }

    // MARK: reading

    /// The added fields as HTTP/1 field lines, each with its CRLF.
    @inlinable @inline(__always) public var http1: RawSpan { @_lifetime(borrow self) get { lines.readable } }

    @inlinable public var addsNothing: Bool { lines.isEmpty }

    /// A value that was added, by the slice that `add` returned.
    @inlinable @inline(__always) public subscript(_ value: Slice) -> RawSpan { @_lifetime(borrow self) get { lines.readable[value] } }

    /// The value of the field called `name` whose line, or nothing, is this slice of `http1`.
    @_lifetime(borrow self)
    package func value(of name: StaticString, in line: Slice) -> RawSpan {
        guard !line.isEmpty else { return RawSpan() }
        return lines.readable.extracting(Int(line.start) + name.utf8CodeUnitCount + 2..<Int(line.end) - 2)
    }

    /// Calls `body` with name and value of each added field, in order: the walk for HTTP/2. Names hold no colon, values no CR.
    public func forEach(_ body: (RawSpan, RawSpan) -> Void) {
        let bytes = http1
        var start = 0
        while start < bytes.byteCount {
            guard let colon = bytes.firstIndex(of: UInt8(ascii: ":"), from: start),
                let lineEnd = bytes.firstIndex(of: UInt8(ascii: "\r"), from: colon)
            else { preconditionFailure("a field that was begun and not ended") }
            body(bytes.extracting(start..<colon), bytes.extracting(colon + 2..<lineEnd))
            start = lineEnd + 2
        }
    }
}
