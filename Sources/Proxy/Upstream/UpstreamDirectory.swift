package import Transport
import Telemetry
package import Wire

/// One address that a base URL of an upstream resolved to, and how it is spoken to. Immutable, and a class because every
/// request is given one: that counts one reference and copies nothing.
package final class UpstreamAddress: Sendable {
    package let address: SocketAddress
    /// The address as logs have it.
    let addressText: String
    package let tls: TLSClientContext?
    /// What the certificate must be for, and the name asked for (SNI).
    package let serverName: String
    /// The base URL's host, with its port unless that is the scheme's: `Host` for health checks, for a request that came
    /// without one, and with `host=upstream` for all.
    package let authority: String
    /// The path in front of every request's path; empty for none.
    package let pathPrefix: String

    package init(
        address: SocketAddress, tls: TLSClientContext? = nil, serverName: String = "", authority: String = "localhost",
        pathPrefix: String = ""
    ) {
        self.address = address
        addressText = address.description
        self.tls = tls
        self.serverName = serverName
        self.authority = authority
        self.pathPrefix = pathPrefix
    }

    /// Whether both are the same place, spoken to in the same way.
    func isSame(as other: UpstreamAddress) -> Bool {
        address == other.address && tls === other.tls && serverName == other.serverName && authority == other.authority
            && pathPrefix == other.pathPrefix
    }
}

/// An upstream as the control plane hands it down: its settings and the addresses of the moment.
package struct UpstreamSnapshot: Sendable {
    package var settings: UpstreamSettings
    package var addresses: [UpstreamAddress]
    /// The same for every worker and for every snapshot of the upstream.
    package var connections: ConnectionBudget

    package init(settings: UpstreamSettings, addresses: [UpstreamAddress], connections: ConnectionBudget = ConnectionBudget()) {
        self.settings = settings
        self.addresses = addresses
        self.connections = connections
    }
}

/// The upstreams of one worker. A pool keeps its place for as long as anything may refer to it, whatever a reload
/// does to the order of the configuration.
struct UpstreamDirectory {
    var pools: [UpstreamPool] = []
    /// By the policy's number of an upstream, its pool.
    private var numbers: [Int] = []
    /// Whether some pool has requests that wait for a connection.
    var roomIsWanted = false

    init(_ declarations: [UpstreamSnapshot]) {
        adopt(declarations)
    }

    /// Where the pool's requests are counted.
    func label(_ pool: Int, _ labels: MetricLabels) -> LabelID {
        guard let index = numbers.firstIndex(of: pool) else { return .none }
        return labels.upstreams[index]
    }

    /// The pool of the policy's upstream of this number; nil if there is none of that number.
    func pool(of number: Int) -> Int? { numbers.indices.contains(number) ? numbers[number] : nil }

    subscript(_ index: EndpointIndex) -> Endpoint {
        _read { yield pools[index.pool].endpoints[index.number] }
        _modify { yield &pools[index.pool].endpoints[index.number] }
    }

    /// The address of a pool for the next request, or for its retry; nil if none may be used now. See `UpstreamPool.choose`.
    mutating func choose(_ pool: Int, avoiding avoided: EndpointIndex?, at now: MonotonicTime) -> EndpointIndex? {
        switch pools[pool].choose(avoiding: avoided?.number, at: now) {
        case .endpoint(let number): EndpointIndex(pool: pool, number: number)
        case .unavailable: nil
        }
    }

    /// Takes over a new configuration. A pool is known by its upstream's name; one that is gone retires its addresses.
    mutating func adopt(_ declarations: [UpstreamSnapshot]) {
        for index in pools.indices where !declarations.contains(where: { $0.settings.name == pools[index].settings.name }) {
            pools[index].adopt(pools[index].settings, addresses: [])
        }
        numbers = declarations.map { declaration in
            if let pool = pools.firstIndex(where: { $0.settings.name == declaration.settings.name }) {
                pools[pool].adopt(declaration.settings, addresses: declaration.addresses)
                return pool
            }
            pools.append(
                UpstreamPool(settings: declaration.settings, addresses: declaration.addresses, connections: declaration.connections))
            return pools.count - 1
        }
    }

    /// Takes over the addresses that a name resolves to now.
    mutating func resolved(upstream name: String, to addresses: [UpstreamAddress]) {
        guard let pool = pools.firstIndex(where: { $0.settings.name == name }) else { return }
        pools[pool].adopt(pools[pool].settings, addresses: addresses)
    }

    /// Takes over a probe's verdict on one address, reached by the worker that probes.
    mutating func learned(upstream name: String, at address: UpstreamAddress, healthy: Bool) {
        guard let pool = pools.firstIndex(where: { $0.settings.name == name }) else { return }
        for index in pools[pool].endpoints.indices where pools[pool].endpoints[index].address.isSame(as: address) {
            pools[pool].endpoints[index].health.learned(healthy: healthy)
        }
    }
}
