import Gate
import Telemetry
import Transport
import Wire

/// Circuit breaker and retry budget: the bounds of an upstream on requests under way, on those that wait for a connection, and on retries.
extension Worker {
    /// Counts the exchange among the requests under way (`max-requests`), unless it is; the loss if it may not be.
    mutating func countUnderWay(_ exchange: ExchangeIndex) -> UpstreamLoss? {
        let pool = exchanges[exchange].attempt.endpoint.pool
        return hold(.request, exchange, within: upstreams.directory.pools[pool].settings.maxRequests, orElse: .tooManyRequests)
    }

    /// Counts the exchange among those that wait for a connection (`max-pending`), likewise.
    mutating func countPending(_ exchange: ExchangeIndex) -> UpstreamLoss? {
        let pool = exchanges[exchange].attempt.endpoint.pool
        return hold(.pending, exchange, within: upstreams.directory.pools[pool].settings.maxPending, orElse: .tooManyPending)
    }

    /// Counts the exchange among those that the connections within `max-connections` carry, likewise: each carries one, or of HTTP/2 as
    /// many as the address allows. Whether there is a connection for it is found out afterwards.
    mutating func countCarried(_ exchange: ExchangeIndex) -> UpstreamLoss? {
        let endpoint = exchanges[exchange].attempt.endpoint
        guard upstreams.directory.pools[endpoint.pool].isBounded else { return nil }
        let isShared = upstreams.directory.address(endpoint).speaksHTTP2 && !upstreams.directory.choseHTTP1(endpoint)
        let streams = isShared ? upstreams.directory[endpoint].streamsPerConnection : 1
        let limit = upstreams.directory.pools[endpoint.pool].settings.maxConnections * max(streams, 1)
        return hold(.connection, exchange, within: limit, orElse: .tooManyConnections)
    }

    /// Counts the exchange for a bound of its upstream and for its client's share of that.
    @inline(__always)
    private mutating func hold(
        _ holding: RequestHoldings, _ exchange: ExchangeIndex, within limit: Int, orElse full: UpstreamLoss
    ) -> UpstreamLoss? {
        guard limit < .max, !exchanges[exchange].counts.holdings.contains(holding) else { return nil }
        return take(holding, exchange, within: limit, orElse: full)
    }

    private mutating func take(
        _ holding: RequestHoldings, _ exchange: ExchangeIndex, within limit: Int, orElse full: UpstreamLoss
    ) -> UpstreamLoss? {
        let budget = upstreams.directory.pools[exchanges[exchange].attempt.endpoint.pool].connections.requests
        let count = budget.count(of: holding)
        if let share = exchanges[exchange].counts.share {
            guard downstream.shares.take(share, budget.bound(of: holding), taken: count.value, limit: limit, settings.clientShare) else {
                return count.value < limit ? .beyondShare : full
            }
        }
        guard count.acquire(within: limit) else {
            if let share = exchanges[exchange].counts.share { downstream.shares.refund(share, budget.bound(of: holding)) }
            return full
        }
        exchanges[exchange].counts.holdings.insert(holding)
        return nil
    }

    /// Takes a retry from the budget, or one of those that may be under way at any time; false if there is none.
    mutating func takesRetry(_ exchange: ExchangeIndex) -> Bool {
        let pool = exchanges[exchange].attempt.endpoint.pool
        let isEarned = upstreams.directory.pools[pool].budget.spend()
        let least = upstreams.directory.pools[pool].settings.minRetries
        let retries = upstreams.directory.pools[pool].connections.requests.retries
        let isHeld = exchanges[exchange].counts.holdings.contains(.retry)
        guard isHeld ? isEarned || retries.value <= least : retries.acquire(within: isEarned ? .max : least) else {
            telemetry.metrics.upstreamRefused(upstream: exchanges[exchange].record.upstream, .retryBudget)
            return false
        }
        exchanges[exchange].counts.holdings.insert(.retry)
        return true
    }

    /// The exchange no longer counts for this.
    mutating func release(_ holdings: RequestHoldings, _ exchange: ExchangeIndex) {
        let held = exchanges[exchange].counts.holdings.intersection(holdings)
        exchanges[exchange].counts.holdings.subtract(held)
        let budget = upstreams.directory.pools[exchanges[exchange].attempt.endpoint.pool].connections.requests
        var left = held.rawValue
        while left != 0 {
            let holding = RequestHoldings(rawValue: left & (~left &+ 1))
            left &= left &- 1
            release(holding, exchanges[exchange].counts.share, budget)
        }
    }

    /// One request of a client no longer counts for one of its upstream's bounds.
    mutating func release(_ holding: RequestHoldings, _ share: ShareIndex?, _ budget: RequestBudget) {
        budget.count(of: holding).release()
        if holding != .retry, let share { downstream.shares.refund(share, budget.bound(of: holding)) }
    }
}
