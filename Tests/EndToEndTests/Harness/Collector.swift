import Foundation

/// A collector of traces: takes OTLP over HTTP in JSON.
final class Collector: Sendable {
    private let server: Upstream

    static let taken = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

    init(port: Int = 0, _ script: @escaping Upstream.Script = Upstream.saying(Collector.taken)) throws {
        server = try Upstream(port: port, script)
    }

    var url: String { server.url }
    var port: Int { server.port }
    var requests: [Message] { server.requests.now }

    /// The lines of an env file that send spans here soon.
    var setting: String { "OTEL_EXPORTER_OTLP_ENDPOINT=\(url)\nOTEL_BSP_SCHEDULE_DELAY=20" }

    func stop() { server.stop() }

    /// The spans of all requests so far, those that were sent again included.
    func spans() throws -> [Span] { try requests.flatMap { try Self.spans(of: $0) } }

    private static func spans(of request: Message) throws -> [Span] {
        try JSON(request.text)["resourceSpans"].array.flatMap { $0["scopeSpans"].array }.flatMap { $0["spans"].array }.map(Span.init)
    }

    /// Waits until spans have come that are what the test asks for.
    @discardableResult
    func wait(for what: String, until isReached: ([Span]) -> Bool) throws -> [Span] {
        try server.requests.wait(for: what) { requests in isReached((try? requests.flatMap { try Self.spans(of: $0) }) ?? []) }
        return try spans()
    }

    /// The spans of one trace, once that of the request, which comes last, is there.
    func trace(of path: String) throws -> Trace {
        let spans = try wait(for: "the trace of \(path)") { $0.contains { $0.kind == 2 && $0["url.path"] == path } }
        guard let request = spans.last(where: { $0.kind == 2 && $0["url.path"] == path }) else { throw Fault("no trace of \(path)") }
        return Trace(request: request, children: spans.filter { $0.trace == request.trace && $0.id != request.id })
    }
}

/// The span of a request and those below it.
struct Trace {
    let request: Span
    let children: [Span]

    func children(_ name: String) -> [Span] { children.filter { $0.name == name } }
}

/// A span as the collector got it.
struct Span: Sendable {
    let json: JSON
    let attributes: [String: String]

    init(_ json: JSON) {
        self.json = json
        var attributes: [String: String] = [:]
        for attribute in json["attributes"].array {
            attributes[attribute["key"].text ?? ""] = attribute["value"]["stringValue"].text ?? attribute["value"]["intValue"].text
        }
        self.attributes = attributes
    }

    subscript(_ attribute: String) -> String? { attributes[attribute] }

    var trace: String { json["traceId"].text ?? "" }
    var id: String { json["spanId"].text ?? "" }
    var parent: String? { json["parentSpanId"].text }
    var name: String { json["name"].text ?? "" }
    var kind: Int { json["kind"].int ?? 0 }
    var isError: Bool { json["status"]["code"].int == 2 }
    var start: UInt64 { UInt64(json["startTimeUnixNano"].text ?? "") ?? 0 }
    var end: UInt64 { UInt64(json["endTimeUnixNano"].text ?? "") ?? 0 }
}
