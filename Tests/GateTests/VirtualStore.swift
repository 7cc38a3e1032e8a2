@testable import Gate

/// What Redis is to the gateways, as a value: counts by the pure algorithm. The oracle of the script, and the server of
/// simulations.
struct VirtualStore {
    private(set) var tats: [LimitKey: UInt64] = [:]

    /// Takes up to `want` from all counts of `charge`. Times are microseconds of the store's clock.
    mutating func take(_ charge: LimitCharge, want: UInt32, now: UInt64) -> GCRAReply {
        var reply = GCRAReply()
        reply.at = now
        reply.granted = (0..<charge.count).map { count(charge[$0], want, now).granted }.min() ?? 0
        for index in 0..<charge.count {
            let outcome = count(charge[index], reply.granted, now)
            if outcome.granted > 0 { tats[charge[index].key] = outcome.tat }
            reply.tats[index] = max(outcome.tat, now)
        }
        return reply
    }

    private func count(_ item: LimitCharge.Item, _ want: UInt32, _ now: UInt64) -> GCRA.Outcome {
        GCRA.take(
            now: now, tat: tats[item.key] ?? 0, interval: item.rate.interval, tolerance: item.rate.storedTolerance, want: want)
    }

    mutating func flush() { tats = [:] }
}
