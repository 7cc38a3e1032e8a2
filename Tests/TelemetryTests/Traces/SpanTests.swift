import Foundation
import Telemetry
import Testing
import Wire

/// Spans on their way from a worker to the collector's JSON.
@Suite struct SpanTests {
    private static let context = TraceContext(
        traceHigh: 0x0af7_6519_16cd_43dd, traceLow: 0x8448_eb21_1c80_319c, spanID: 0x00ad_6b71_6920_3331, isSampled: true)

    private static func record(_ subject: SpanSubject = .request, parent: UInt64 = 0) -> SpanRecord {
        SpanRecord(subject, context, parentID: parent, start: 1_700_000_000_123_456_789, end: 1_700_000_000_123_456_999)
    }

    /// The span's JSON, read by a parser that is not ours.
    private static func json(_ record: SpanRecord, _ attributes: borrowing SpanAttributes) throws -> [String: Any] {
        let text = SpanDocument.span(record, attributes.encoded)
        return try #require(try JSONSerialization.jsonObject(with: Data(text)) as? [String: Any])
    }

    private static func values(_ span: [String: Any]) throws -> [String: String] {
        var values: [String: String] = [:]
        for attribute in try #require(span["attributes"] as? [[String: Any]]) {
            let value = try #require(attribute["value"] as? [String: String])
            values[try #require(attribute["key"] as? String)] = value["stringValue"] ?? value["intValue"].map { "int \($0)" }
        }
        return values
    }

    @Test func aSpanHasTheFormOfOTLP() throws {
        var attributes = SpanAttributes()
        attributes.add(.method, "GET" as StaticString)
        attributes.add(.route, "/books/{id}" as StaticString)
        attributes.add(.status, 200)
        attributes.add(.clientAddress, IPAddress(parsing: "192.0.2.1")!)
        attributes.add(.userAgent, "a \"quoted\" \u{1F600}")
        let span = try Self.json(Self.record(), attributes)
        #expect(span["traceId"] as? String == "0af7651916cd43dd8448eb211c80319c")
        #expect(span["spanId"] as? String == "00ad6b7169203331" && span["parentSpanId"] == nil)
        #expect(span["kind"] as? Int == 2 && span["name"] as? String == "GET /books/{id}" && span["flags"] as? Int == 0x101)
        #expect(
            span["startTimeUnixNano"] as? String == "1700000000123456789" && span["endTimeUnixNano"] as? String == "1700000000123456999")
        #expect(
            try Self.values(span) == [
                "http.request.method": "GET", "http.route": "/books/{id}", "http.response.status_code": "int 200",
                "client.address": "192.0.2.1",
                "user_agent.original": "a \"quoted\" \u{1F600}",
            ])
        #expect((span["status"] as? [String: Any])?.isEmpty == true && span["links"] == nil)
    }

    @Test func parentLinkAndErrorAreToldWhereThereAreAny() throws {
        var record = Self.record(parent: 0xb7)
        record.parentIsRemote = true
        record.link = TraceContext(traceHigh: 1, traceLow: 2, spanID: 3)
        record.isError = true
        let span = try Self.json(record, SpanAttributes())
        #expect(span["parentSpanId"] as? String == "00000000000000b7" && span["flags"] as? Int == 0x301)
        #expect((span["status"] as? [String: Int]) == ["code": 2])
        let link = try #require((span["links"] as? [[String: Any]])?.first)
        #expect(link["traceId"] as? String == "00000000000000010000000000000002" && link["spanId"] as? String == "0000000000000003")
        #expect(span["name"] as? String == "HTTP", "a request without a route or a known method")
    }

    @Test func everySubjectHasAKindAndANameOfFewValues() throws {
        var attributes = SpanAttributes()
        attributes.add(.method, "_OTHER" as StaticString)
        attributes.add(.fullURL, "http://h/secret/path" as StaticString)
        let expected: [(SpanSubject, Int, String)] = [
            (.request, 2, "HTTP"), (.attempt, 3, "HTTP"), (.limits, 3, "EVALSHA limits"), (.refresh, 1, "refresh"),
            (.handler, 1, "handler"),
        ]
        for (subject, kind, name) in expected {
            let span = try Self.json(Self.record(subject), attributes)
            #expect(span["kind"] as? Int == kind && span["name"] as? String == name)
        }
    }

    @Test func textsOfAPeerAreBoundedAndAlwaysValid() throws {
        var random = SplitMix64(seed: 4)
        for _ in 0..<200 {
            var attributes = SpanAttributes()
            let bytes = (0..<Int.random(in: 0...2_000, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
            attributes.add(.path, bytes.rawBytes)
            attributes.add(.userAgent) { out in for byte in bytes { out.append(byte) } }
            attributes.add(.status, 200)
            let size = attributes.encoded.byteCount
            #expect(size <= 2 * (SpanAttributes.maxText + 3) + 9)
            let values = try Self.values(try Self.json(Self.record(), attributes))
            #expect(values["http.response.status_code"] == "int 200", "what follows a truncated text is still there")
        }
    }

    @Test func aFullBufferDropsAndCountsAndIsReusable() {
        var buffer = SpanBuffer()
        buffer.reserve()
        var attributes = SpanAttributes()
        attributes.add(.path, String(repeating: "p", count: 400))
        for _ in 0..<SpanBuffer.maxSpans + 10 { buffer.append(Self.record(), attributes.encoded) }
        var (count, dropped) = (buffer.count, buffer.dropped)
        #expect(count == SpanBuffer.maxSpans && dropped == 10)
        var lengths: Set<Int> = []
        buffer.forEach { lengths.insert($1.byteCount) }
        #expect(lengths == [403])
        buffer.removeAll()
        let isEmpty = buffer.isEmpty
        #expect(isEmpty)

        for _ in 0..<3 { attributes.add(.userAgent, String(repeating: "u", count: 500)) }
        for _ in 0..<SpanBuffer.maxSpans { buffer.append(Self.record(), attributes.encoded) }
        (count, dropped) = (buffer.count, buffer.dropped)
        #expect(count < SpanBuffer.maxSpans, "bounded in bytes, too")
        #expect(count + Int(dropped) == SpanBuffer.maxSpans)

        var other = SpanBuffer()
        other.append(contentsOf: buffer)
        let (moved, lost) = (other.count, other.dropped)
        #expect(moved == count && lost == dropped)
    }

    @Test func theResourceNamesTheServiceOnce() {
        let given = [TraceField(name: "service.name", value: "given"), TraceField(name: "deployment.environment.name", value: "prod")]
        let named = TraceResource(serviceName: "named", given: given, instance: "i").attributes
        #expect(named.filter { $0.name == "service.name" }.map(\.value) == ["named"])
        #expect(named.contains(given[1]) && named.contains(TraceField(name: "service.instance.id", value: "i")))
        #expect(
            TraceResource(serviceName: nil, given: given, instance: "i").attributes.filter { $0.name == "service.name" }.map(\.value) == [
                "given"
            ])
        #expect(
            TraceResource(serviceName: nil, given: [], instance: "i").attributes.first
                == TraceField(name: "service.name", value: "tollgate"))
    }
}
