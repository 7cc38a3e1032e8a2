package import Wire

/// The shape of a JSON value, as OpenAPI 3.1 describes it (JSON Schema 2020-12). Of its keywords only those that the admin API needs.
package indirect enum JSONSchema: Sendable {
    case text
    /// RFC 3339.
    case time
    /// A UUID.
    case id
    /// A count: an integer from 0 on.
    case integer
    case range(ClosedRange<Int>)
    case number
    case boolean
    /// One of these strings.
    case words([String])
    case array(JSONSchema)
    /// An object whose members have any name.
    case map(JSONSchema)
    case object([Member])
    /// A schema of `OpenAPIDocument.schemas`, by its name.
    case named(String)
    case nullable(JSONSchema)
    case anything

    package struct Member: Sendable {
        let name: String
        let schema: JSONSchema
        let isRequired: Bool
        let about: String?
    }

    package func write(_ json: inout JSONWriter) {
        json.beginObject()
        writeMembers(&json)
        json.endObject()
    }

    private func writeMembers(_ json: inout JSONWriter) {
        switch self {
        case .text: json.field("type", "string")
        case .time:
            json.field("type", "string")
            json.field("format", "date-time")
        case .id:
            json.field("type", "string")
            json.field("format", "uuid")
        case .integer:
            json.field("type", "integer")
            json.field("minimum", 0)
        case .range(let bounds):
            json.field("type", "integer")
            json.field("minimum", bounds.lowerBound)
            json.field("maximum", bounds.upperBound)
        case .number: json.field("type", "number")
        case .boolean: json.field("type", "boolean")
        case .words(let words):
            json.field("type", "string")
            json.array("enum", words) { $0.string($1) }
        case .array(let element):
            json.field("type", "array")
            json.key("items")
            element.write(&json)
        case .map(let value):
            json.field("type", "object")
            json.key("additionalProperties")
            value.write(&json)
        case .object(let members): Self.write(members, &json)
        case .named(let name): json.field("$ref", "#/components/schemas/\(name)")
        case .nullable(let schema):
            json.array("oneOf", [schema, nil]) { json, choice in
                if let choice { return choice.write(&json) }
                json.beginObject()
                json.field("type", "null")
                json.endObject()
            }
        case .anything: break
        }
    }

    private static func write(_ members: [Member], _ json: inout JSONWriter) {
        json.field("type", "object")
        json.key("properties")
        json.beginObject()
        for member in members {
            json.key(member.name)
            json.beginObject()
            member.schema.writeMembers(&json)
            json.optional("description", member.about)
            json.endObject()
        }
        json.endObject()
        let required = members.filter(\.isRequired).map(\.name)
        if !required.isEmpty { json.array("required", required) { $0.string($1) } }
    }
}

extension JSONSchema.Member {
    /// A member that is always there.
    package static func has(_ name: String, _ schema: JSONSchema, _ about: String? = nil) -> Self {
        Self(name: name, schema: schema, isRequired: true, about: about)
    }

    /// A member that may be missing.
    package static func may(_ name: String, _ schema: JSONSchema, _ about: String? = nil) -> Self {
        Self(name: name, schema: schema, isRequired: false, about: about)
    }
}
