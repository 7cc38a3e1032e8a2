import Wire

/// State of the connection, for the log and readiness.
package enum RedisCondition: Equatable, Sendable {
    /// The first attempt is in progress.
    case connecting
    case ready
    /// Connected, but commands fail with an outage error; the server's text.
    case refusing(RedisErrorKind, String)
    /// Not connected; retrying.
    case down(RedisFault)
}

extension RedisCondition: CustomStringConvertible {
    /// A clause about the server: `ready`, `not connected: it closed the connection`.
    package var description: String {
        switch self {
        case .connecting: "connecting"
        case .ready: "ready"
        case .refusing(_, let text): "commands are refused: \(text)"
        case .down(let fault): "not connected: \(fault)"
        }
    }
}

/// Tracks the condition and reports each change once, however many commands see it.
struct RedisConditionLog {
    /// Nanoseconds without an outage error after which the server counts as ready again.
    private static let quietAfter: UInt64 = 1_000_000_000

    private(set) var condition = RedisCondition.connecting {
        didSet { isReported = false }
    }
    /// Whether the condition was looked at since it was set.
    private var isReported = true
    private var told = RedisCondition.connecting
    private var refusedAt = MonotonicTime(nanoseconds: 0)

    mutating func becameReady() { condition = .ready }

    mutating func lost(_ fault: RedisFault) { condition = .down(fault) }

    /// A command failed with the outage error in the reader.
    mutating func refused(_ reader: borrowing RedisReplyReader, _ now: MonotonicTime) {
        refusedAt = now
        let kind = reader.reply.errorKind
        if case .refusing(kind, _) = condition { return }
        if let kind, let text = reader.reply.errorText { condition = .refusing(kind, text) }
    }

    /// A command succeeded. While some succeed and others fail, the condition stays `refusing`.
    mutating func answered(_ now: MonotonicTime) {
        guard case .refusing = condition, now.nanoseconds(since: refusedAt) >= Self.quietAfter else { return }
        condition = .ready
    }

    mutating func takeChange() -> RedisCondition? {
        guard !isReported else { return nil }
        isReported = true
        guard condition != told else { return nil }
        told = condition
        return condition
    }
}
