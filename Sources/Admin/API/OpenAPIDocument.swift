internal import Gate
internal import HTTP
internal import Wire

/// The description of the admin API in OpenAPI 3.1, written from the table of operations.
package enum OpenAPIDocument {
    /// The schemas that others refer to by name. `tiers` are those of the settings in force.
    static func schemas(tiers: [String]) -> [(name: String, schema: JSONSchema)] {
        AdminOperation.accountSchemas + AdminOperation.operationSchemas + AdminOperation.gatewaySchemas
            + [("Tier", .words(tiers)), ("Error", error)]
    }

    private static let error = JSONSchema.object([
        .has("error", .object([
            .has("code", .text, "Stable, in capitals."), .has("message", .text), .may("request_id", .text),
        ])),
    ])

    static func write(_ operations: [AdminOperation], tiers: [String], version: String, _ json: inout JSONWriter) {
        json.beginObject()
        json.field("openapi", "3.1.0")
        json.key("info")
        json.beginObject()
        json.field("title", "Tollgate admin API")
        json.field("version", version)
        json.endObject()
        json.key("paths")
        json.beginObject()
        var written: Set<String> = []
        for operation in operations where written.insert(operation.path).inserted {
            json.key(AdminAPI.path + operation.path)
            json.beginObject()
            for same in operations where same.path == operation.path { write(same, &json) }
            json.endObject()
        }
        json.endObject()
        writeComponents(tiers, &json)
        json.endObject()
    }

    private static func writeComponents(_ tiers: [String], _ json: inout JSONWriter) {
        json.key("components")
        json.beginObject()
        json.key("securitySchemes")
        json.beginObject()
        json.key("token")
        json.beginObject()
        json.field("type", "http")
        json.field("scheme", "bearer")
        json.field(
            "description",
            "The admin token, or one of TOLLGATE_ADMIN_TOKEN_<NAME> that has the listed scope; `operator`: the admin token alone.")
        json.endObject()
        json.key("console")
        json.beginObject()
        json.field("type", "apiKey")
        json.field("in", "cookie")
        json.field("name", ConsoleSession.cookiePrefix + "{id}")
        json.field("description", "The id depends on the admin token; the sign-in sets the cookie.")
        json.endObject()
        json.endObject()
        json.key("schemas")
        json.beginObject()
        for (name, schema) in schemas(tiers: tiers) {
            json.key(name)
            schema.write(&json)
        }
        json.endObject()
        json.endObject()
    }

    private static func write(_ operation: AdminOperation, _ json: inout JSONWriter) {
        json.key(operation.method.lowercased())
        json.beginObject()
        json.field("operationId", operation.name)
        json.field("summary", operation.about)
        let schemes = operation.access.roles.map { [("token", $0), ("console", [])] } ?? []
        json.array("security", schemes) { json, scheme in
            json.beginObject()
            json.key(scheme.0)
            json.beginArray()
            for role in scheme.1 { json.string(role) }
            json.endArray()
            json.endObject()
        }
        writeParameters(operation, &json)
        if let body = operation.body {
            json.key("requestBody")
            json.beginObject()
            json.field("required", true)
            writeContent("application/json", body, &json)
            json.endObject()
        }
        json.key("responses")
        json.beginObject()
        writeSuccess(operation.success, &json)
        for status in Set([400, 401, 403, 429, 503] + operation.refusals).sorted() { writeRefusal(status, &json) }
        json.endObject()
        json.endObject()
    }

    private static func writeParameters(_ operation: AdminOperation, _ json: inout JSONWriter) {
        typealias Place = (name: String, isRequired: Bool)
        var parameters = operation.arguments.map { (AdminOperation.Parameter($0, "", operation.argument), Place("path", true)) }
        parameters += operation.query.map { ($0, ("query", false)) }
        if operation.method != "GET" {
            let isOpen = operation.access == .open
            let about = "The origin of the console's page, SCHEME://HOST as in Host" + (isOpen ? "" : "; needed with the console's cookie alone")
            parameters.append((AdminOperation.Parameter("Origin", about), ("header", isOpen)))
        }
        guard !parameters.isEmpty else { return }
        json.array("parameters", parameters) { json, parameter in
            let (value, place) = parameter
            json.beginObject()
            json.field("name", value.name)
            json.field("in", place.name)
            json.field("required", place.isRequired)
            if !value.about.isEmpty { json.field("description", value.about) }
            json.key("schema")
            value.schema.write(&json)
            json.endObject()
        }
    }

    private static func writeSuccess(_ success: AdminOperation.Success, _ json: inout JSONWriter) {
        switch success {
        case .json(let schema):
            json.key("200")
            json.beginObject()
            json.field("description", "Done")
            writeContent("application/json", schema, &json)
            json.endObject()
        case .nothing:
            json.key("204")
            json.beginObject()
            json.field("description", "Done")
            json.endObject()
        case .events(let events):
            json.key("200")
            json.beginObject()
            json.field("description", "Events: " + events.map(\.name).joined(separator: ", "))
            writeContent("text/event-stream", .text, &json)
            json.key("x-events")
            json.beginObject()
            for event in events {
                json.key(event.name)
                event.data.write(&json)
            }
            json.endObject()
            json.endObject()
        }
    }

    private static func writeRefusal(_ status: Int, _ json: inout JSONWriter) {
        json.key("\(status)")
        json.beginObject()
        json.field("description", StatusText.reason(status).description)
        writeContent("application/json", .named("Error"), &json)
        json.endObject()
    }

    private static func writeContent(_ type: String, _ schema: JSONSchema, _ json: inout JSONWriter) {
        json.key("content")
        json.beginObject()
        json.key(type)
        json.beginObject()
        json.key("schema")
        schema.write(&json)
        json.endObject()
        json.endObject()
    }
}

extension AdminOperation {
    static let description = [
        AdminOperation("GET", "openapi.json", "getDescription", "This description", access: .anyToken, answers: .json(.anything)) { api, _ in
            .json { OpenAPIDocument.write(all, tiers: api.plan().tiers.names, version: Version.text, &$0) }
        }
    ]
}
