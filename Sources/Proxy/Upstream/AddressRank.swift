import Wire

/// The place of an address among those of its upstream, from its SRV record (RFC 2782). All addresses of other base URLs have the
/// same.
package struct AddressRank: Hashable, Sendable {
    /// The lowest with an address that may be used gets all requests.
    package var priority = 0
    /// Its share of the requests within its priority, at least 1.
    package var weight = 1

    package init(priority: Int = 0, weight: Int = 1) {
        self.priority = priority
        self.weight = max(1, weight)
    }
}

extension [UpstreamAddress] {
    /// Whether balancing must look at ranks.
    var haveRanks: Bool { contains { $0.rank != self[0].rank } }
}

extension UpstreamPool {
    /// `choose` for addresses of different ranks: the lowest priority that has a healthy address which is not ejected; within it the
    /// fewest requests under way for its weight, and among equal ones (with `balance=round` all) smooth weighted round robin: each turn
    /// adds every candidate its weight, and takes from the one with the most what all of them were given.
    mutating func chooseByRank(avoiding avoided: Int?, at now: MonotonicTime) -> Int? {
        var best: Desirability?
        for index in endpoints.indices {
            if let found = desirability(index, avoided, now), best == nil || found < best! { best = found }
        }
        guard let best else { return nil }
        var chosen: Int?
        var total = 0
        for index in endpoints.indices where desirability(index, avoided, now) == best {
            let weight = endpoints[index].address.rank.weight
            total += weight
            endpoints[index].credit += weight
            if chosen == nil || endpoints[index].credit > endpoints[chosen!].credit { chosen = index }
        }
        if let chosen { endpoints[chosen].credit -= total }
        return chosen
    }

    /// nil for an address that may not be used at all.
    private func desirability(_ index: Int, _ avoided: Int?, _ now: MonotonicTime) -> Desirability? {
        guard endpoints[index].health.isHealthy, !endpoints[index].isRetired else { return nil }
        let rank = endpoints[index].address.rank
        let load = settings.balance == .leastOutstanding ? endpoints[index].outstanding &* Self.loadScale / rank.weight : 0
        return Desirability(
            isAvoided: index == avoided, isEjected: endpoints[index].health.isEjected(at: now), priority: rank.priority, load: load)
    }

    /// Requests under way are compared in parts of one, so that weights count among few of them.
    private static var loadScale: Int { 1 << 24 }

    /// How good a choice an address is: the lowest is the best.
    private struct Desirability: Comparable {
        let isAvoided: Bool
        let isEjected: Bool
        let priority: Int
        let load: Int

        static func < (one: Self, other: Self) -> Bool {
            if one.isAvoided != other.isAvoided { return other.isAvoided }
            if one.isEjected != other.isEjected { return other.isEjected }
            return (one.priority, one.load) < (other.priority, other.load)
        }
    }
}
