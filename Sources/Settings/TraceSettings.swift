package import Telemetry
internal import Wire

/// The settings of traces: the variables of OpenTelemetry's specification, read as it says.
package struct TraceSettings: Equatable, Sendable {
    package var isDisabled = false
    /// The base URL of the collector; nil: none.
    package var endpoint: String?
    /// The collector's URL for traces alone, used as it is.
    package var tracesEndpoint: String?
    /// Fields of each request to the collector; their values are secrets.
    package var headers: [TraceField] = []
    /// PEM file of the CAs for the collector's certificate; nil for the system's.
    package var authorityFile: String?
    /// PEM files of the certificate that the collector asks its clients for, with its chain, and of its key; nil for none.
    package var clientCertificate: String?
    package var clientKey: String?
    package var timeoutMilliseconds = 0
    /// nil: that of `resource`, else `tollgate`.
    package var serviceName: String?
    package var resource: [TraceField] = []
    package var sampler = ""
    /// 0 to 1.
    package var share = 1.0
    package var limits = SpanExportQueue.Limits()

    /// Where spans go; nil while no traces are recorded.
    package var url: String? {
        guard !isDisabled else { return nil }
        if let tracesEndpoint { return tracesEndpoint }
        return endpoint.map { ($0.hasSuffix("/") ? String($0.dropLast()) : $0) + "/v1/traces" }
    }

    /// nil while no traces are recorded.
    package var recordedShare: TraceSampler? {
        guard url != nil, let sampler = TraceSampler(name: sampler, share: share), !sampler.isOff else { return nil }
        return sampler
    }
}

extension Setting {
    static let sdkDisabled = Setting(
        "OTEL_SDK_DISABLED", .value(\.tracing.isDisabled, .flag([("false", false), ("true", true)])), default: "false",
        "Whether no traces are recorded, whatever the rest says.")
    static let otlpEndpoint = Setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT", .traceEndpoint(\.tracing.endpoint), shown: "no traces",
        "The collector of traces, by its base URL: `http://127.0.0.1:4318`; spans are posted to `/v1/traces` below it. See [traces](traces.md)."
    )
    static let otlpTracesEndpoint = Setting(
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", .traceEndpoint(\.tracing.tracesEndpoint), shown: "the one above, and `/v1/traces`",
        "The collector's whole URL for traces, path included.")
    static let otlpHeaders = Setting(
        "OTEL_EXPORTER_OTLP_HEADERS", .traceHeaders, secret: true,
        "Fields of every request to the collector, such as its key: `name=value,name=value`, values percent-encoded.")
    package static let otlpCertificate = Setting(
        "OTEL_EXPORTER_OTLP_CERTIFICATE", .traceAuthority, shown: "the system's authorities",
        "PEM file of the CAs that the collector's certificate is checked against. A changed file counts from the next connection.")
    package static let otlpClientCertificate = Setting(
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", .traceFile(\.tracing.clientCertificate), shown: "no certificate",
        "PEM file of the certificate, with its chain, that this gateway shows to a collector that asks for one (mTLS). A changed file counts from the next connection."
    )
    package static let otlpClientKey = Setting(
        "OTEL_EXPORTER_OTLP_CLIENT_KEY", .traceFile(\.tracing.clientKey), "PEM file of that certificate's key, without a passphrase.")
    package static let otlpTracesClientCertificate = Setting(
        "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", .traceFile(\.tracing.clientCertificate),
        shown: "`OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`",
        "In place of it, for traces alone.")
    package static let otlpTracesClientKey = Setting(
        "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", .traceFile(\.tracing.clientKey), shown: "`OTEL_EXPORTER_OTLP_CLIENT_KEY`",
        "In place of it, for traces alone.")
    static let otlpTimeout = Setting(
        "OTEL_EXPORTER_OTLP_TIMEOUT", .value(\.tracing.timeoutMilliseconds, .count(1...600_000)), default: "10000",
        "The time of one request to the collector, in milliseconds.")
    static let otlpProtocol = Setting(
        "OTEL_EXPORTER_OTLP_PROTOCOL", .traceProtocol, default: "http/json",
        "The form of what the collector gets. Only `http/json`, which collectors take where they take `http/protobuf`.")
    static let serviceName = Setting(
        "OTEL_SERVICE_NAME", .traceServiceName, shown: "`service.name` of `OTEL_RESOURCE_ATTRIBUTES`, else `tollgate`",
        "The name of this service in traces.")
    static let resourceAttributes = Setting(
        "OTEL_RESOURCE_ATTRIBUTES", .traceResource,
        "Further attributes of all spans: `deployment.environment.name=prod,k8s.pod.name=a`, values percent-encoded.")
    static let tracesSampler = Setting(
        "OTEL_TRACES_SAMPLER", .value(\.tracing.sampler, .choice(TraceSampler.names) { $0 }), default: "parentbased_always_on",
        "Which requests are recorded. With `parentbased_…`, a trusted proxy's or internal caller's decision counts first.")
    static let tracesSamplerArgument = Setting(
        "OTEL_TRACES_SAMPLER_ARG", .traceShare, default: "1.0", "The share that ratios record, 0 to 1: `0.01` is one request of a hundred.")
    static let spanDelay = Setting(
        "OTEL_BSP_SCHEDULE_DELAY", .value(\.tracing.limits.delay, .count(1...600_000)), default: "5000",
        "The time that a span waits for others at most, in milliseconds.")
    static let spanQueue = Setting(
        "OTEL_BSP_MAX_QUEUE_SIZE", .value(\.tracing.limits.queued, .count(1...1_048_576)), default: "2048",
        "The maximum number of spans that wait for the collector; further ones are dropped and counted.")
    static let spanBatch = Setting(
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", .value(\.tracing.limits.batch, .count(1...65_536)), default: "512",
        "The maximum number of spans in one request to the collector.")
    static let spanTimeout = Setting(
        "OTEL_BSP_EXPORT_TIMEOUT", .value(\.tracing.limits.timeout, .count(1...3_600_000)), default: "30000",
        "The time for which a batch is tried, in milliseconds; then it is dropped and counted.")

    static let traces = [
        sdkDisabled, otlpEndpoint, otlpTracesEndpoint, otlpHeaders, otlpCertificate, otlpClientCertificate, otlpClientKey,
        otlpTracesClientCertificate, otlpTracesClientKey, otlpTimeout, otlpProtocol, serviceName, resourceAttributes, tracesSampler,
        tracesSamplerArgument, spanDelay, spanQueue, spanBatch, spanTimeout,
    ]
}

