internal import Wire

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
    /// A schema that the document has once, under this name.
    case named(String, JSONSchema)
    /// One of the tiers in force.
    case tier
    case nullable(JSONSchema)
    case anything

    package struct Member: Sendable {
        package let name: String
        package let schema: JSONSchema
        package let isRequired: Bool
        let about: String?
    }

    func write(_ name: String, _ json: inout JSONWriter) { json.object(name, writeMembers) }

    private func writeMembers(_ json: inout JSONWriter) {
        func type(_ name: String, format: String? = nil) {
            json.field("type", name)
            json.optional("format", format)
        }
        switch self {
        case .text: type("string")
        case .time: type("string", format: "date-time")
        case .id: type("string", format: "uuid")
        case .integer:
            type("integer")
            json.field("minimum", 0)
        case .range(let bounds):
            type("integer")
            json.field("minimum", bounds.lowerBound)
            json.field("maximum", bounds.upperBound)
        case .number: type("number")
        case .boolean: type("boolean")
        case .words(let words):
            type("string")
            json.array("enum", words) { $0.string($1) }
        case .array(let element):
            type("array")
            element.write("items", &json)
        case .map(let value):
            type("object")
            value.write("additionalProperties", &json)
        case .object(let members):
            type("object")
            json.object("properties") { json in
                for member in members {
                    json.object(member.name) { json in
                        member.schema.writeMembers(&json)
                        json.optional("description", member.about)
                    }
                }
            }
            let required = members.filter(\.isRequired).map(\.name)
            if !required.isEmpty { json.array("required", required) { $0.string($1) } }
        case .named(let name, _): json.field("$ref", "#/components/schemas/\(name)")
        case .tier: json.field("$ref", "#/components/schemas/Tier")
        case .nullable(let schema):
            json.array("oneOf", [schema, nil]) { json, choice in
                json.object { json in
                    if let choice { choice.writeMembers(&json) } else { json.field("type", "null") }
                }
            }
        case .anything: break
        }
    }
}

extension JSONSchema {
    /// The named schemas in it, each before those that it refers to.
    var named: [(name: String, schema: JSONSchema)] {
        switch self {
        case .named(let name, let schema): [(name, schema)] + schema.named
        case .array(let part), .map(let part), .nullable(let part): part.named
        case .object(let members): members.flatMap(\.schema.named)
        case .text, .time, .id, .integer, .range, .number, .boolean, .words, .tier, .anything: []
        }
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
