internal import Proxy
internal import Gate
internal import Telemetry
internal import Wire

/// The upstreams' addresses that are unhealthy or ejected, for `/readyz`. Pure.
///
/// Holds addresses in use alone, and verdicts of probes only where there are probes. The owner tells it of a change before the workers, so
/// that a worker's report about an address which is gone comes after it, and is dropped: otherwise it would stay, as nothing follows it.
struct UpstreamConditions {
    private struct Upstream {
        var addresses: Set<String>
        let isProbed: Bool
    }

    private var upstreams: [String: Upstream] = [:]
    private var unhealthy: Set<String> = []
    /// Until when, and why.
    private var ejected: [String: (until: Moment, detail: String)] = [:]

    private static func key(_ upstream: String, _ address: UpstreamAddress) -> String {
        "\(upstream) \(address.address)\(address.pathPrefix)"
    }

    // MARK: what is in use

    mutating func adopt(_ snapshots: [UpstreamSnapshot]) {
        upstreams = [:]
        for snapshot in snapshots {
            let name = snapshot.settings.name
            let addresses = Set(snapshot.addresses.map { Self.key(name, $0) })
            upstreams[name] = Upstream(addresses: addresses, isProbed: snapshot.settings.health != nil)
        }
        dropGone()
    }

    /// The upstream has these addresses now.
    mutating func adopt(_ addresses: [UpstreamAddress], of upstream: String) {
        upstreams[upstream]?.addresses = Set(addresses.map { Self.key(upstream, $0) })
        dropGone()
    }

    private mutating func dropGone() {
        unhealthy = unhealthy.filter { key in upstreams.values.contains { $0.isProbed && $0.addresses.contains(key) } }
        ejected = ejected.filter { entry in upstreams.values.contains { $0.addresses.contains(entry.key) } }
    }

    // MARK: reports of workers

    mutating func turned(_ upstream: String, _ address: UpstreamAddress, isHealthy: Bool) {
        let key = Self.key(upstream, address)
        if isHealthy {
            unhealthy.remove(key)
            ejected[key] = nil
        } else if let upstream = upstreams[upstream], upstream.isProbed, upstream.addresses.contains(key) {
            unhealthy.insert(key)
        }
    }

    mutating func left(_ upstream: String, _ address: UpstreamAddress, until: Moment, _ detail: String, at now: MonotonicTime) {
        ejected = ejected.filter { now < $0.value.until.monotonic }
        let key = Self.key(upstream, address)
        if upstreams[upstream]?.addresses.contains(key) == true { ejected[key] = (until, detail) }
    }

    mutating func returned(_ upstream: String, _ address: UpstreamAddress) { ejected[Self.key(upstream, address)] = nil }

    // MARK: readiness

    func add(to readiness: inout Readiness, at now: MonotonicTime) {
        for name in unhealthy.sorted() { readiness.add("upstream \(name)", .degraded, "does not answer its health check") }
        for (name, ejection) in ejected.sorted(by: { $0.key < $1.key }) where now < ejection.until.monotonic && !unhealthy.contains(name) {
            readiness.add("upstream \(name)", .degraded, "ejected until \(ISO8601.text(ejection.until.wall)): \(ejection.detail)")
        }
    }
}
