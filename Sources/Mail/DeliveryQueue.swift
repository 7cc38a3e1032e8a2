internal import Wire

/// A delivery event, for the log and metrics.
package enum DeliveryEvent: Sendable, Equatable {
    case sent(OutgoingMessage, attempts: Int)
    /// Will be retried after `milliseconds`.
    case postponed(OutgoingMessage, reason: String, milliseconds: UInt64)
    /// Dropped: past its deadline, or the queue is full.
    case lost(OutgoingMessage, reason: String)
    /// Dropped: refused for good.
    case refused(OutgoingMessage, reason: String)
}

/// The queue of outgoing messages with their retry times. Pure.
///
/// Clients take turns, as with `FairQueue`: a message that one asked for waits for at most one attempt of every other, and when the
/// queue is full, the client with the most waiting messages loses its newest one to a client with at least two fewer.
/// Several may be under way, but one for each recipient: of two codes the newer one comes last. A server that does not answer has one at
/// a time until it does, so that it does not hold all threads.
struct DeliveryQueue {
    /// The maximum number of messages, those under way included. Beyond it a message is lost at once.
    static let capacity = 1_000
    static let fullReason = "the delivery queue is full"

    struct Entry: Equatable {
        let id: Int
        let message: OutgoingMessage
        /// The client that asked for it, by its address for limits.
        fileprivate let client: IPAddress?
        /// When retries end: the message's code or link has expired by then.
        let deadline: MonotonicTime
        fileprivate(set) var failures = 0
        fileprivate(set) var due: MonotonicTime
        fileprivate(set) var isUnderWay = false
    }

    private var entries: [Entry] = []
    private var lastID = 0
    /// The number of the latest attempt for each client with messages; missing before the first.
    private var turns: [IPAddress?: Int] = [:]
    private var lastTurn = 0
    /// Channels whose latest attempt timed out or could not connect.
    private var troubled: Set<OutboxEntry.Channel> = []

    var isEmpty: Bool { entries.isEmpty }

    /// Adds a message, due now, that the client at `address` asked for. If the queue is full, returns `lost` for it or for one that makes
    /// room, else nil.
    mutating func add(_ message: OutgoingMessage, for address: IPAddress? = nil, now: MonotonicTime) -> DeliveryEvent? {
        let client = address?.limitPrefix
        var event: DeliveryEvent?
        if entries.count >= Self.capacity {
            guard let index = newest(ofMoreThan: client) else { return .lost(message, reason: Self.fullReason) }
            event = .lost(remove(index).message, reason: Self.fullReason)
        }
        lastID += 1
        let useful = UInt64(max(0, message.usefulSeconds)) * 1_000
        entries.append(Entry(id: lastID, message: message, client: client, deadline: now.advanced(milliseconds: useful), due: now))
        return event
    }

    /// The newest waiting message of the client with the most, if `client` has at least two fewer.
    private func newest(ofMoreThan client: IPAddress?) -> Int? {
        var counts: [IPAddress?: Int] = [:]
        for entry in entries where !entry.isUnderWay { counts[entry.client, default: 0] += 1 }
        guard let most = counts.max(by: { $0.value < $1.value }), counts[client, default: 0] + 1 < most.value else { return nil }
        return entries.lastIndex { !$0.isUnderWay && $0.client == most.key }
    }

    private mutating func remove(_ index: Int) -> Entry {
        let entry = entries.remove(at: index)
        if !entries.contains(where: { $0.client == entry.client }) { turns[entry.client] = nil }
        return entry
    }

    /// The messages that an attempt may begin with: none to the recipient of one that is under way, and none by a server in trouble that
    /// has one.
    private var startable: [Int] {
        let underWay = entries.lazy.filter(\.isUnderWay).map(\.message)
        let (recipients, channels) = (Set(underWay.map(\.recipient)), troubled.intersection(underWay.map(\.channel)))
        return entries.indices.filter { index in
            let message = entries[index].message
            return !entries[index].isUnderWay && !recipients.contains(message.recipient) && !channels.contains(message.channel)
        }
    }

    /// Starts the message that has been due longest of the client whose turn it is; it is under way until `finish`. nil if none is due.
    mutating func startNext(now: MonotonicTime) -> Entry? {
        let waiting = startable.filter { entries[$0].due <= now }
        let next = waiting.min { (turns[entries[$0].client] ?? 0, entries[$0].due) < (turns[entries[$1].client] ?? 0, entries[$1].due) }
        guard let index = next else { return nil }
        lastTurn += 1
        turns[entries[index].client] = lastTurn
        entries[index].isUnderWay = true
        return entries[index]
    }

    /// Ends an attempt: removes or postpones the message. `jitter` is any random number. nil if `id` is unknown.
    mutating func finish(_ id: Int, _ outcome: DeliveryOutcome, now: MonotonicTime, jitter: UInt64) -> DeliveryEvent? {
        guard let index = entries.firstIndex(where: { $0.id == id }) else { return nil }
        let channel = entries[index].message.channel
        if case .unanswered = outcome { troubled.insert(channel) } else { troubled.remove(channel) }
        switch outcome {
        case .sent:
            let entry = remove(index)
            return .sent(entry.message, attempts: entry.failures + 1)
        case .refused(let reason): return .refused(remove(index).message, reason: reason)
        case .failed(let reason), .unanswered(let reason): return postpone(index, reason, now, jitter)
        }
    }

    private mutating func postpone(
        _ index: Int, _ reason: String, _ now: MonotonicTime, _ jitter: UInt64
    ) -> DeliveryEvent {
        entries[index].failures += 1
        let pause = RetrySchedule.pause(failures: entries[index].failures, jitter: jitter)
        let due = now.advanced(milliseconds: pause)
        guard due < entries[index].deadline else { return .lost(remove(index).message, reason: reason) }
        entries[index].isUnderWay = false
        entries[index].due = due
        return .postponed(entries[index].message, reason: reason, milliseconds: pause)
    }

    /// When an attempt may begin next; nil if none may before another one ends.
    var nextDue: MonotonicTime? { startable.map { entries[$0].due }.min() }

    /// Makes all waiting messages due, for a last attempt before the end.
    mutating func makeAllDue(now: MonotonicTime) {
        for index in entries.indices { entries[index].due = min(entries[index].due, now) }
    }

    /// Drops all messages.
    mutating func dropAll(_ reason: String) -> [DeliveryEvent] {
        defer {
            entries.removeAll()
            turns.removeAll()
        }
        return entries.map { .lost($0.message, reason: reason) }
    }
}
