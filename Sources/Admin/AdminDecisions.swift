package import Gate
package import Wire

extension ExplainedRefusal {
    /// Writes its members into an open object.
    func write(_ json: inout JSONWriter) {
        json.field("request_id", requestID)
        json.field("time", ISO8601.text(at))
        json.field("method", method)
        json.field("host", host)
        json.field("path", path)
        json.optional("route", route)
        json.optional("user", user)
        explanation.write(explanation.steps, &json)
    }
}

extension Explanation {
    /// Writes its members, with these steps, into an open object: the format of `explain --json`.
    package func write(_ steps: [Step], _ json: inout JSONWriter) {
        json.array("steps", steps) { json, step in
            json.beginObject()
            json.field("step", step.name)
            json.field("text", step.text)
            json.endObject()
        }
        json.field("passes", status == 0)
        if status != 0 { json.field("status", Int(status)) }
        json.optional("code", code)
    }
}
