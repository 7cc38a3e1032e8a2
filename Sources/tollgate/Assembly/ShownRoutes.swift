internal import Contracts
internal import Gate
internal import Settings
internal import Wire

/// The routes and endpoints in JSON, for the admin API and for commands.
extension GatewayConfiguration {
    /// Writes the routes and the contracts' endpoints as members of an open object. `more` adds members to the route of a name.
    func writeRoutes(_ json: inout JSONWriter, _ more: (String, inout JSONWriter) -> Void = { _, _ in }) {
        json.array("routes", settings.routes) { json, route in
            json.beginObject()
            json.field("name", route.rule.name)
            json.array("methods", route.rule.methods) { $0.string($1) }
            json.optional("host", route.rule.host)
            json.field("path", route.rule.path + (route.rule.isPrefix ? "*" : ""))
            json.options(of: route, settings.tiers)
            json.field("authorization", route.rule.keepsAuthorization ? "forwarded" : "removed")
            more(route.rule.name, &json)
            json.endObject()
        }
        json.array("endpoints", endpoints) { json, place in
            json.beginObject()
            json.field("name", place.endpoint.name)
            json.field("mount", place.mount.text)
            json.array("methods", place.endpoint.methods) { $0.string($1) }
            json.field("path", place.rule.path + (place.rule.isPrefix ? "*" : ""))
            json.field("auth", place.endpoint.auth.name)
            json.field("errors", Catalogue.envelopes[place.endpoint.dialect].name)
            json.endObject()
        }
    }
}

extension RouteRule {
    /// Whether the upstream gets the client's `Authorization`.
    var keepsAuthorization: Bool { auth == .none || forwardsAuthorization }
}
