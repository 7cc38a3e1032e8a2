internal import Wire

/// The response of `tollgate echo`: the request as received.
enum EchoAnswer {
    /// A JSON object with `method`, `target`, `path`, `query`, `headers` (names in lower case, repeated fields joined by commas),
    /// `raw_headers` in order, `body` as text, and `body_bytes`.
    static func render(
        method: String, target: String, headers: [(name: String, value: String)], body: RawSpan
    ) -> [UInt8] {
        var json = JSONWriter()
        let mark = target.firstIndex(of: "?") ?? target.endIndex
        json.beginObject()
        json.field("method", method)
        json.field("target", target)
        json.field("path", String(target[..<mark]))
        json.field("query", String(target[mark...].dropFirst()))
        write(headers, &json)
        json.field("body", body)
        json.field("body_bytes", body.byteCount)
        json.endObject()
        var out = json.finish()
        out.append(UInt8(ascii: "\n"))
        return out.readable.array
    }

    private static func write(_ headers: [(name: String, value: String)], _ json: inout JSONWriter) {
        var names: [String] = []
        var values: [String: [String]] = [:]
        for header in headers {
            let name = header.name.lowercased()
            if values[name] == nil { names.append(name) }
            values[name, default: []].append(header.value)
        }
        json.key("headers" as StaticString)
        json.beginObject()
        for name in names {
            json.key(name)
            json.string((values[name] ?? []).joined(separator: ", "))
        }
        json.endObject()
        json.array("raw_headers", headers) { json, header in
            json.beginArray()
            json.string(header.name)
            json.string(header.value)
            json.endArray()
        }
    }
}
