internal import Glibc
internal import Synchronization
internal import Telemetry
internal import Transport
internal import Wire

/// What the gateway itself has to say, a line at a time on standard error, from any thread.
struct ServerLog: Sendable {
    private let sink: LineSink
    private let line: LogLine
    private let threshold: LogThreshold

    init(_ configuration: Configuration) throws(SystemFault) {
        sink = try LineSink(descriptor: STDERR_FILENO)
        line = LogLine(configuration.accessLog == .text ? .text : .json)
        threshold = LogThreshold(Self.level(configuration))
    }

    /// Takes over the level of another configuration.
    func adopt(_ configuration: Configuration) { threshold.lowest = Self.level(configuration) }

    private static func level(_ configuration: Configuration) -> Telemetry.LogLevel {
        switch configuration.logLevel {
        case .debug: .debug
        case .info: .info
        case .warning: .warning
        case .error: .error
        }
    }

    func debug(_ message: StaticString, _ fields: (name: StaticString, value: String)...) { write(.debug, message, fields) }
    func info(_ message: StaticString, _ fields: (name: StaticString, value: String)...) { write(.info, message, fields) }
    func warning(_ message: StaticString, _ fields: (name: StaticString, value: String)...) { write(.warning, message, fields) }
    func error(_ message: StaticString, _ fields: (name: StaticString, value: String)...) { write(.error, message, fields) }

    private func write(
        _ level: Telemetry.LogLevel, _ message: StaticString, _ fields: [(name: StaticString, value: String)]
    ) {
        guard level >= threshold.lowest else { return }
        var out = ByteBuffer(capacity: 512)
        line.begin(level, message, at: EventLoop.now().wall, into: &out)
        for field in fields { line.add(field.name, field.value, to: &out) }
        line.end(into: &out)
        sink.write(out.readable)
    }

    /// Writes what waits. Once, at the end.
    func close() { sink.close() }
}

/// The lowest level that is written, shared by all copies of a log: a reload changes it while other threads write.
private final class LogThreshold: Sendable {
    private let level: Atomic<Int>

    init(_ level: Telemetry.LogLevel) { self.level = Atomic(level.rawValue) }

    var lowest: Telemetry.LogLevel {
        get { Telemetry.LogLevel(rawValue: level.load(ordering: .relaxed)) ?? .info }
        set { level.store(newValue.rawValue, ordering: .relaxed) }
    }
}
