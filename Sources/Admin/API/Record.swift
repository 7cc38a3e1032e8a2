package import Wire

/// How a value looks in JSON: its schema, and its writer.
package struct Shape<Value>: Sendable {
    package let schema: JSONSchema
    package let write: @Sendable (Value, inout JSONWriter) -> Void

    package init(_ schema: JSONSchema, write: @escaping @Sendable (Value, inout JSONWriter) -> Void) {
        self.schema = schema
        self.write = write
    }
}

/// A type whose values look the same in every record.
package protocol Shaped: SendableMetatype {
    static var shape: Shape<Self> { get }
}

/// A type that the admin API and `--json` show as an object.
package protocol Recorded: Shaped {
    static var record: Record<Self> { get }
}

extension Recorded {
    package static var shape: Shape<Self> { record.shape }
}

/// A record of the admin API, described once: its JSON and its schema follow from its fields.
package struct Record<Subject>: Sendable {
    /// The name of its schema; nil for one that stands where it is used.
    let name: String?
    package let fields: [RecordField<Subject>]

    package init(_ name: String, _ fields: [RecordField<Subject>]) {
        self.name = name
        self.fields = fields
    }

    package init(_ fields: [RecordField<Subject>]) {
        name = nil
        self.fields = fields
    }

    package var shape: Shape<Subject> {
        let object = JSONSchema.object(fields.map(\.member))
        return Shape(name.map { .named($0, object) } ?? object) { write($0, &$1) }
    }

    /// Writes the subject as an object.
    package func write(_ subject: Subject, _ json: inout JSONWriter) {
        json.object { writeMembers(subject, &$0) }
    }

    /// Writes the members into an open object.
    package func writeMembers(_ subject: Subject, _ json: inout JSONWriter) {
        for field in fields { field.write(subject, &json) }
    }

    /// Its fields as those of a record that has such a part.
    package func fields<Whole>(of part: @escaping @Sendable (Whole) -> Subject) -> [RecordField<Whole>] {
        fields.map { field in RecordField(field.member) { field.write(part($0), &$1) } }
    }
}

/// A field of a record: its name and shape, how it is read, and a sentence where the name does not say it.
package struct RecordField<Subject>: Sendable {
    package let member: JSONSchema.Member
    let write: @Sendable (Subject, inout JSONWriter) -> Void

    package init(_ member: JSONSchema.Member, write: @escaping @Sendable (Subject, inout JSONWriter) -> Void) {
        self.member = member
        self.write = write
    }

    /// A field that is always there.
    package static func has<Value>(
        _ name: String, _ shape: Shape<Value>, about: String? = nil, _ read: @escaping @Sendable (Subject) -> Value
    ) -> Self {
        Self(.has(name, shape.schema, about)) { subject, json in
            json.key(name)
            shape.write(read(subject), &json)
        }
    }

    /// A field that is left out where it is nil.
    package static func may<Value>(
        _ name: String, _ shape: Shape<Value>, about: String? = nil, _ read: @escaping @Sendable (Subject) -> Value?
    ) -> Self {
        Self(.may(name, shape.schema, about)) { subject, json in
            guard let value = read(subject) else { return }
            json.key(name)
            shape.write(value, &json)
        }
    }

    package static func has<Value: Shaped>(
        _ name: String, about: String? = nil, _ read: @escaping @Sendable (Subject) -> Value
    ) -> Self { has(name, Value.shape, about: about, read) }

    package static func may<Value: Shaped>(
        _ name: String, about: String? = nil, _ read: @escaping @Sendable (Subject) -> Value?
    ) -> Self { may(name, Value.shape, about: about, read) }
}

extension JSONWriter {
    package mutating func object(_ body: (inout JSONWriter) -> Void) {
        beginObject()
        body(&self)
        endObject()
    }

    /// A member that is an object.
    package mutating func object(_ name: String, _ body: (inout JSONWriter) -> Void) {
        key(name)
        object(body)
    }
}

// MARK: - Shapes

extension String: Shaped {
    package static var shape: Shape<String> { Shape(.text) { $1.string($0) } }
}

extension Bool: Shaped {
    package static var shape: Shape<Bool> { Shape(.boolean) { $1.bool($0) } }
}

/// A count, from 0 on.
extension Int: Shaped {
    package static var shape: Shape<Int> { Shape(.integer) { $1.number($0) } }
}

extension UInt64: Shaped {
    package static var shape: Shape<UInt64> { Shape(.integer) { $1.number(Int(clamping: $0)) } }
}

extension UUID: Shaped {
    package static var shape: Shape<UUID> { Shape(.id) { $1.string($0.text) } }
}

extension WallTime: Shaped {
    package static var shape: Shape<WallTime> { Shape(.time) { $1.string(ISO8601.text($0)) } }
}

extension Array: Shaped where Element: Shaped {
    package static var shape: Shape<[Element]> { .array(Element.shape) }
}

extension Shape {
    package static func array<Element>(_ element: Shape<Element>) -> Self where Value == [Element] {
        Self(.array(element.schema)) { values, json in
            json.beginArray()
            for value in values { element.write(value, &json) }
            json.endArray()
        }
    }

    /// An object whose members have any name.
    package static func map<Member>(_ member: Shape<Member>) -> Self where Value == [(String, Member)] {
        Self(.map(member.schema)) { members, json in
            json.object { json in
                for (name, value) in members {
                    json.key(name)
                    member.write(value, &json)
                }
            }
        }
    }

    package static func nullable<Some>(_ shape: Shape<Some>) -> Self where Value == Some? {
        Self(.nullable(shape.schema)) { value, json in
            if let value { shape.write(value, &json) } else { json.null() }
        }
    }

    /// An object with one member, a list.
    package static func list<Element: Shaped>(_ name: String) -> Self where Value == [Element] {
        Record([.has(name) { $0 }]).shape
    }
}

extension Shape where Value == String {
    /// One of these.
    package static func words(_ words: [String]) -> Self { Self(.words(words), write: String.shape.write) }

    /// One of `TOLLGATE_TIERS`.
    package static var tier: Self { Self(.tier, write: String.shape.write) }
}

extension Shape where Value: CaseIterable & RawRepresentable & SendableMetatype, Value.RawValue == String {
    /// One of the cases' words.
    package static var cases: Self { Self(.words(Value.allCases.map(\.rawValue))) { $1.string($0.rawValue) } }
}

extension Shape where Value == [UInt8] {
    /// JSON of the owner's own.
    package static var anything: Self { Self(.anything) { $1.verbatim($0.rawBytes) } }
}
