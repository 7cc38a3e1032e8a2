internal import Glibc
internal import Settings
internal import Synchronization
internal import System
internal import Telemetry
internal import Threads
internal import Transport
internal import Wire

/// The gateway's log: lines on standard error, from any thread. Copies share the sink and the level.
struct ServerLog: Sendable {
    typealias Field = (name: StaticString, value: String)

    private let sink: LineSink
    private let line: LogLine
    private let threshold: LogThreshold

    init(_ settings: Configuration) throws(SystemFault) {
        sink = try LineSink(descriptor: STDERR_FILENO)
        line = LogLine(settings.accessLog == .text ? .text : .json)
        threshold = LogThreshold(settings.logLevel)
    }

    /// Adopts the level of another configuration.
    func adopt(_ settings: Configuration) { threshold.lowest = settings.logLevel }

    func debug(_ message: StaticString, _ fields: Field...) { write(.debug, message, fields) }
    func info(_ message: StaticString, _ fields: Field...) { write(.info, message, fields) }
    func warning(_ message: StaticString, _ fields: Field...) { write(.warning, message, fields) }
    func error(_ message: StaticString, _ fields: Field...) { write(.error, message, fields) }

    func write(_ level: LogLevel, _ message: StaticString, _ fields: [Field]) {
        guard level >= threshold.lowest else { return }
        var out = ByteBuffer(capacity: 512)
        line.begin(level, message, at: EventLoop.now().wall, into: &out)
        for field in fields { line.add(field.name, field.value, to: &out) }
        line.end(into: &out)
        sink.write(out.readable)
    }

    /// Writes buffered lines. Once, at the end.
    func close() { sink.close() }
}

/// The lowest level that is written; a reload changes it while other threads write.
private final class LogThreshold: Sendable {
    private let level: Atomic<Int>

    init(_ level: LogLevel) { self.level = Atomic(level.rawValue) }

    var lowest: LogLevel {
        get { LogLevel(rawValue: level.load(ordering: .relaxed)) ?? .info }
        set { level.store(newValue.rawValue, ordering: .relaxed) }
    }
}
