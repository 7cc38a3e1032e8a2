internal import Wire

/// An app's data of an account: one JSON object of at most 16 KiB, keys and values as they were sent, but without `null`
/// (clients cannot decode it).
package struct Metadata: Sendable, Equatable {
    /// The object, without insignificant white space.
    package let json: [UInt8]

    /// Why JSON cannot be metadata.
    package enum Fault: Error, Equatable, Sendable {
        /// Not one object, more than 32 levels deep, or with NUL in a string.
        case malformed
        case tooLarge
    }

    package static let empty = Metadata(stored: Array("{}".utf8))
    private static let largest = 16 * 1_024

    package init(json source: RawSpan) throws(Fault) {
        var copy = NullFreeCopy(source)
        guard let json = copy.object() else { throw .malformed }
        guard json.count <= Self.largest else { throw .tooLarge }
        self.json = json
    }

    /// An object from the store; not checked again.
    package init(stored json: [UInt8]) { self.json = json }
}

/// Copies JSON without `null`: such members and array elements are left out.
private struct NullFreeCopy: ~Copyable, ~Escapable {
    private var reader: JSONReader
    private var writer = JSONWriter()
    /// The name of the member whose value is read next.
    private var name: JSONText?

    @_lifetime(copy source)
    init(_ source: RawSpan) { reader = JSONReader(source) }

    /// The copy; nil if the source is not valid as metadata.
    @_lifetime(self: copy self)
    mutating func object() -> [UInt8]? {
        guard next() == .beginObject else { return nil }
        writer.beginObject()
        while reader.depth > 0 {
            guard let token = next(), copy(token) else { return nil }
        }
        guard next() == .end else { return nil }
        return exchange(&writer, with: JSONWriter()).finish().readable.array
    }

    @_lifetime(self: copy self)
    private mutating func next() -> JSONToken? {
        do throws(JSONFault) { return try reader.next() } catch { return nil }
    }

    /// False if `token` may not occur in metadata.
    @_lifetime(self: copy self)
    private mutating func copy(_ token: JSONToken) -> Bool {
        if case .key(let key) = token {
            name = key
            return true
        }
        let member = name
        name = nil
        if token == .null { return true }
        if let member {
            guard let name = plain(member) else { return false }
            writer.key(name)
        }
        return write(token)
    }

    @_lifetime(self: copy self)
    private mutating func write(_ token: JSONToken) -> Bool {
        switch token {
        case .beginObject: writer.beginObject()
        case .endObject: writer.endObject()
        case .beginArray: writer.beginArray()
        case .endArray: writer.endArray()
        case .number(let slice): writer.verbatim(reader.source(slice))
        case .bool(let value): writer.bool(value)
        case .string(let string):
            guard let text = plain(string) else { return false }
            writer.string(text)
        case .key, .null, .end: return false
        }
        return true
    }

    /// The string, unescaped; nil if it holds NUL.
    private func plain(_ string: JSONText) -> String? {
        let text = reader.string(string)
        return text.utf8.contains(0) ? nil : text
    }
}