extension SettingReader {
    /// The URL of a collector, which must not be that of its gRPC port.
    fileprivate static func traceEndpoint(_ path: Path<String?>) -> SettingReader {
        SettingReader(path) { reader, setting in
            let url = reader.text(setting).isEmpty ? nil : reader.parse(setting, OptionForm<String>.url)
            if let url, url.contains(":4317") {
                let entry = reader.values.entry(setting)
                let text = "names port 4317, where collectors speak gRPC; they take http/json at port 4318"
                reader.findings.warn(Finding(entry.origin, entry.name, text))
            }
            return .some(url)
        }
    }

    fileprivate static let traceAuthority = traceFile(\.tracing.authorityFile)

    /// A file for TLS with the collector, looked at only if there is one, as the form. An empty setting leaves what an earlier one says.
    fileprivate static func traceFile(_ path: Path<String?>) -> SettingReader {
        SettingReader(path) { reader, setting in
            let entry = reader.values.entry(setting)
            guard !entry.value.isEmpty, let url = reader.configuration.tracing.url else {
                return .some(reader.configuration[keyPath: path])
            }
            if url.hasPrefix("http://") {
                reader.findings.warn(
                    Finding(entry.origin, entry.name, "has no effect on a collector over plain HTTP, write https:// in its URL"))
            }
            return .some(entry.origin.path(entry.value))
        }
    }

    /// Only a fault if there is a collector: the variable may be meant for other programs.
    fileprivate static let traceProtocol = SettingReader { reader, setting in
        let name = reader.text(setting)
        guard name != "http/json", reader.configuration.tracing.url != nil else { return }
        reader.fault(
            setting, "\(quoted(name)) is not spoken here, write http/json; collectors take it where they take http/protobuf, at port 4318")
    }

    fileprivate static let traceServiceName = SettingReader(\.tracing.serviceName) { reader, setting in
        .some(reader.text(setting).isEmpty ? nil : reader.text(setting))
    }

    fileprivate static let traceShare = SettingReader(\.tracing.share) { reader, setting in
        reader.parse(setting, reader.text(setting)) { text throws(ParseError) in
            guard let share = Double(text), (0...1).contains(share) else {
                throw ParseError("is no share, write one from 0 to 1, like 0.01")
            }
            return share
        }
    }

    fileprivate static let traceResource = SettingReader(\.tracing.resource) { reader, setting in
        do throws(ParseError) {
            return try TraceFieldList.parse(reader.text(setting))
        } catch {
            reader.fault(setting, error.text)
            return nil
        }
    }

    fileprivate static let traceHeaders = SettingReader(\.tracing.headers) { reader, setting in
        guard let bytes = reader.values.secret(setting)?.bytes else { return [] }
        do throws(ParseError) {
            let fields = try TraceFieldList.parse(String(decoding: bytes, as: UTF8.self))
            for field in fields { try TraceFieldList.checkHeader(field) }
            return fields
        } catch {
            reader.secretFault(setting, error.text)
            return nil
        }
    }
}

/// Parser of `name=value,name=value`, whose values are percent-encoded (the form of W3C Baggage, without properties).
enum TraceFieldList {
    static func parse(_ text: String) throws(ParseError) -> [TraceField] {
        var fields: [TraceField] = []
        for (number, part) in text.split(separator: ",").enumerated() {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map { $0.trimmingBlanks }
            // The text may be a secret, so the message has none of it.
            guard sides.count == 2, !sides[0].isEmpty else {
                throw ParseError("has a part \(number + 1) that is no name=value, write name=value,name=value")
            }
            guard let name = PercentEncoding.decode(sides[0].utf8), let value = PercentEncoding.decode(sides[1].utf8) else {
                throw ParseError("has a % in its part \(number + 1) that is not followed by two hexadecimal digits, write %25 for a %")
            }
            fields.append(TraceField(name: String(decoding: name, as: UTF8.self), value: String(decoding: value, as: UTF8.self)))
        }
        return fields
    }

    /// Throws unless it can be a field of HTTP.
    static func checkHeader(_ field: TraceField) throws(ParseError) {
        let isToken = field.name.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "!#$%&'*+-.^_`|~".utf8.contains($0) }
        let isText = field.value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 9 }
        guard isToken, isText else {
            throw ParseError("has a name or a value that no field of HTTP has, write like authorization=Bearer%20KEY")
        }
    }
}

extension Substring {
    fileprivate var trimmingBlanks: Substring {
        var text = self
        while text.first == " " || text.first == "\t" { text.removeFirst() }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }
}
