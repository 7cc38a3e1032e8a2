import Wire

/// The resource of all spans: the program that recorded them, as `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say.
package struct TraceResource: Equatable, Sendable {
    package var attributes: [TraceField]

    /// `given` wins over the gateway's own attributes; a service name over that of `given`.
    package init(serviceName: String?, given: [TraceField], instance: String) {
        var attributes = given
        if let serviceName {
            attributes.removeAll { $0.name == "service.name" }
            attributes.insert(TraceField(name: "service.name", value: serviceName), at: 0)
        }
        let own = [
            ("service.name", "tollgate"), ("service.version", Version.text), ("service.instance.id", instance),
            ("telemetry.sdk.name", "tollgate"), ("telemetry.sdk.language", "swift"), ("telemetry.sdk.version", Version.text),
        ]
        for (name, value) in own where !attributes.contains(where: { $0.name == name }) {
            attributes.append(TraceField(name: name, value: value))
        }
        self.attributes = attributes
    }
}

/// A name with its value, of `OTEL_RESOURCE_ATTRIBUTES` or `OTEL_EXPORTER_OTLP_HEADERS`.
package struct TraceField: Equatable, Sendable {
    package var name: String
    package var value: String

    package init(name: String, value: String) {
        self.name = name
        self.value = value
    }
}

/// Spans in the JSON form of OTLP 1.x (`ExportTraceServiceRequest`): ids in hexadecimal, 64-bit integers as strings, enumerations as
/// numbers.
package enum SpanDocument {
    /// The body of a request that exports these spans, each as `span` wrote it.
    package static func render(_ spans: ArraySlice<[UInt8]>, of resource: TraceResource) -> [UInt8] {
        var out = ByteBuffer(capacity: 512 + spans.reduce(0) { $0 + $1.count + 1 })
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            json.key("resourceSpans")
            json.beginArray()
            json.beginObject()
            json.key("resource")
            json.beginObject()
            json.array("attributes", resource.attributes) { json, field in
                json.attribute {
                    $0.field("key", field.name)
                } value: {
                    $0.field("stringValue", field.value)
                }
            }
            json.endObject()
            json.key("scopeSpans")
            json.beginArray()
            json.beginObject()
            json.key("scope")
            json.beginObject()
            json.field("name", "tollgate")
            json.field("version", Version.text)
            json.endObject()
            json.key("spans")
            json.beginArray()
            for span in spans { json.verbatim(span.rawBytes) }
            json.endArray()
            json.endObject()
            json.endArray()
            json.endObject()
            json.endArray()
            json.endObject()
        }
        return out.readable.array
    }

    /// One span as a JSON object.
    package static func span(_ record: SpanRecord, _ encoded: RawSpan) -> [UInt8] {
        var out = ByteBuffer(capacity: 1_024)
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            json.ids(record.context)
            if record.parentID != 0 { json.field("parentSpanId", hex(record.parentID)) }
            // The trace flags of W3C, and whether the parent is remote.
            json.field("flags", 0x1 | 0x100 | (record.parentIsRemote ? 0x200 : 0))
            json.field("name", record.subject.name(encoded))
            json.field("kind", record.subject.kind)
            json.field("startTimeUnixNano", "\(record.start)")
            json.field("endTimeUnixNano", "\(record.end)")
            json.key("attributes")
            json.beginArray()
            var walk = SpanAttributeWalk(encoded)
            while let (key, number, text) = walk.next() {
                json.attribute {
                    $0.field("key", key.name)
                } value: { json in
                    if key.isNumber { json.field("intValue", "\(number)") } else { json.field("stringValue", encoded.extracting(text)) }
                }
            }
            json.endArray()
            if let link = record.link {
                json.key("links")
                json.beginArray()
                json.beginObject()
                json.ids(link)
                json.field("flags", (link.isSampled ? 0x1 : 0) | 0x300)
                json.endObject()
                json.endArray()
            }
            json.key("status")
            json.beginObject()
            if record.isError { json.field("code", 2) }
            json.endObject()
            json.endObject()
        }
        return out.readable.array
    }

    fileprivate static func hex(_ id: UInt64) -> String {
        var out = ByteBuffer(capacity: 16)
        out.append(hex: id, digits: 16)
        return out.readable.text
    }
}

extension JSONWriter {
    fileprivate mutating func ids(_ context: TraceContext) {
        var out = ByteBuffer(capacity: 32)
        context.writeTraceID(into: &out)
        field("traceId", out.readable)
        field("spanId", SpanDocument.hex(context.spanID))
    }

    /// An attribute (`KeyValue`).
    fileprivate mutating func attribute(_ key: (inout JSONWriter) -> Void, value: (inout JSONWriter) -> Void) {
        beginObject()
        key(&self)
        self.key("value")
        beginObject()
        value(&self)
        endObject()
        endObject()
    }
}

extension SpanSubject {
    /// `Span.SpanKind`.
    fileprivate var kind: Int {
        switch self {
        case .refresh, .handler: 1
        case .request: 2
        case .attempt, .limits: 3
        }
    }

    /// The span's name, of few values: a request's has its route's path, never its own.
    fileprivate func name(_ encoded: RawSpan) -> String {
        switch self {
        case .limits: return "EVALSHA limits"
        case .refresh: return "refresh"
        case .handler: return "handler"
        case .request, .attempt: break
        }
        var method = "HTTP", route = ""
        var walk = SpanAttributeWalk(encoded)
        while let (key, _, text) = walk.next() {
            // `_OTHER` is no word for a name.
            if key == .method, encoded[text.lowerBound] != UInt8(ascii: "_") { method = encoded.extracting(text).text }
            if key == .route { route = encoded.extracting(text).text }
        }
        return route.isEmpty ? method : "\(method) \(route)"
    }
}
