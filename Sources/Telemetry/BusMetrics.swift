/// Metrics of the bus, which carries invalidation hints between gateways; part of the process's metrics.
package struct BusMetrics: Sendable {
    /// `redis` or `postgres`; nil if changes are only polled.
    package var carrier: String?
    package var isConnected = false
    /// Messages received, and those that did not come from one of our gateways.
    package var messages: UInt64 = 0
    package var refusedMessages: UInt64 = 0
    /// The lags of changes from commit to effect here.
    private(set) var lags = ProcessHistogram(HistogramScale.latencyBounds, decimals: 6)

    /// A change took effect, `lag` microseconds after it was made.
    package mutating func applied(lag: Int64) { lags.observe(lag) }
}

extension ExpositionWriter {
    mutating func write(_ bus: BusMetrics) {
        write(bus.lags, family(.busLag))
        let connected = family(.busConnected)
        if let carrier = bus.carrier { sample(connected, [("carrier", carrier)], bus.isConnected ? 1 : 0) }
        let messages = family(.busMessages)
        sample(messages, [("result", "heard")], Int64(clamping: bus.messages))
        sample(messages, [("result", "refused")], Int64(clamping: bus.refusedMessages))
    }
}
