import Gate
import Limits
import Telemetry
import Transport
import Wire

/// Gauges are counted when the metrics are read, so they cost requests nothing.
extension Worker {
    mutating func refreshGauges() {
        countClients()
        countUpstreams()
        telemetry.metrics.tokenCacheHolds(admission.cachedTokens)
        telemetry.metrics.tokenCacheEvictions(admission.cacheEvictions)
        telemetry.metrics.cacheHolds(
            entries: cache.store.count, bytes: cache.store.bytes + cache.forms.bytes, evicted: cache.evictions, purged: cache.purged)
        limits.gauge(&telemetry.metrics)
    }

    private mutating func countClients() {
        var states: [ConnectionState: Int] = [:]
        var streams = 0
        for client in downstream.clients.indices where downstream.clients[client].phase != .free {
            guard downstream.clients[client].hasSocket else {
                if downstream.clients[client].isStream { streams += 1 }
                continue
            }
            let state: ConnectionState
            switch downstream.clients[client].phase {
            case .free, .announcing, .handshaking: state = .handshaking
            case .multiplexed: state = isSessionIdle(client) ? .idle : .active
            case .greeting, .open: state = isIdle(client) ? .idle : .active
            case .tunnel, .flushing, .lingering: state = .active
            }
            states[state, default: 0] += 1
        }
        telemetry.metrics.http2Streams(streams)
        for state in ConnectionState.allCases { telemetry.metrics.connections(state, states[state] ?? 0) }
    }

    /// Whether the client has no request, or only one that is not decided about yet because it waits for its tier or a refresh.
    private func isIdle(_ client: ClientIndex) -> Bool {
        let exchange = downstream.clients[client].exchange
        return exchange.isNone || exchanges[exchange.index].state.waitsForDecision
    }

    private mutating func countUpstreams() {
        for pool in upstreams.directory.pools.indices {
            let label = upstreams.directory.label(pool, telemetry.labels)
            let states = upstreams.states(pool)
            for state in UpstreamConnectionState.allCases {
                telemetry.metrics.upstreamConnections(upstream: label, state, states[state] ?? 0)
            }
            let available = upstreams.directory.pools[pool].availableCount(at: now.monotonic)
            telemetry.metrics.upstreamHealthy(upstream: label, addresses: available)
            let condition = upstreams.directory.pools[pool].condition(at: now.monotonic)
            telemetry.metrics.upstreamState(
                upstream: label, ejected: condition.healthy - condition.available,
                isPanicking: condition.isPanicking && condition.healthy > 0, requests: upstreams.directory.pools[pool].outstanding)
        }
    }
}
