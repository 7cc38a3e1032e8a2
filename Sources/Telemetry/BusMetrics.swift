/// Metrics of the bus, which carries invalidation hints between gateways; part of the process's metrics.
package struct BusMetrics: Sendable {
    /// `redis` or `postgres`; nil if changes are only polled.
    package var carrier: String?
    package var isConnected = false
    /// Messages received, and those that did not come from one of our gateways.
    package var messages: UInt64 = 0
    package var refusedMessages: UInt64 = 0
    /// Changes by their lag, from commit to effect here, per bucket; the last bucket has no bound.
    private(set) var lags = [UInt64](repeating: 0, count: HistogramScale.latencyBounds.count + 1)
    /// Microseconds.
    private(set) var lagSum: UInt64 = 0

    /// A change took effect, `lag` microseconds after it was made.
    package mutating func applied(lag: Int64) {
        let lag = UInt64(max(0, lag))
        lags[HistogramScale.latencyBounds.firstIndex { lag <= $0 } ?? HistogramScale.latencyBounds.count] += 1
        lagSum &+= lag
    }
}

extension ExpositionWriter {
    mutating func write(_ bus: BusMetrics) {
        let scale = HistogramScale.latency
        let lag = family(.busLag)
        var total: UInt64 = 0
        for (bound, count) in zip(scale.bounds, bus.lags) {
            total += count
            let le = bucketBound(Int64(bound), decimals: scale.decimals)
            sample(lag + "_bucket", [("le", le)], Int64(clamping: total))
        }
        total += bus.lags.last ?? 0
        sample(lag + "_bucket", [("le", "+Inf")], Int64(clamping: total))
        sample(lag + "_sum", [], Int64(clamping: bus.lagSum), decimals: scale.decimals)
        sample(lag + "_count", [], Int64(clamping: total))
        let connected = family(.busConnected)
        if let carrier = bus.carrier { sample(connected, [("carrier", carrier)], bus.isConnected ? 1 : 0) }
        let messages = family(.busMessages)
        sample(messages, [("result", "heard")], Int64(clamping: bus.messages))
        sample(messages, [("result", "refused")], Int64(clamping: bus.refusedMessages))
    }
}
