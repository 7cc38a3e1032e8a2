internal import Wire

extension Attributes {
    /// These attributes with the members of `change`, a JSON object, in place of those with the same names; `null` removes one.
    package func merging(_ change: RawSpan) throws(Metadata.Fault) -> Attributes {
        var members = try Self.members(json.rawBytes)
        for (name, value) in try Self.members(change) {
            members.removeAll { $0.name == name }
            if let value { members.append((name, value)) }
        }
        var writer = JSONWriter()
        writer.beginObject()
        for (name, value) in members {
            writer.key(name.rawBytes)
            if let value { writer.verbatim(value.rawBytes) } else { writer.null() }
        }
        writer.endObject()
        return try Attributes(json: writer.finish().readable)
    }

    /// The names of a JSON object's members.
    package static func names(in object: RawSpan) throws(Metadata.Fault) -> [String] {
        try members(object).map { String(decoding: $0.name, as: UTF8.self) }
    }

    private typealias Member = (name: [UInt8], value: [UInt8]?)

    /// The members of a JSON object, each value as it was written; nil for `null`.
    private static func members(_ object: RawSpan) throws(Metadata.Fault) -> [Member] {
        let members: [Member]?
        do throws(JSONFault) { members = try parsed(object) } catch { throw .malformed }
        guard let members else { throw .malformed }
        return members
    }

    /// nil for what is no object.
    private static func parsed(_ object: RawSpan) throws(JSONFault) -> [Member]? {
        var reader = JSONReader(object)
        var members: [Member] = []
        guard try reader.next() == .beginObject else { return nil }
        while case .key(let key) = try reader.next() {
            let name = Array(reader.string(key).utf8)
            let start: Int
            switch try reader.next() {
            case .null:
                members.append((name, nil))
                continue
            case .string(let text): start = Int(text.slice.start) - 1
            case .number(let slice): start = Int(slice.start)
            case .bool(let value): start = reader.offset - (value ? 4 : 5)
            case .beginObject, .beginArray:
                start = reader.offset - 1
                let outer = reader.depth - 1
                while reader.depth > outer { _ = try reader.next() }
            case .endObject, .endArray, .key, .end: return nil
            }
            members.append((name, object.extracting(start..<reader.offset).array))
        }
        return try reader.next() == .end ? members : nil
    }
}
