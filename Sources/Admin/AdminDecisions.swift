package import Gate
package import Wire

extension ExplainedRefusal {
    /// Its members, in an object that is open.
    func write(_ json: inout JSONWriter) {
        json.field("request_id", requestID)
        json.field("time", ISO8601.text(at))
        json.field("method", method)
        json.field("host", host)
        json.field("path", path)
        explanation.write(explanation.steps, &json)
    }
}

extension Explanation {
    /// Its members with these steps, in an object that is open: as `explain --json` prints them.
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
