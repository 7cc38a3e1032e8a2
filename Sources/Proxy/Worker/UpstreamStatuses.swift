import Gate
import Telemetry
import Wire

/// The condition of the upstreams for the operator, as this worker has it. The words are known to the worker that judges.
extension Worker {
    func upstreamStatuses() -> [UpstreamStatus] {
        upstreams.directory.poolsInUse.map { pool in
            let shared = upstreams.directory.pools[pool].connections.requests
            var status = upstreams.directory.pools[pool].status(at: now)
            status.requests = shared.requests.value
            status.pending = shared.pending.value
            status.retries = shared.retries.value
            return status
        }
    }
}

extension UpstreamPool {
    /// Requests of this worker under way.
    var outstanding: Int { endpoints.reduce(0) { $0 + $1.outstanding } }

    fileprivate func status(at now: Moment) -> UpstreamStatus {
        let condition = condition(at: now.monotonic)
        let numbers = endpoints.indices.filter { !endpoints[$0].isRetired }
        var status = UpstreamStatus(name: settings.name, addresses: numbers.map { address($0, at: now) })
        status.isPanicking = condition.isPanicking && condition.healthy > 0
        return status
    }

    private func address(_ number: Int, at now: Moment) -> UpstreamStatus.Address {
        let (endpoint, record) = (endpoints[number], records[number])
        var address = UpstreamStatus.Address(text: "\(endpoint.address.addressText)\(endpoint.address.pathPrefix)")
        address.share = endpoint.health.share(at: now.monotonic, settings.outliers) * 100 / EndpointHealth.whole
        address.ejections = record.total
        address.requests = endpoint.outstanding
        address.connections = endpoint.connections
        if !endpoint.health.isHealthy {
            address.state = .unhealthy
            address.reason = "health"
            address.detail = "does not answer its health check"
            address.since = record.unhealthySince.map { now.wall(at: $0) }
        } else if endpoint.health.isOut(at: now.monotonic), let absence = endpoint.health.absence {
            address.state = .ejected
            address.reason = absence.reason.text
            if !record.detail.isEmpty { address.detail = record.detail }
            address.since = now.wall(at: absence.since)
            address.until = now.wall(at: absence.until)
        } else if address.share < 100 {
            address.state = .starting
        }
        if address.state == .unhealthy || address.state == .ejected { address.share = 0 }
        return address
    }
}

extension Moment {
    /// The wall time at a time of the monotonic clock, if the wall clock does not jump.
    fileprivate func wall(at time: MonotonicTime) -> WallTime {
        let ahead = Int64(clamping: time.nanoseconds(since: monotonic) / 1_000)
        let behind = Int64(clamping: monotonic.nanoseconds(since: time) / 1_000)
        return WallTime(microseconds: wall.microseconds + ahead - behind)
    }
}
