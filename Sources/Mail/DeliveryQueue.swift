internal import Wire

/// A delivery event, for the log and metrics.
package enum DeliveryEvent: Sendable, Equatable {
    case sent(OutgoingMessage, attempts: Int)
    /// Will be retried after `milliseconds`.
    case postponed(OutgoingMessage, reason: String, milliseconds: UInt64)
    /// Dropped: refused, past its deadline, or the queue is full.
    case lost(OutgoingMessage, reason: String)
}

/// The queue of outgoing messages with their retry times. Pure.
struct DeliveryQueue {
    /// The maximum number of messages, those under way included. Beyond it a new message is lost at once.
    static let capacity = 1_000
    static let fullReason = "the delivery queue is full"

    struct Entry: Equatable {
        let id: Int
        let message: OutgoingMessage
        /// When retries end: the message's code or link has expired by then.
        let deadline: MonotonicTime
        fileprivate(set) var failures = 0
        fileprivate(set) var due: MonotonicTime
        fileprivate(set) var isUnderWay = false
    }

    private var entries: [Entry] = []
    private var lastID = 0

    var isEmpty: Bool { entries.isEmpty }

    /// The message with this id; nil if unknown.
    func message(_ id: Int) -> OutgoingMessage? { entries.first { $0.id == id }?.message }

    /// Adds a message, due now. Returns `lost` if the queue is full, else nil.
    mutating func add(_ message: OutgoingMessage, now: MonotonicTime) -> DeliveryEvent? {
        guard entries.count < Self.capacity else { return .lost(message, reason: Self.fullReason) }
        lastID += 1
        let useful = UInt64(max(0, message.usefulSeconds)) * 1_000
        entries.append(Entry(id: lastID, message: message, deadline: now.advanced(milliseconds: useful), due: now))
        return nil
    }

    /// Starts the due message that has been due longest; it is under way until `finish`. nil if none is due.
    mutating func startNext(now: MonotonicTime) -> Entry? {
        let waiting = entries.indices.filter { !entries[$0].isUnderWay && entries[$0].due <= now }
        guard let index = waiting.min(by: { entries[$0].due < entries[$1].due }) else { return nil }
        entries[index].isUnderWay = true
        return entries[index]
    }

    /// Ends an attempt: removes or postpones the message. `jitter` is any random number. nil if `id` is unknown.
    mutating func finish(_ id: Int, _ outcome: DeliveryOutcome, now: MonotonicTime, jitter: UInt64) -> DeliveryEvent? {
        guard let index = entries.firstIndex(where: { $0.id == id }) else { return nil }
        switch outcome {
        case .sent:
            let entry = entries.remove(at: index)
            return .sent(entry.message, attempts: entry.failures + 1)
        case .refused(let reason): return .lost(entries.remove(at: index).message, reason: reason)
        case .failed(let reason): return postpone(index, reason, now, jitter)
        }
    }

    private mutating func postpone(
        _ index: Int, _ reason: String, _ now: MonotonicTime, _ jitter: UInt64
    ) -> DeliveryEvent {
        entries[index].failures += 1
        let pause = RetrySchedule.pause(failures: entries[index].failures, jitter: jitter)
        let due = now.advanced(milliseconds: pause)
        guard due < entries[index].deadline else { return .lost(entries.remove(at: index).message, reason: reason) }
        entries[index].isUnderWay = false
        entries[index].due = due
        return .postponed(entries[index].message, reason: reason, milliseconds: pause)
    }

    /// When the next message is due; nil if none waits.
    var nextDue: MonotonicTime? { entries.filter { !$0.isUnderWay }.map(\.due).min() }

    /// Makes all waiting messages due, for a last attempt before the end.
    mutating func makeAllDue(now: MonotonicTime) {
        for index in entries.indices { entries[index].due = min(entries[index].due, now) }
    }

    /// Drops all messages.
    mutating func dropAll(_ reason: String) -> [DeliveryEvent] {
        defer { entries.removeAll() }
        return entries.map { .lost($0.message, reason: reason) }
    }
}
