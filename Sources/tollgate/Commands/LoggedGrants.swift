internal import Gate
internal import Limits
internal import System
internal import Telemetry
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
    /// The numbers of the lines with limits, by the worker that wrote them.
    private var numbers: [String: (first: UInt64, last: UInt64, count: UInt64)] = [:]

    /// The number of lines with limits that are missing between others of the same worker.
    var missing: UInt64 { numbers.values.reduce(0) { $0 + max($1.last - $1.first + 1, $1.count) - $1.count } }
    /// The number of lines with limits that the workers wrote before the first that is here.
    var earlier: UInt64 { numbers.values.reduce(0) { $0 + $1.first - 1 } }

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
        var line = ""
        var streamEvent = ""
    }

    private static let passed = [LimitOutcome.Result.admitted, .open].map(\.text.description)

    private mutating func add(_ line: RawSpan) throws(JSONFault) {
        let fields = try Self.fields(line)
        count(fields.line)
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

    /// `number` is a worker's id and the number of the line.
    private mutating func count(_ number: String) {
        let parts = number.split(separator: ".")
        // Bounded, so that no sum overflows.
        guard parts.count == 2, let number = UInt64(parts[1]), (1...1 << 48).contains(number) else { return }
        let known = numbers[String(parts[0])] ?? (number, number, 0)
        numbers[String(parts[0])] = (min(known.first, number), max(known.last, number), known.count + 1)
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
        if reader.text(key, equals: AccessField.limitLine.name) { return \.line }
        if reader.text(key, equals: AccessField.streamEvent.name) { return \.streamEvent }
        return reader.text(key, equals: AccessField.limitPolicy.name) ? \.policy : nil
    }
}

extension LimitRate {
    /// The rate without `+lease`: a gateway without Redis takes no leases.
    fileprivate var exact: LimitRate? { LimitRate(count: count, windowSeconds: windowSeconds, burst: burst) }
}
