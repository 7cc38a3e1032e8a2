package import Wire

/// Metrics of what services are told and asked about accounts; part of the process's metrics.
package struct EventMetrics: Sendable {
    /// By the values of their labels.
    fileprivate typealias Samples = [[String]: Int64]

    private var sent: Samples = [:]
    private var pending: Samples = [:]
    private var answers: Samples = [:]
    /// Those that an alert looks at are there from the start.
    private var outgoing: Samples = [["apple_tokens", "given_up"]: 0, ["notices", "given_up"]: 0]
    private var waiting: Samples = [:]
    /// In microseconds.
    private var oldest: Samples = [:]

    package init() {}

    /// `result`: `arrived`, `failed` or `parked`.
    package mutating func sent(to subscriber: String, result: String, _ count: Int) {
        if count > 0 { sent[[subscriber, result], default: 0] += Int64(count) }
    }

    package mutating func pending(_ subscriber: String, waiting: Int64, parked: Int64, behind: Int64) {
        for (state, count) in [("waiting", waiting), ("parked", parked), ("behind", behind)] { pending[[subscriber, state]] = count }
    }

    /// Another gateway sends to it now, or none does.
    package mutating func forget(_ subscriber: String) { pending = pending.filter { $0.key[0] != subscriber } }

    package mutating func settled(_ queue: String, result: String, _ count: Int) { outgoing[[queue, result], default: 0] += Int64(count) }

    package mutating func waiting(_ queue: String, _ count: Int64, since: WallTime?) {
        waiting[[queue]] = count
        oldest[[queue]] = since?.microseconds
    }

    package mutating func answered(_ result: String) { answers[[result], default: 0] += 1 }

    fileprivate func write(_ writer: inout ExpositionWriter) {
        writer.write(.events, ["subscriber", "result"], sent)
        writer.write(.eventsPending, ["subscriber", "state"], pending)
        writer.write(.outgoing, ["queue", "result"], outgoing)
        writer.write(.outgoingWaiting, ["queue"], waiting)
        writer.write(.outgoingOldest, ["queue"], oldest, decimals: 6)
        writer.write(.signUpHook, ["result"], answers)
    }
}

extension ExpositionWriter {
    mutating func write(_ events: EventMetrics) { events.write(&self) }

    fileprivate mutating func write(_ metric: ProcessFamily, _ names: [String], _ samples: EventMetrics.Samples, decimals: Int = 0) {
        let name = family(metric)
        for (labels, value) in samples.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            sample(name, Array(zip(names, labels)), value, decimals: decimals)
        }
    }
}
