internal import Wire

/// What happened to a message, for the log.
package enum DeliveryEvent: Sendable, Equatable {
    case sent(OutgoingMessage, attempts: Int)
    case postponed(OutgoingMessage, reason: String, milliseconds: UInt64)
    /// Given up.
    case lost(OutgoingMessage, reason: String)
}

/// Messages that wait to be sent or are under way, and when each is tried next.
struct DeliveryQueue {
    /// Messages that may wait, those under way included: past it a new one is lost at once.
    static let capacity = 1_000
    static let fullReason = "too many messages wait"

    struct Entry: Equatable {
        let id: Int
        let dispatch: OutgoingMessage
        /// From then on there is no use in trying.
        let deadline: MonotonicTime
        fileprivate(set) var failures = 0
        fileprivate(set) var due: MonotonicTime
        fileprivate(set) var isUnderWay = false
    }

    private var entries: [Entry] = []
    private var lastID = 0

    var isEmpty: Bool { entries.isEmpty }

    /// The message under way that has this number; nil for one that is not known.
    func dispatch(_ id: Int) -> OutgoingMessage? { entries.first { $0.id == id }?.dispatch }

    /// Takes a message in; nil, or why not.
    mutating func add(_ dispatch: OutgoingMessage, now: MonotonicTime) -> DeliveryEvent? {
        guard entries.count < Self.capacity else { return .lost(dispatch, reason: Self.fullReason) }
        lastID += 1
        let useful = UInt64(max(0, dispatch.usefulSeconds)) * 1_000
        entries.append(Entry(id: lastID, dispatch: dispatch, deadline: now.advanced(milliseconds: useful), due: now))
        return nil
    }

    /// The message that is due and has waited longest for its try; it counts as under way until `settle`.
    mutating func takeDue(now: MonotonicTime) -> Entry? {
        let waiting = entries.indices.filter { !entries[$0].isUnderWay && entries[$0].due <= now }
        guard let index = waiting.min(by: { entries[$0].due < entries[$1].due }) else { return nil }
        entries[index].isUnderWay = true
        return entries[index]
    }

    /// What an attempt came to. nil for one that is not known.
    mutating func settle(_ id: Int, _ outcome: DeliveryOutcome, now: MonotonicTime, jitter: UInt64) -> DeliveryEvent? {
        guard let index = entries.firstIndex(where: { $0.id == id }) else { return nil }
        switch outcome {
        case .sent:
            let entry = entries.remove(at: index)
            return .sent(entry.dispatch, attempts: entry.failures + 1)
        case .refused(let reason): return .lost(entries.remove(at: index).dispatch, reason: reason)
        case .failed(let reason): return postpone(index, reason, now, jitter)
        }
    }

    private mutating func postpone(
        _ index: Int, _ reason: String, _ now: MonotonicTime, _ jitter: UInt64
    ) -> DeliveryEvent {
        entries[index].failures += 1
        let pause = RetrySchedule.pause(failures: entries[index].failures, jitter: jitter)
        let due = now.advanced(milliseconds: pause)
        guard due < entries[index].deadline else { return .lost(entries.remove(at: index).dispatch, reason: reason) }
        entries[index].isUnderWay = false
        entries[index].due = due
        return .postponed(entries[index].dispatch, reason: reason, milliseconds: pause)
    }

    /// When the next message is due; nil when none waits.
    var nextDue: MonotonicTime? { entries.filter { !$0.isUnderWay }.map(\.due).min() }

    /// Makes everything due that waits: the end is near.
    mutating func hurry(now: MonotonicTime) {
        for index in entries.indices { entries[index].due = min(entries[index].due, now) }
    }

    /// Gives up what is left.
    mutating func abandon(_ reason: String) -> [DeliveryEvent] {
        defer { entries.removeAll() }
        return entries.map { .lost($0.dispatch, reason: reason) }
    }
}
