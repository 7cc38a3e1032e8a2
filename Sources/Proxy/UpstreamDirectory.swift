package import Transport
import Telemetry
import Wire

/// One address that an upstream's name resolved to, and how TLS is spoken there.
package struct UpstreamAddress: Sendable {
    package var address: SocketAddress
    package var tls: TLSClientContext?
    /// What the certificate must be for, and the name asked for (SNI).
    package var serverName: String

    package init(address: SocketAddress, tls: TLSClientContext? = nil, serverName: String = "") {
        self.address = address
        self.tls = tls
        self.serverName = serverName
    }
}

/// An upstream as the control plane hands it down: its settings and the addresses of the moment.
package struct UpstreamSnapshot: Sendable {
    package var settings: UpstreamSettings
    package var addresses: [UpstreamAddress]

    package init(settings: UpstreamSettings, addresses: [UpstreamAddress]) {
        self.settings = settings
        self.addresses = addresses
    }
}

/// The upstreams of one worker. A pool keeps its place for as long as anything may refer to it, whatever a reload
/// does to the order of the configuration.
struct UpstreamDirectory {
    var pools: [UpstreamPool] = []
    private var places: [Int] = []

    init(_ declarations: [UpstreamSnapshot]) {
        adopt(declarations)
    }

    /// Where the pool's requests are counted.
    func label(_ place: Int, _ labels: MetricLabels) -> LabelID {
        guard let index = places.firstIndex(of: place) else { return .none }
        return labels.upstreams[index]
    }

    /// The pool of the policy's upstream number `index`; nil if there is none of that number.
    func place(of index: Int) -> Int? { places.indices.contains(index) ? places[index] : nil }

    /// Takes over a new configuration. A pool is known by its upstream's name; one that is gone retires its addresses.
    mutating func adopt(_ declarations: [UpstreamSnapshot]) {
        for index in pools.indices where !declarations.contains(where: { $0.settings.name == pools[index].settings.name }) {
            pools[index].adopt(pools[index].settings, addresses: [])
        }
        places = declarations.map { declaration in
            let endpoints = declaration.addresses.map(Endpoint.init)
            if let place = pools.firstIndex(where: { $0.settings.name == declaration.settings.name }) {
                pools[place].adopt(declaration.settings, addresses: endpoints)
                return place
            }
            pools.append(UpstreamPool(settings: declaration.settings, endpoints: endpoints))
            return pools.count - 1
        }
    }

    /// Takes over the addresses that a name resolves to now.
    mutating func resolved(upstream name: String, to addresses: [UpstreamAddress]) {
        guard let place = pools.firstIndex(where: { $0.settings.name == name }) else { return }
        pools[place].adopt(pools[place].settings, addresses: addresses.map(Endpoint.init))
    }

    /// Takes over a probe's verdict on one address, reached by the worker that probes.
    mutating func learned(upstream name: String, address: SocketAddress, healthy: Bool) {
        guard let place = pools.firstIndex(where: { $0.settings.name == name }) else { return }
        for index in pools[place].endpoints.indices where pools[place].endpoints[index].address == address {
            pools[place].endpoints[index].health.learned(healthy: healthy)
        }
    }
}

extension Endpoint {
    init(_ address: UpstreamAddress) {
        self.address = address.address
        tls = address.tls
        serverName = address.serverName
    }
}
