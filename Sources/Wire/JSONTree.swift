/// A JSON value as a tree, for answers and notifications, which are small. A member or element that is absent reads as `null`, so that a
/// path of names needs no check at each step.
package enum JSONTree: Sendable, Hashable {
    case object([String: JSONTree])
    case array([JSONTree])
    /// Half a surrogate pair in it has become U+FFFD.
    case text(String)
    /// nil for a number that is no integer of 64 bits.
    case number(Int64?)
    case bool(Bool)
    case null

    /// Parses one JSON object: strictly, at most 32 levels deep, no duplicate members. nil for anything else. The caller bounds its size.
    package init?(_ json: RawSpan) {
        var reader = JSONReader(json, takesHalves: true)
        do throws(JSONFault) {
            guard try reader.next() == .beginObject, let object = try Self.members(&reader), try reader.next() == .end else { return nil }
            self = object
        } catch {
            return nil
        }
    }

    /// The members of an object that has begun; nil if a name comes twice, which two parsers might read differently.
    private static func members(_ reader: inout JSONReader) throws(JSONFault) -> JSONTree? {
        var members: [String: JSONTree] = [:]
        while case .key(let key) = try reader.next() {
            guard let value = try value(reader.next(), &reader), members.updateValue(value, forKey: reader.string(key)) == nil else {
                return nil
            }
        }
        return .object(members)
    }

    private static func elements(_ reader: inout JSONReader) throws(JSONFault) -> JSONTree? {
        var elements: [JSONTree] = []
        while true {
            let token = try reader.next()
            if token == .endArray { return .array(elements) }
            guard let value = try value(token, &reader) else { return nil }
            elements.append(value)
        }
    }

    private static func value(_ token: JSONToken, _ reader: inout JSONReader) throws(JSONFault) -> JSONTree? {
        switch token {
        case .beginObject: try members(&reader)
        case .beginArray: try elements(&reader)
        case .string(let text): .text(reader.string(text))
        case .number(let slice): .number(reader.integer(slice))
        case .bool(let value): .bool(value)
        case .null: .null
        // The grammar allows none of these where a value begins.
        case .endObject, .endArray, .key, .end: nil
        }
    }

    package subscript(_ name: String) -> JSONTree {
        if case .object(let members) = self { members[name] ?? .null } else { .null }
    }

    /// The elements of an array; none for another value.
    package var elements: [JSONTree] { if case .array(let elements) = self { elements } else { [] } }

    package var names: [String] { if case .object(let members) = self { members.keys.sorted() } else { [] } }

    package var isObject: Bool { if case .object = self { true } else { false } }

    /// A string without NUL, which databases do not store.
    package var text: String? {
        if case .text(let text) = self, !text.utf8.contains(0) { text } else { nil }
    }

    /// A string that names something: 1 to 1,024 bytes, so that a database can index it.
    package var id: String? { text.flatMap { (1...1_024).contains($0.utf8.count) ? $0 : nil } }

    package var integer: Int64? { if case .number(let number) = self { number } else { nil } }

    package var bool: Bool? { if case .bool(let value) = self { value } else { nil } }

    /// An account's id; nil for a string that is no UUID, which stands for no account.
    package var uuid: UUID? { text.flatMap { UUID(parsing: $0) } }

    /// A number of seconds since 1970. This and the other times are nil outside the years 1970 to 9999.
    package var seconds: WallTime? { integer.flatMap { Self.time($0, unit: 1_000_000) } }

    /// A number of milliseconds since 1970, which may be written as a string, as Google writes integers of 64 bits.
    package var milliseconds: WallTime? { (integer ?? text.flatMap { Int64($0) }).flatMap { Self.time($0, unit: 1_000) } }

    /// A time by RFC 3339, in UTC.
    package var time: WallTime? { text.flatMap { ISO8601.parse($0) }.flatMap { Self.time($0.microseconds, unit: 1) } }

    private static func time(_ count: Int64, unit: Int64) -> WallTime? {
        let (microseconds, overflow) = count.multipliedReportingOverflow(by: unit)
        guard !overflow, (0..<253_402_300_800_000_000).contains(microseconds) else { return nil }
        return WallTime(microseconds: microseconds)
    }
}
