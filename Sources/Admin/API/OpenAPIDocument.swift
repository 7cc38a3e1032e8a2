internal import Gate
internal import HTTP
internal import Wire

/// The description of the admin API in OpenAPI 3.1, written from the table of operations.
package enum OpenAPIDocument {
    /// The schemas that `operations` refer to by name. `tiers` are those of the settings in force.
    static func schemas(of operations: [AdminOperation], tiers: [String]) -> [(name: String, schema: JSONSchema)] {
        var seen: Set<String> = []
        let all = operations.flatMap { ($0.body?.named ?? []) + $0.success.schemas.flatMap(\.named) }
        return all.filter { seen.insert($0.name).inserted } + [("Tier", .words(tiers)), ("Error", error)]
    }

    private static let error = JSONSchema.object([
        .has(
            "error",
            .object([
                .has("code", .text, "Stable, in capitals."), .has("message", .text), .may("request_id", .text),
            ]))
    ])

    static func write(_ operations: [AdminOperation], tiers: [String], version: String, _ json: inout JSONWriter) {
        json.object { json in
            json.field("openapi", "3.1.0")
            json.object("info") { json in
                json.field("title", "Tollgate admin API")
                json.field("version", version)
            }
            json.object("paths") { json in
                var written: Set<String> = []
                for operation in operations where written.insert(operation.path).inserted {
                    json.object(AdminAPI.path + operation.path) { json in
                        for same in operations where same.path == operation.path { write(same, &json) }
                    }
                }
            }
            json.object("components") { json in
                json.object("securitySchemes", writeSchemes)
                json.object("schemas") { json in
                    for (name, schema) in schemas(of: operations, tiers: tiers) { schema.write(name, &json) }
                }
            }
        }
    }

    private static func writeSchemes(_ json: inout JSONWriter) {
        json.object("token") { json in
            json.field("type", "http")
            json.field("scheme", "bearer")
            json.field(
                "description",
                "The admin token, or one of TOLLGATE_ADMIN_TOKEN_<NAME> that has the listed scope; `operator`: the admin token alone.")
        }
        json.object("console") { json in
            json.field("type", "apiKey")
            json.field("in", "cookie")
            json.field("name", ConsoleSession.cookiePrefix + "{id}")
            json.field("description", "The id depends on the admin token; the sign-in sets the cookie.")
        }
    }

    private static func write(_ operation: AdminOperation, _ json: inout JSONWriter) {
        json.object(operation.method.lowercased()) { json in
            json.field("operationId", operation.name)
            json.field("summary", operation.about)
            let schemes = operation.access.roles.map { [("token", $0), ("console", [])] } ?? []
            json.array("security", schemes) { json, scheme in
                json.object { json in
                    json.key(scheme.0)
                    [String].shape.write(scheme.1, &json)
                }
            }
            writeParameters(operation, &json)
            if let body = operation.body {
                json.object("requestBody") { json in
                    json.field("required", true)
                    writeContent("application/json", body, &json)
                }
            }
            json.object("responses") { json in
                writeSuccess(operation.success, &json)
                for status in Set([400, 401, 403, 429, 503] + operation.refusals).sorted() {
                    writeAnswer(status, StatusText.reason(status).description, .named("Error", error), &json)
                }
            }
        }
    }

    private static func writeParameters(_ operation: AdminOperation, _ json: inout JSONWriter) {
        typealias Place = (name: String, isRequired: Bool)
        var parameters = operation.arguments.map { (AdminOperation.Parameter($0, "", operation.argument), Place("path", true)) }
        parameters += operation.query.map { ($0, ("query", false)) }
        if operation.method != "GET" {
            let isOpen = operation.access == .open
            let about =
                "The origin of the console's page, SCHEME://HOST as in Host" + (isOpen ? "" : "; needed with the console's cookie alone")
            parameters.append((AdminOperation.Parameter("Origin", about), ("header", isOpen)))
        }
        guard !parameters.isEmpty else { return }
        json.array("parameters", parameters) { json, parameter in
            let (value, place) = parameter
            json.object { json in
                json.field("name", value.name)
                json.field("in", place.name)
                json.field("required", place.isRequired)
                if !value.about.isEmpty { json.field("description", value.about) }
                value.schema.write("schema", &json)
            }
        }
    }

    private static func writeSuccess(_ success: AdminOperation.Success, _ json: inout JSONWriter) {
        switch success {
        case .json(let schema): writeAnswer(200, "Done", schema, &json)
        case .nothing: json.object("204") { $0.field("description", "Done") }
        case .events(let events):
            json.object("200") { json in
                json.field("description", "Events: " + events.map(\.name).joined(separator: ", "))
                writeContent("text/event-stream", .text, &json)
                json.object("x-events") { json in
                    for event in events { event.data.write(event.name, &json) }
                }
            }
        }
    }

    private static func writeAnswer(_ status: Int, _ about: String, _ schema: JSONSchema, _ json: inout JSONWriter) {
        json.object("\(status)") { json in
            json.field("description", about)
            writeContent("application/json", schema, &json)
        }
    }

    private static func writeContent(_ type: String, _ schema: JSONSchema, _ json: inout JSONWriter) {
        json.object("content") { json in
            json.object(type) { schema.write("schema", &$0) }
        }
    }
}

extension AdminOperation {
    static let description = [
        AdminOperation("GET", "openapi.json", "getDescription", "This description", access: .anyToken, success: .json(.anything)) {
            api, _ in
            .json { OpenAPIDocument.write(api.operations, tiers: api.plan().tiers.names, version: Version.text, &$0) }
        }
    ]
}
