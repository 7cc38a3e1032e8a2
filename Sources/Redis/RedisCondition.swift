import Wire

/// How things stand with the server, for the log and for readiness.
package enum RedisCondition: Equatable, Sendable {
    /// No attempt has come to an end yet.
    case connecting
    case ready
    /// Connected, and commands are answered with this kind of error; the server's text.
    case refusing(RedisErrorKind, String)
    /// Not connected; attempts go on.
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

/// Follows the condition and tells each change once, however many commands meet it.
struct RedisConditionLog {
    private static let quietAfter: UInt64 = 1_000_000_000

    private(set) var condition = RedisCondition.connecting {
        didSet { isTold = false }
    }
    /// Whether the condition was looked at since it was set.
    private var isTold = true
    private var told = RedisCondition.connecting
    private var refusedAt = MonotonicTime(nanoseconds: 0)

    mutating func becameReady() { condition = .ready }

    mutating func lost(_ fault: RedisFault) { condition = .down(fault) }

    /// A command was answered with the error that the reader holds, one that counts as no answer.
    mutating func refused(_ reader: borrowing RedisReplyReader, _ now: MonotonicTime) {
        refusedAt = now
        let kind = reader.reply.errorKind
        if case .refusing(kind, _) = condition { return }
        if let kind, let text = reader.reply.errorText { condition = .refusing(kind, text) }
    }

    /// A command was answered well. Where some are and some are not, the refusals are what is told.
    mutating func answered(_ now: MonotonicTime) {
        guard case .refusing = condition, now.nanoseconds(since: refusedAt) >= Self.quietAfter else { return }
        condition = .ready
    }

    mutating func takeChange() -> RedisCondition? {
        guard !isTold else { return nil }
        isTold = true
        guard condition != told else { return nil }
        told = condition
        return condition
    }
}
