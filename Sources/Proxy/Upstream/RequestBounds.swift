import Telemetry
import Transport

/// Circuit breaker and retry budget: the bounds of an upstream on requests under way, on those that wait for a connection, and on retries.
extension Worker {
    /// Whether the exchange is, or may be, one of the requests under way (`max-requests`).
    mutating func mayBeUnderWay(_ exchange: ExchangeIndex) -> Bool {
        let pool = exchanges[exchange].endpoint.pool
        let limit = upstreams.directory.pools[pool].settings.maxRequests
        guard limit < .max, !exchanges[exchange].holdings.contains(.request) else { return true }
        guard upstreams.directory.pools[pool].connections.requests.requests.acquire(within: limit) else { return false }
        exchanges[exchange].holdings.insert(.request)
        return true
    }

    /// Whether the exchange may wait for a connection (`max-pending`).
    mutating func mayBePending(_ exchange: ExchangeIndex) -> Bool {
        let pool = exchanges[exchange].endpoint.pool
        let limit = upstreams.directory.pools[pool].settings.maxPending
        guard limit < .max, !exchanges[exchange].holdings.contains(.pending) else { return true }
        guard upstreams.directory.pools[pool].connections.requests.pending.acquire(within: limit) else { return false }
        exchanges[exchange].holdings.insert(.pending)
        return true
    }

    /// Takes a retry from the budget, or one of those that may be under way at any time; false if there is none.
    mutating func takesRetry(_ exchange: ExchangeIndex) -> Bool {
        let pool = exchanges[exchange].endpoint.pool
        let isEarned = upstreams.directory.pools[pool].budget.spend()
        let least = upstreams.directory.pools[pool].settings.leastRetries
        let retries = upstreams.directory.pools[pool].connections.requests.retries
        let isHeld = exchanges[exchange].holdings.contains(.retry)
        guard isHeld ? isEarned || retries.value <= least : retries.acquire(within: isEarned ? .max : least) else {
            telemetry.metrics.upstreamRefused(upstream: exchanges[exchange].record.upstream, .retryBudget)
            return false
        }
        exchanges[exchange].holdings.insert(.retry)
        return true
    }

    /// The exchange no longer counts for this.
    mutating func release(_ holdings: RequestHoldings, _ exchange: ExchangeIndex) {
        let held = exchanges[exchange].holdings.intersection(holdings)
        exchanges[exchange].holdings.subtract(held)
        let budget = upstreams.directory.pools[exchanges[exchange].endpoint.pool].connections.requests
        if held.contains(.request) { budget.requests.release() }
        if held.contains(.pending) { budget.pending.release() }
        if held.contains(.retry) { budget.retries.release() }
    }
}

extension UpstreamLoss {
    /// The bound that was reached; nil for other losses.
    var bound: UpstreamBound? {
        switch self {
        case .tooManyConnections: .connections
        case .tooManyRequests: .requests
        case .tooManyPending: .pending
        case .notReached, .shortage, .connectTimeout, .handshakeFailed, .notHTTP2, .refused, .unprocessed, .brokenWhileSending,
            .closedUnanswered, .badAnswer, .brokenAnswer, .timeout:
            nil
        }
    }
}
