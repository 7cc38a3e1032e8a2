import Telemetry
import Testing
import Wire

@testable import Settings

/// The variables of OpenTelemetry, as its specification reads them.
@Suite struct TraceSettingTests {
    private func tracing(_ lines: String...) throws -> TraceSettings {
        let loaded = load((lines + [oneRoute]).joined(separator: "\n"))
        try #require(loaded.findings.faults == [])
        return try #require(loaded.configuration).tracing
    }

    @Test func withoutACollectorNothingIsRecorded() throws {
        let tracing = try tracing("OTEL_TRACES_SAMPLER=always_on")
        #expect(tracing.url == nil && tracing.recordedShare == nil)
        #expect(try self.tracing("OTEL_EXPORTER_OTLP_PROTOCOL=grpc").url == nil, "meant for other programs")
        #expect(try self.tracing("OTEL_EXPORTER_OTLP_ENDPOINT=").url == nil, "an empty variable counts as not set")
    }

    @Test func theDefaultsAreTheSpecifications() throws {
        let tracing = try tracing("OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318")
        #expect(tracing.url == "http://c:4318/v1/traces" && tracing.recordedShare == TraceSampler(share: 1, followsParent: true))
        #expect(tracing.timeoutMilliseconds == 10_000 && tracing.limits == SpanExportQueue.Limits() && tracing.serviceName == nil)
    }

    @Test func theCollectorsAddressIsABaseAndThatForTracesIsWhole() throws {
        #expect(try tracing("OTEL_EXPORTER_OTLP_ENDPOINT=https://c/base/").url == "https://c/base/v1/traces")
        #expect(try tracing("OTEL_EXPORTER_OTLP_ENDPOINT=https://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://d/x").url == "http://d/x")
    }

    @Test(arguments: ["OTEL_SDK_DISABLED=true", "OTEL_TRACES_SAMPLER=always_off"]) func tracesCanBeTurnedOff(_ line: String) throws {
        #expect(try tracing("OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", line).recordedShare == nil)
    }

    @Test func listsArePercentDecoded() throws {
        let tracing = try tracing(
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", "OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer%20a=b, x-scope = 1'",
            "OTEL_RESOURCE_ATTRIBUTES=service.name=a%2Cb,k8s.pod.name=p", "OTEL_TRACES_SAMPLER=parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG=0.25")
        #expect(tracing.headers == [TraceField(name: "authorization", value: "Bearer a=b"), TraceField(name: "x-scope", value: "1")])
        #expect(tracing.resource == [TraceField(name: "service.name", value: "a,b"), TraceField(name: "k8s.pod.name", value: "p")])
        #expect(tracing.recordedShare == TraceSampler(share: 0.25, followsParent: true))
    }

    @Test func anAuthorityWithoutTLSIsWarnedOf() throws {
        let file = "OTEL_EXPORTER_OTLP_CERTIFICATE='my ca.pem'\n"
        let secure = load(file + "OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318\n" + oneRoute, name: "etc/a.env")
        #expect(secure.findings.warnings == [] && secure.partial.tracing.authorityFile == "etc/my ca.pem")
        #expect(
            warnings(file + "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318\n" + oneRoute) == [
                "a.env:1: OTEL_EXPORTER_OTLP_CERTIFICATE: has no effect on a collector over plain HTTP, write https:// in its URL"
            ])
        #expect(try tracing(file).authorityFile == nil, "meant for other programs")
    }

    @Test func aClientCertificateOfTracesWinsEachFileForItself() throws {
        let files = [
            "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE=c2", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=c1",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY=k1",
        ]
        let collector = "OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318"
        let one = load((files.dropFirst() + [collector, oneRoute]).joined(separator: "\n"), name: "etc/a.env").partial.tracing
        #expect(one.clientCertificate == "etc/c1" && one.clientKey == "etc/k1")
        let two = load((files + [collector, oneRoute]).joined(separator: "\n"), name: "etc/a.env").partial.tracing
        #expect(two.clientCertificate == "etc/c2" && two.clientKey == "etc/k1")
        let none = load((files + [oneRoute]).joined(separator: "\n"), name: "etc/a.env").partial.tracing
        #expect(none.clientCertificate == nil && none.clientKey == nil, "meant for other programs")
    }

    @Test func thePortOfGRPCIsWarnedOf() {
        let loaded = load("OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317\n" + oneRoute)
        #expect(loaded.findings.warnings.contains { $0.text.contains("names port 4317, where collectors speak gRPC") })
    }
}
