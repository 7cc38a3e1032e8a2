internal import Wire

/// An account's attributes: one JSON object of at most 4 KiB, set by the operator, by a hook, and partly by the user.
package struct Attributes: Sendable, Hashable {
    /// The object, without insignificant white space, without `null` and without a name that comes twice.
    package let json: [UInt8]

    package static let none = Attributes(stored: Array("{}".utf8))
    package static let largest = 4_096
    /// More than this is not read: changes may name attributes that are removed.
    private static let longest = 16 * largest

    /// Throws for what is no object, or too large.
    package init(json source: RawSpan) throws(Metadata.Fault) { self = try Self.none.merging(source) }

    /// An object from the store; not checked again.
    package init(stored json: [UInt8]) { self.json = json }

    /// The attributes after a change: its members replace those of the same name, and `null` removes them.
    package func merging(_ change: RawSpan) throws(Metadata.Fault) -> Attributes {
        guard change.byteCount <= Self.longest else { throw .tooLarge }
        var members = AttributeMembers()
        try members.read(json.rawBytes)
        try members.read(change)
        let object = try Metadata(json: members.json.rawBytes).json
        guard object.count <= Self.largest else { throw .tooLarge }
        return Attributes(stored: object)
    }

    /// These, with the members of `other` that they lack, as far as there is room.
    package func completed(by other: Attributes) -> Attributes {
        var attributes = self
        for member in AttributeMembers(other.json.rawBytes)?.each ?? [] {
            guard AttributeMembers(attributes.json.rawBytes)?.has(member.name) == false else { continue }
            do throws(Metadata.Fault) { attributes = try attributes.merging(member.json.rawBytes) } catch { continue }
        }
        return attributes
    }

    /// The names of a JSON object's members.
    package static func names(in object: RawSpan) throws(Metadata.Fault) -> [String] {
        var members = AttributeMembers()
        try members.read(object)
        return members.names.map { String(decoding: $0, as: UTF8.self) }
    }
}

/// How attributes are changed.
package enum AttributeChange: Sendable, Equatable {
    /// All are replaced.
    case replace(Attributes)
    /// `Attributes.merging` of this JSON.
    case merge([UInt8])

    /// The attributes after the change.
    package func applied(to former: Attributes) -> Result<Attributes, Metadata.Fault> {
        switch self {
        case .replace(let attributes): return .success(attributes)
        case .merge(let change):
            do throws(Metadata.Fault) { return .success(try former.merging(change.rawBytes)) } catch { return .failure(error) }
        }
    }
}

/// The members of an object, each name once: of several the last counts.
private struct AttributeMembers {
    private var places: [[UInt8]: Int] = [:]
    /// The value's JSON; nil for one that was removed.
    private var values: [(name: [UInt8], value: [UInt8]?)] = []

    init() {}

    /// nil for what is no object.
    init?(_ json: RawSpan) { do throws(Metadata.Fault) { try read(json) } catch { return nil } }

    mutating func read(_ json: RawSpan) throws(Metadata.Fault) {
        var reader = JSONReader(json)
        do throws(JSONFault) {
            if try reader.next() == .beginObject {
                while case .key(let key) = try reader.next() {
                    var name = ByteBuffer()
                    reader.unescape(key, into: &name)
                    let start = reader.offset
                    try reader.skipValue()
                    set(name.readable.array, json.extracting(start..<reader.offset))
                }
                if try reader.next() == .end { return }
            }
        } catch {
            throw .malformed
        }
        throw .malformed
    }

    private mutating func set(_ name: [UInt8], _ value: RawSpan) {
        let place = places[name] ?? values.count
        places[name] = place
        if place == values.count { values.append((name, nil)) }
        values[place].value = value.isNull ? nil : value.array
    }

    var names: [[UInt8]] { values.map(\.name) }

    /// Objects of one member each.
    var each: [(name: [UInt8], json: [UInt8])] {
        values.map { name, value in
            var one = AttributeMembers()
            (one.values, one.places) = ([(name, value)], [name: 0])
            return (name, one.json)
        }
    }

    func has(_ name: [UInt8]) -> Bool { places[name] != nil }

    var json: [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        for (name, value) in values {
            guard let value else { continue }
            json.key(name.rawBytes)
            json.verbatim(value.rawBytes)
        }
        json.endObject()
        return json.finish().readable.array
    }
}

extension RawSpan {
    /// Whether this JSON, perhaps behind white space, is `null`.
    fileprivate var isNull: Bool {
        var reader = JSONReader(self)
        do throws(JSONFault) { return try reader.next() == .null } catch { return false }
    }
}
