import Foundation
import TestThreads
import Testing

/// The way of spans to a collector that is well, slow, away or full.
@Suite(.ownThread) struct SpanExportTests {
    private func settings(_ collector: String, _ upstream: Upstream, _ more: String = "") -> String {
        "\(collector)\nTOLLGATE_UPSTREAM_U=\"\(upstream.url)\"\nTOLLGATE_ROUTE_OPEN=\"/open/* upstream=u auth=none\"\n\(more)"
    }

    private func dropped(_ gateway: Gateway, _ reason: String) throws -> Double {
        try gateway.metric("tollgate_spans_dropped_total", "reason=\"\(reason)\"")
    }
    private func exported(_ gateway: Gateway) throws -> Double { try gateway.metric("tollgate_spans_exported_total") }

    @Test func aCollectorThatHasNoRoomIsAskedAgainAndOneThatRefusesIsNot() throws {
        let answers = Watched(["429 Slow\r\nRetry-After: 0", "503 Busy\r\nRetry-After: 0", "200 OK", "400 Bad", "200 OK"])
        let collector = try Collector { _, connection in
            let answer = answers.now.first ?? "200 OK"
            answers.change { $0 = Array($0.dropFirst()) }
            try connection.send("HTTP/1.1 \(answer)\r\nContent-Length: 0\r\n\r\n")
        }
        let upstream = try Upstream()
        let gateway = try Gateway(
            settings(collector.setting, upstream, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20header-secret,x-scope=a"))
        try gateway.ask("GET /open/1")
        try eventually("the spans are taken") { try exported(gateway) == 2 }
        #expect(collector.requests.count == 3 && Set(collector.requests.map(\.text)).count == 1, "the same batch three times")
        #expect(collector.requests.allSatisfy { $0["authorization"] == "Bearer header-secret" && $0["x-scope"] == "a" })
        try gateway.waitForLog("takes spans again")
        try gateway.ask("GET /open/2")
        try eventually("the spans are refused") { try dropped(gateway, "refused") == 2 }
        try gateway.ask("GET /open/3")
        try eventually("the next ones are taken") { try exported(gateway) == 4 }
        #expect(collector.requests.count == 5)
        #expect(!gateway.process.complaints.now.contains { $0.contains("secret") })
    }

    @Test func aCollectorThatIsAwayCostsSpansAndNothingElse() throws {
        let (away, upstream) = (try Listening.refusing(), try Upstream())
        let collector = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:\(away.port)\nOTEL_BSP_SCHEDULE_DELAY=20"
        let gateway = try Gateway(
            settings(collector, upstream, "OTEL_BSP_EXPORT_TIMEOUT=100\nOTEL_BSP_MAX_QUEUE_SIZE=10\nOTEL_BSP_MAX_EXPORT_BATCH_SIZE=10"))
        let connection = try gateway.connect()
        for number in 0..<100 { #expect(try connection.ask("GET /open/\(number)").status == 200) }
        try gateway.waitForLog("does not take spans")
        try eventually("all are dropped or wait") {
            let lost = try dropped(gateway, "unavailable") + dropped(gateway, "queue")
            let waiting = try gateway.metric("tollgate_spans_queued")
            return lost + waiting == 200 && waiting <= 20
        }
        #expect(try exported(gateway) == 0)
        #expect(try gateway.stop() == 0)
    }

    @Test func aFloodBeyondTheQueueIsCountedToTheLastSpan() throws {
        let (isOpen, upstream) = (Watched(false), try Upstream())
        let collector = try Collector { _, connection in
            try isOpen.wait(for: "the end of the flood", seconds: 60) { $0 }
            try connection.send(Collector.taken)
        }
        let gateway = try Gateway(
            settings(
                collector.setting, upstream,
                "OTEL_BSP_MAX_QUEUE_SIZE=64\nOTEL_BSP_MAX_EXPORT_BATCH_SIZE=64\nOTEL_EXPORTER_OTLP_TIMEOUT=60000"))
        let connection = try gateway.connect()
        for _ in 0..<1_500 { #expect(try connection.ask("GET /open/x").status == 200) }
        try eventually("the queue is full") { try dropped(gateway, "queue") > 0 }
        isOpen.change { $0 = true }
        try eventually("every span is accounted for") {
            let lost = try dropped(gateway, "queue") + dropped(gateway, "worker")
            return try exported(gateway) + lost == 3_000
        }
        #expect(try Double(collector.spans().count) == exported(gateway))
    }

    @Test func theLastSpansAreSentBeforeTheGatewayEnds() throws {
        let (collector, upstream) = (try Collector(), try Upstream())
        let gateway = try Gateway(
            settings(
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=\(collector.url)/own/path", upstream,
                "OTEL_BSP_SCHEDULE_DELAY=600000\nTOLLGATE_WORKERS=2"))
        for number in 0..<10 { #expect(try gateway.ask("GET /open/\(number)").status == 200) }
        #expect(collector.requests.isEmpty)
        #expect(try gateway.stop() == 0)
        #expect(try collector.spans().filter { $0.kind == 2 }.count == 10)
        #expect(collector.requests.first?.startLine == "POST /own/path HTTP/1.1")
    }

    @Test func aCollectorThatDoesNotAnswerDoesNotHoldUpTheEnd() throws {
        let upstream = try Upstream()
        let collector = try Collector { _, connection in _ = connection.takeRest() }
        let gateway = try Gateway(settings(collector.setting, upstream))
        #expect(try gateway.ask("GET /open/x").status == 200)
        try eventually("the spans are sent") { !collector.requests.isEmpty }
        #expect(try gateway.ask("GET /open/x").status == 200, "requests go on")
        #expect(try gateway.stop(seconds: 20) == 0)
    }

    @Test func aCollectorsCertificateIsCheckedAgainstTheAuthoritiesOfItsSetting() throws {
        let folder = try Folder()
        let (authority, stranger) = (try CertificateAuthority(folder), try CertificateAuthority(Folder()))
        try authority.issue("collector", "DNS:localhost")
        let (collector, upstream) = (try Collector(), try Upstream())
        // Each batch comes on a connection of its own.
        let server =
            "ssl_certificate \(folder.file("collector.crt")); ssl_certificate_key \(folder.file("collector.key")); keepalive_timeout 0;"
        let front = try Nginx("\(server) location / { proxy_pass \(collector.url); }", tls: true)
        let collectorLines =
            "OTEL_EXPORTER_OTLP_ENDPOINT=https://localhost:\(front.port)\nOTEL_BSP_SCHEDULE_DELAY=20\nOTEL_BSP_EXPORT_TIMEOUT=100"
        let gateway = try Gateway(settings(collectorLines, upstream), folder: folder)
        try gateway.ask("GET /open/1")
        try gateway.waitForLog("does not take spans")
        #expect(
            gateway.process.complaints.now.contains {
                $0.contains("does not take spans") && $0.contains("SSL certificate problem: unable to get local issuer certificate")
            })
        try eventually("they are dropped") { try dropped(gateway, "unavailable") == 2 }
        #expect(collector.requests.isEmpty)

        // A relative path begins at the env file.
        try gateway.reload(settings(collectorLines + "\nOTEL_EXPORTER_OTLP_CERTIFICATE=ca.crt", upstream))
        try gateway.ask("GET /open/2")
        _ = try collector.trace(of: "/open/2")
        try eventually("they are taken") { try exported(gateway) == 2 }

        // A file that changes counts from the next connection.
        try stranger.replace(authority.file)
        try gateway.ask("GET /open/3")
        try eventually("they are dropped") { try dropped(gateway, "unavailable") == 4 }
        #expect(try collector.spans().allSatisfy { $0["url.path"] != "/open/3" })
    }

    @Test func aCollectorThatAsksForACertificateGetsIt() throws {
        let folder = try Folder()
        let authority = try CertificateAuthority(folder)
        for name in ["collector", "gateway"] { try authority.issue(name, "DNS:localhost") }
        let (collector, upstream) = (try Collector(), try Upstream())
        let server =
            "ssl_certificate \(folder.file("collector.crt")); ssl_certificate_key \(folder.file("collector.key")); keepalive_timeout 0;"
        let client = "ssl_client_certificate \(authority.file); ssl_verify_client on;"
        let front = try Nginx("\(server) \(client) location / { proxy_pass \(collector.url); }", tls: true)
        let lines = """
            OTEL_EXPORTER_OTLP_ENDPOINT=https://localhost:\(front.port)
            OTEL_EXPORTER_OTLP_CERTIFICATE=ca.crt
            OTEL_BSP_SCHEDULE_DELAY=20
            OTEL_BSP_EXPORT_TIMEOUT=100
            """
        let gateway = try Gateway(settings(lines, upstream), folder: folder)
        try gateway.ask("GET /open/1")
        try gateway.waitForLog("does not take spans")
        #expect(collector.requests.isEmpty)

        let certificate = "\nOTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=gateway.crt\nOTEL_EXPORTER_OTLP_CLIENT_KEY=gateway.key"
        try gateway.reload(settings(lines + certificate, upstream))
        try gateway.ask("GET /open/2")
        _ = try collector.trace(of: "/open/2")
        // Those for traces alone win.
        let ofTraces = certificate.replacing("CLIENT", with: "TRACES_CLIENT") + certificate.replacing("gateway.", with: "collector.")
        try gateway.reload(settings(lines + ofTraces, upstream))
        try gateway.ask("GET /open/3")
        _ = try collector.trace(of: "/open/3")
        let doctor = try gateway.command(["doctor"])
        #expect(doctor.output.contains("collector https://localhost:\(front.port)/v1/traces: takes spans"), "\(doctor)")
    }

    @Test func aReloadTurnsTracesOnAndOff() throws {
        let (collector, upstream) = (try Collector(), try Upstream())
        let gateway = try Gateway(settings("", upstream))
        try gateway.ask("GET /open/before")
        try gateway.reload(settings(collector.setting, upstream))
        try gateway.ask("GET /open/on")
        _ = try collector.trace(of: "/open/on")
        let other = try Collector()
        try gateway.reload(settings(other.setting, upstream, "OTEL_SERVICE_NAME=renamed"))
        try gateway.ask("GET /open/moved")
        _ = try other.trace(of: "/open/moved")
        #expect(other.requests.first?.text.contains("renamed") == true)
        try gateway.reload(settings(other.setting, upstream, "OTEL_SDK_DISABLED=true"))
        try gateway.ask("GET /open/off")
        #expect(try gateway.stop() == 0)
        let paths = try (collector.spans() + other.spans()).compactMap { $0["url.path"] }
        #expect(Set(paths) == ["/open/on", "/open/moved"])
    }

    // MARK: readers that others wrote

    /// OpenTelemetry's own definition of the messages takes every field, and knows each.
    @Test(.enabled(if: PythonTools.hasTraceMessages)) func theMessagesAreThoseOfOpenTelemetry() throws {
        let (collector, upstream) = (try Collector(), try Upstream())
        let gateway = try Gateway(settings(collector.setting, upstream))
        try gateway.ask("GET /open/x?a", [TraceTests.parent(sampled: true), "User-Agent: \"q\" \\ \u{E9}"])
        let trace = try collector.trace(of: "/open/x")
        let read = try mustRun(
            PythonTools.python,
            [
                "-c",
                """
                import json, sys, base64
                from google.protobuf import json_format
                from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
                document = json.load(sys.stdin)
                # OTLP has ids in hexadecimal, where JSON of Protocol Buffers has base64.
                for resource in document["resourceSpans"]:
                    for scope in resource["scopeSpans"]:
                        for span in scope["spans"]:
                            for holder in [span] + span.get("links", []):
                                for name in ("traceId", "spanId", "parentSpanId"):
                                    if name in holder: holder[name] = base64.b64encode(bytes.fromhex(holder[name])).decode()
                request = json_format.ParseDict(document, ExportTraceServiceRequest(), ignore_unknown_fields=False)
                for span in request.resource_spans[0].scope_spans[0].spans:
                    print(span.trace_id.hex(), span.span_id.hex(), span.kind, span.name, span.end_time_unix_nano > span.start_time_unix_nano > 10**18, len(span.links))
                """,
            ], input: try #require(collector.requests.last).text)
        #expect(read.split(separator: "\n").contains("\(trace.request.trace) \(trace.request.id) 2 GET /open/* True 1"), "\(read)")
    }

    @Test(.enabled(if: PythonTools.hasMetricsReader)) func scrapersOfOpenMetricsFindTheTraceOfARequest() throws {
        let (collector, upstream) = (try Collector(), try Upstream())
        let gateway = try Gateway(settings(collector.setting, upstream))
        try gateway.ask("GET /open/x")
        let trace = try collector.trace(of: "/open/x").request
        let accept = ["Host: localhost", "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5"]
        let exposition = try Connection(port: gateway.adminPort).ask("GET /metrics", accept)
        #expect(exposition["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8")
        let read = try mustRun(
            PythonTools.python,
            [
                "-c",
                """
                import sys
                from prometheus_client.openmetrics.parser import text_string_to_metric_families
                for family in text_string_to_metric_families(sys.stdin.read()):
                    for sample in family.samples:
                        if sample.exemplar: print(family.name, sample.exemplar.labels["trace_id"], sample.exemplar.labels["span_id"])
                """,
            ], input: exposition.text)
        #expect(read == "tollgate_http_request_duration_seconds \(trace.trace) \(trace.id)", "\(read)")
    }
}
