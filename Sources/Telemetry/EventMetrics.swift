import Wire

/// Metrics of what services are told and asked about accounts; part of the process's metrics.
package struct EventMetrics: Sendable {
    /// By the values of their labels.
    private var sent: [[String]: UInt64] = [:]
    private var pending: [[String]: Int64] = [:]
    private var answers: [String: UInt64] = [:]

    package init() {}

    /// `result`: `arrived`, `failed` or `parked`.
    package mutating func sent(to subscriber: String, result: String, _ count: Int) {
        if count > 0 { sent[[subscriber, result], default: 0] += UInt64(count) }
    }

    package mutating func pending(_ subscriber: String, waiting: Int64, parked: Int64, behind: Int64) {
        for (state, count) in [("waiting", waiting), ("parked", parked), ("behind", behind)] { pending[[subscriber, state]] = count }
    }

    /// Another gateway sends to it now, or none does.
    package mutating func forget(_ subscriber: String) { pending = pending.filter { $0.key[0] != subscriber } }

    package mutating func answered(_ result: String) { answers[result, default: 0] += 1 }
}

extension ExpositionWriter {
    mutating func write(_ events: EventMetrics) { events.write(&self) }
}

extension EventMetrics {
    fileprivate func write(_ writer: inout ExpositionWriter) {
        let events = writer.family(.events)
        for (labels, count) in sent.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            writer.sample(events, [("subscriber", labels[0]), ("result", labels[1])], Int64(clamping: count))
        }
        let waiting = writer.family(.eventsPending)
        for (labels, count) in pending.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            writer.sample(waiting, [("subscriber", labels[0]), ("state", labels[1])], count)
        }
        let hook = writer.family(.signUpHook)
        for (result, count) in answers.sorted(by: { $0.key < $1.key }) { writer.sample(hook, [("result", result)], Int64(clamping: count)) }
    }
}
