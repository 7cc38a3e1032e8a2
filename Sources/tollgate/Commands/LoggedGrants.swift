internal import Gate
internal import Telemetry
internal import Transport
internal import Wire

/// The requests in access logs that a limit admitted. Each line has the limit's key, its rate, and the time by the clock of Redis or
/// the gateway, whichever counted.
struct LoggedGrants {
    private(set) var verifier = LimitVerifier()
    /// The first route seen for each limit.
    private(set) var routes: [LimitVerifier.Subject: String] = [:]
    private(set) var lines = 0
    /// The number of lines that are no JSON object.
    private(set) var unreadable = 0
    /// The number of requests that were admitted uncounted because Redis did not answer (failure mode `open`).
    private(set) var uncounted = 0

    /// Adds the lines of a file; `-` is standard input. `terminal` as in `ProgressLine`.
    mutating func read(_ path: String, _ terminal: (@Sendable (String) -> Void)? = nil) throws(SystemFault) {
        var file = try FileLines(path)
        var progress = ProgressLine(terminal, total: file.size, unit: "lines")
        defer { progress.end() }
        var line = ByteBuffer()
        while try file.next(into: &line) {
            guard !line.isEmpty else { continue }
            lines += 1
            progress.advance(bytes: file.bytesRead, units: lines)
            do throws(JSONFault) {
                try add(line.readable)
            } catch {
                unreadable += 1
            }
        }
    }

    /// The relevant fields of a line.
    private struct Fields {
        var policy = ""
        var keys = ""
        var at: Int64 = 0
        var outcome = ""
        var source = ""
        var streamEvent = ""
    }

    private static let passed = [LimitOutcome.Result.admitted, .open].map(\.text.description)

    private mutating func add(_ line: RawSpan) throws(JSONFault) {
        let fields = try Self.fields(line)
        // A stream's first line repeats what its last one says.
        guard fields.at > 0, fields.streamEvent != "open", Self.passed.contains(fields.outcome) else { return }
        if fields.outcome != Self.passed[0] { uncounted += 1 }
        for grant in fields.keys.split(separator: " ") {
            let parts = grant.split(separator: "@", maxSplits: 1)
            guard parts.count == 2, let key = LimitKey(parsing: String(parts[0])),
                let named = LimitRate(parsing: String(parts[1])),
                let rate = fields.source == LimitOutcome.Source.process.text.description ? named.exact : named
            else { continue }
            let subject = LimitVerifier.Subject(key: key, rate: rate)
            verifier.add(subject, at: UInt64(fields.at))
            if routes[subject] == nil { routes[subject] = fields.policy }
        }
    }

    private static func fields(_ line: RawSpan) throws(JSONFault) -> Fields {
        var fields = Fields()
        var reader = JSONReader(line)
        guard try reader.next() == .beginObject else { return fields }
        while true {
            guard case .key(let key) = try reader.next() else { return fields }
            if reader.text(key, equals: AccessField.limitAt.name) {
                if case .number(let number) = try reader.next() { fields.at = reader.integer(number) ?? 0 }
            } else if let text = field(reader, key) {
                if case .string(let value) = try reader.next() { fields[keyPath: text] = reader.string(value) }
            } else {
                try reader.skipValue()
            }
        }
    }

    private static func field(_ reader: borrowing JSONReader, _ key: JSONText) -> WritableKeyPath<Fields, String>? {
        if reader.text(key, equals: AccessField.limitKeys.name) { return \.keys }
        if reader.text(key, equals: AccessField.limitOutcome.name) { return \.outcome }
        if reader.text(key, equals: AccessField.limitSource.name) { return \.source }
        if reader.text(key, equals: AccessField.streamEvent.name) { return \.streamEvent }
        return reader.text(key, equals: AccessField.limitPolicy.name) ? \.policy : nil
    }
}

extension LimitRate {
    /// The rate without `+lease`: a gateway without Redis takes no leases.
    fileprivate var exact: LimitRate? { LimitRate(count: count, windowSeconds: windowSeconds, burst: burst) }
}
