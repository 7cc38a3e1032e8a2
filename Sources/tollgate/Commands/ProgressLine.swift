internal import Transport
internal import Wire

/// Progress of a long command on a terminal: a line on standard error that is rewritten until the command ends. Where standard error
/// is no terminal, as in a log of CI, nothing is written.
struct ProgressLine {
    /// Milliseconds between two versions of the line.
    private static let interval: UInt64 = 200
    private static let barWidth = 24
    private static let lineStart = "\r\u{1B}[K"

    private let write: (@Sendable (String) -> Void)?
    /// Bytes to read; nil where that is unknown.
    private let total: UInt64?
    /// A plural, such as "accounts".
    private let unit: String
    private let start: MonotonicTime
    private var next: MonotonicTime
    private var isShown = false

    /// `terminal` writes to standard error; nil where that is no terminal.
    init(_ terminal: (@Sendable (String) -> Void)?, total: UInt64?, unit: String, at now: MonotonicTime = EventLoop.now().monotonic) {
        write = terminal
        self.total = total
        self.unit = unit
        start = now
        next = now.advanced(milliseconds: Self.interval)
    }

    /// So many bytes were read and so many units are done.
    mutating func advance(bytes: UInt64, units: Int, at now: MonotonicTime = EventLoop.now().monotonic) {
        guard let write, now >= next else { return }
        next = now.advanced(milliseconds: Self.interval)
        isShown = true
        write(
            Self.lineStart + Self.text(bytes: bytes, of: total, units: units, unit, milliseconds: now.nanoseconds(since: start) / 1_000_000)
        )
    }

    /// Removes the line, so that the command's output begins on an empty one.
    mutating func end() {
        if isShown { write?(Self.lineStart) }
        isShown = false
    }

    /// The line after so many milliseconds, more than 0.
    static func text(bytes: UInt64, of total: UInt64?, units: Int, _ unit: String, milliseconds: UInt64) -> String {
        let rate = UInt64(units) * 1_000 / milliseconds
        let count = "\(units) \(unit), \(rate)/s"
        guard let total, total > 0 else { return "\(count), \(clock(milliseconds / 1_000))" }
        let done = min(bytes, total)
        let filled = Int(done * UInt64(barWidth) / total)
        let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: barWidth - filled)
        // Rounded up, so that it does not say 0:00 before the end.
        let left = done == 0 ? "" : ", \(clock((milliseconds * (total - done) / done + 999) / 1_000)) left"
        return "[\(bar)] \(done * 100 / total)% \(count)\(left)"
    }

    /// Minutes and seconds, or hours too.
    private static func clock(_ seconds: UInt64) -> String {
        let twoDigits = { (number: UInt64) in number < 10 ? "0\(number)" : "\(number)" }
        let short = "\(seconds / 60 % 60):\(twoDigits(seconds % 60))"
        return seconds < 3_600 ? short : "\(seconds / 3_600):\(twoDigits(seconds / 60 % 60)):\(twoDigits(seconds % 60))"
    }
}
