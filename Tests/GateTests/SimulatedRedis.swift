@testable import Gate
@testable import Limits

/// Simulated Redis: counts by the pure algorithm. The oracle of the script, and the server of
/// simulations.
struct SimulatedRedis {
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

    /// Refunds one charge on each of these counts, made at `chargedAt` by the store's clock.
    mutating func refund(_ items: [LimitCharge.Item], chargedAt: UInt64, now: UInt64) {
        for item in items {
            guard let tat = tats[item.key], tat > now else { continue }
            let credit = GCRA.credit(interval: item.rate.interval, chargedAt: chargedAt, now: now)
            tats[item.key] = GCRA.refund(now: now, tat: tat, credit: credit)
        }
    }

    private func count(_ item: LimitCharge.Item, _ want: UInt32, _ now: UInt64) -> GCRA.Outcome {
        GCRA.take(
            now: now, tat: tats[item.key] ?? 0, interval: item.rate.interval, tolerance: item.rate.storedTolerance, want: want)
    }

    mutating func flush() { tats = [:] }
}
