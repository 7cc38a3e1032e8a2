internal import Synchronization
internal import Wire

/// Limits a log line to one a period, whichever threads meet its cause, and however often.
final class LogInterval: Sendable {
    private let nanoseconds: UInt64
    /// Of the monotonic clock; 0 for never.
    private let lastAt = Atomic<UInt64>(0)

    init(milliseconds: UInt64) { nanoseconds = milliseconds * 1_000_000 }

    /// Whether the caller is to write the line now.
    func begins(at now: MonotonicTime) -> Bool {
        let last = lastAt.load(ordering: .relaxed)
        guard last == 0 || now.nanoseconds(since: MonotonicTime(nanoseconds: last)) >= nanoseconds else { return false }
        return lastAt.compareExchange(expected: last, desired: now.nanoseconds, ordering: .relaxed).exchanged
    }
}
