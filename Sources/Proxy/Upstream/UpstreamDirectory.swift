package import Transport
import Telemetry
package import Wire

/// One address that an upstream's base URL resolved to, and how it is reached. Immutable, and a class so that handing it to a
/// request counts one reference and copies nothing.
package final class UpstreamAddress: Sendable {
    package let address: SocketAddress
    /// The address as logs have it.
    let addressText: String
    package let tls: TLSClientContext?
    /// The name that the certificate must be for, sent as SNI.
    package let serverName: String
    /// The base URL's host, with its port unless that is the scheme's: `Host` for health checks, for a request that came
    /// without one, and with `host=upstream` for all.
    package let authority: String
    /// The path in front of every request's path; empty for none.
    package let pathPrefix: String
    /// Whether requests go over HTTP/2: by ALPN with TLS, and by prior knowledge without.
    package let speaksHTTP2: Bool
    /// Its priority and share among the addresses of its upstream.
    package let rank: AddressRank

    package init(
        address: SocketAddress, tls: TLSClientContext? = nil, serverName: String = "", authority: String = "localhost",
        pathPrefix: String = "", speaksHTTP2: Bool = false, rank: AddressRank = AddressRank()
    ) {
        self.address = address
        addressText = address.description
        self.tls = tls
        self.serverName = serverName
        self.authority = authority
        self.pathPrefix = pathPrefix
        self.speaksHTTP2 = speaksHTTP2
        self.rank = rank
    }

    /// Whether both are the same address, reached in the same way; its rank may differ.
    func isSame(as other: UpstreamAddress) -> Bool {
        address == other.address && tls === other.tls && serverName == other.serverName && authority == other.authority
            && pathPrefix == other.pathPrefix && speaksHTTP2 == other.speaksHTTP2
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

/// The upstreams of one worker. A pool keeps its index whatever a reload does to the order of the configuration.
struct UpstreamDirectory {
    var pools: [UpstreamPool] = []
    /// Pools by the policy's number of their upstream.
    private var numbers: [Int] = []
    /// Whether requests of some pool wait for a connection.
    var roomIsWanted = false

    init(_ declarations: [UpstreamSnapshot]) {
        adopt(declarations)
    }

    /// The metrics' label of the pool.
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

    /// How the endpoint is reached. Spelled out, because the subscript would copy the whole endpoint.
    func address(_ index: EndpointIndex) -> UpstreamAddress { pools[index.pool].endpoints[index.number].address }

    /// Whether the endpoint's ALPN chose HTTP/1.1 last.
    func choseHTTP1(_ index: EndpointIndex) -> Bool { pools[index.pool].endpoints[index.number].choseHTTP1 }

    /// The endpoint of a pool for the next request, or for its retry; nil if none may be used now. See `UpstreamPool.choose`.
    mutating func choose(_ pool: Int, avoiding avoided: EndpointIndex?, at now: MonotonicTime) -> EndpointIndex? {
        pools[pool].choose(avoiding: avoided?.number, at: now).map { EndpointIndex(pool: pool, number: $0) }
    }

    /// The head of an answer came from there. The table is written only if there is something to reset.
    mutating func answerBegan(_ index: EndpointIndex) {
        if pools[index.pool].endpoints[index.number].health.hasFailures { self[index].health.answerBegan() }
    }

    /// A whole answer came from there.
    mutating func answerEnded(_ index: EndpointIndex) {
        if pools[index.pool].endpoints[index.number].health.hasFailures { self[index].health.answerEnded() }
    }

    /// Adopts a new configuration. Pools are matched by their upstream's name; one that is gone retires its addresses.
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

    /// Adopts the addresses that a name resolves to now.
    mutating func resolved(upstream name: String, to addresses: [UpstreamAddress]) {
        guard let pool = pools.firstIndex(where: { $0.settings.name == name }) else { return }
        pools[pool].adopt(pools[pool].settings, addresses: addresses)
    }

    /// Adopts the verdict of the worker that probes on one address.
    mutating func learned(upstream name: String, at address: UpstreamAddress, healthy: Bool) {
        guard let pool = pools.firstIndex(where: { $0.settings.name == name }) else { return }
        for index in pools[pool].endpoints.indices where pools[pool].endpoints[index].address.isSame(as: address) {
            pools[pool].endpoints[index].health.learned(healthy: healthy)
        }
    }
}
