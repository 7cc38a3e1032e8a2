internal import Wire

/// A JSON value of an import's line as a tree, which is small.
indirect enum ImportValue {
    case null, bool(Bool)
    case text(String)
    /// As it is spelled.
    case number(String)
    case array([ImportValue])
    case object([(name: String, value: ImportValue)])

    /// Reads a whole line: strict JSON, at most 4 levels deep.
    init(_ line: RawSpan) throws(JSONFault) {
        var reading = Reading(line)
        self = try reading.line()
    }

    private struct Reading: ~Copyable, ~Escapable {
        private var reader: JSONReader

        @_lifetime(copy line)
        init(_ line: RawSpan) { reader = JSONReader(line, maximumDepth: 4) }

        @_lifetime(self: copy self)
        mutating func line() throws(JSONFault) -> ImportValue {
            let value = try value(try reader.next())
            _ = try reader.next()
            return value
        }

        @_lifetime(self: copy self)
        private mutating func value(_ token: JSONToken) throws(JSONFault) -> ImportValue {
            switch token {
            case .string(let text): return .text(reader.string(text))
            case .number(let slice): return .number(reader.source(slice).text)
            case .bool(let bool): return .bool(bool)
            case .beginArray:
                var elements: [ImportValue] = []
                while true {
                    let token = try reader.next()
                    if token == .endArray { return .array(elements) }
                    elements.append(try value(token))
                }
            case .beginObject:
                var members: [(name: String, value: ImportValue)] = []
                while case .key(let name) = try reader.next() {
                    let name = reader.string(name)
                    members.append((name, try value(try reader.next())))
                }
                return .object(members)
            case .null, .endObject, .endArray, .key, .end: return .null
            }
        }
    }

    // MARK: reading as

    /// nil for `null`.
    func text(_ field: String) throws(ImportFault) -> String? {
        switch self {
        case .null: return nil
        case .text(let text): return text
        case .bool, .number, .array, .object: throw ImportFault(message: "\(field) must be a string")
        }
    }

    /// A name that may be spelled as a number; nil for `null`.
    func name(_ field: String) throws(ImportFault) -> String? {
        switch self {
        case .number(let digits) where digits.utf8.allSatisfy(\.isASCIIDigit): return digits
        case .number, .null, .text, .bool, .array, .object: return try text(field)
        }
    }

    /// False for `null`.
    func flag(_ field: String) throws(ImportFault) -> Bool {
        switch self {
        case .null: return false
        case .bool(let bool): return bool
        case .text, .number, .array, .object: throw ImportFault(message: "\(field) must be true or false")
        }
    }

    /// nil for `null`.
    func time(_ field: String) throws(ImportFault) -> WallTime? {
        guard let text = try text(field) else { return nil }
        guard let time = ISO8601.parse(text) else {
            throw ImportFault(message: "\(field) is no time in UTC, write one like 2027-01-01T00:00:00Z")
        }
        return time
    }

    /// No elements for `null`.
    func elements(_ field: String) throws(ImportFault) -> [ImportValue] {
        switch self {
        case .null: return []
        case .array(let elements): return elements
        case .bool, .text, .number, .object: throw ImportFault(message: "\(field) must be an array")
        }
    }

    /// The members of an object, each name once.
    func members(_ what: String) throws(ImportFault) -> [(name: String, value: ImportValue)] {
        guard case .object(let members) = self else { throw ImportFault(message: "\(what) is no JSON object") }
        guard Set(members.map(\.name)).count == members.count else { throw ImportFault(message: "\(what) names a member twice") }
        return members
    }
}
