import Gate
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
    /// `choose` for addresses of different ranks: the lowest priority with an eligible address; within it the fewest requests under way
    /// for its weight, and among equal ones (with `balance=round` all) smooth weighted round robin: each turn adds every candidate its
    /// weight, and takes from the one with the most what all of them were given. A slow start lessens a weight.
    mutating func chooseByRank(avoiding avoided: Int?, at now: MonotonicTime) -> Int? {
        guard let (eligibility, _) = eligible(avoiding: avoided, at: now) else { return nil }
        let serving = servingPriority(avoiding: avoided, at: now)
        var best = (priority: Int.max, load: Int.max)
        for index in endpoints.indices where eligibility.admits(index, endpoints[index]) {
            let standing = standing(index, now)
            if standing < best, serving == nil || standing.priority == serving { best = standing }
        }
        var chosen: Int?
        var total = 0
        for index in endpoints.indices where eligibility.admits(index, endpoints[index]) && standing(index, now) == best {
            let weight = weight(index, now)
            total += weight
            endpoints[index].credit += weight
            if chosen == nil || endpoints[index].credit > endpoints[chosen!].credit { chosen = index }
        }
        if let chosen { endpoints[chosen].credit -= total }
        return chosen
    }

    /// The lowest priority with an available address; nil if no address is available. A panic reaches no other while there is one.
    private func servingPriority(avoiding avoided: Int?, at now: MonotonicTime) -> Int? {
        endpoints.indices.filter { index in
            index != avoided && !endpoints[index].isRetired && endpoints[index].health.isAvailable(at: now)
        }.map { endpoints[$0].address.rank.priority }.min()
    }

    /// The priority of an address and its requests under way for its weight, scaled so that weights count among few of them. During a
    /// slow start the next request counts too, or an idle newcomer would get each.
    private func standing(_ index: Int, _ now: MonotonicTime) -> (priority: Int, load: Int) {
        let rank = endpoints[index].address.rank
        guard settings.balance == .leastOutstanding else { return (rank.priority, 0) }
        let outstanding = endpoints[index].outstanding
        let weight = weight(index, now)
        let whole = rank.weight * EndpointHealth.whole
        guard weight < whole else { return (rank.priority, outstanding &* Self.loadScale / weight) }
        return (rank.priority, (outstanding + 1) &* Self.loadScale / weight - Self.loadScale / whole)
    }

    /// The weight of an address in parts, at least 1.
    private func weight(_ index: Int, _ now: MonotonicTime) -> Int {
        max(1, endpoints[index].address.rank.weight * endpoints[index].health.share(at: now, settings.outliers))
    }

    private static var loadScale: Int { 1 << 40 }
}
