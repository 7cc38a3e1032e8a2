package import Gate
import Telemetry
package import Transport
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

    /// Another object for the same address, for one worker: each request retains it, and a count that all workers change would move
    /// between their cores with every request.
    convenience init(unshared other: UpstreamAddress) { self.init(other, tls: other.tls) }

    /// The same address with another context.
    package init(_ other: UpstreamAddress, tls: TLSClientContext?) {
        address = other.address
        addressText = other.addressText
        self.tls = tls
        serverName = other.serverName
        authority = other.authority
        pathPrefix = other.pathPrefix
        speaksHTTP2 = other.speaksHTTP2
        rank = other.rank
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
struct UpstreamDirectory: ~Copyable {
    var pools = UniqueArray<UpstreamPool>()
    /// Whether some upstream has health checks.
    private(set) var hasProbes = false
    /// Pools by the policy's number of their upstream.
    private var numbers: [Int] = []
    /// By pool, its place among `numbers`; -1 if it is not configured.
    private var places: [Int] = []
    /// Whether requests of some pool wait for a connection.
    var roomIsWanted = false
    /// When windows of answers and absences are looked at next.
    var watchesNext = MonotonicTime(nanoseconds: 0)

    init(_ declarations: [UpstreamSnapshot]) {
        adopt(declarations, at: MonotonicTime(nanoseconds: 0))
    }

    /// The metrics' label of the pool.
    func label(_ pool: Int, _ labels: MetricLabels) -> LabelID {
        places[pool] < 0 ? .none : labels.upstreams[places[pool]]
    }

    /// The pools of the upstreams that are configured, in their order.
    var poolsInUse: [Int] { numbers }

    /// The pool of the policy's upstream of this number; nil if there is none of that number.
    func pool(of number: Int) -> Int? { numbers.indices.contains(number) ? numbers[number] : nil }

    /// The pool of the upstream of this name.
    func pool(named name: String) -> Int? { pools.indices.first { pools[$0].settings.name == name } }

    subscript(_ index: EndpointIndex) -> Endpoint {
        _read { yield pools[index.pool].endpoints[index.number] }
        _modify { yield &pools[index.pool].endpoints[index.number] }
    }

    /// How the endpoint is reached. By a span, because the array's subscript copies the whole endpoint.
    func address(_ index: EndpointIndex) -> UpstreamAddress { pools[index.pool].endpoints.span[index.number].address }

    /// Whether the endpoint's ALPN chose HTTP/1.1 last.
    func choseHTTP1(_ index: EndpointIndex) -> Bool { pools[index.pool].endpoints[index.number].choseHTTP1 }

    /// The endpoint of a pool for the next request, or for its retry; nil if none may be used now. See `UpstreamPool.choose`.
    mutating func choose(_ pool: Int, avoiding avoided: EndpointIndex?, at now: MonotonicTime) -> EndpointIndex? {
        pools[pool].choose(avoiding: avoided?.number, at: now).map { EndpointIndex(pool: pool, number: $0) }
    }

    /// The head of a good answer came from there. The tables are only written if there is something to reset or to count.
    mutating func answerBegan(_ index: EndpointIndex) {
        if pools[index.pool].endpoints[index.number].health.hasFailures { self[index].health.answerBegan() }
        if pools[index.pool].watchesAnswers { pools[index.pool].windows[index.number].successes += 1 }
    }

    /// Whether the time to its head counts.
    func watchesTimes(_ index: EndpointIndex) -> Bool { pools[index.pool].watchesTimes }

    /// A whole answer came from there.
    mutating func answerEnded(_ index: EndpointIndex) {
        if pools[index.pool].endpoints[index.number].health.hasFailures { self[index].health.answerEnded() }
    }

    /// Adopts a new configuration. Pools are matched by their upstream's name; one that is gone retires its addresses.
    mutating func adopt(_ declarations: [UpstreamSnapshot], at now: MonotonicTime) {
        let known = Dictionary(pools.indices.map { (pools[$0].settings.name, $0) }) { first, _ in first }
        var retired = Set(pools.indices)
        numbers = declarations.map { declaration in
            let addresses = declaration.addresses.map(UpstreamAddress.init(unshared:))
            if let pool = known[declaration.settings.name] {
                retired.remove(pool)
                pools[pool].adopt(declaration.settings, addresses: addresses, at: now)
                return pool
            }
            pools.append(UpstreamPool(settings: declaration.settings, addresses: addresses, connections: declaration.connections))
            return pools.count - 1
        }
        for index in retired { pools[index].adopt(pools[index].settings, addresses: [], at: now) }
        places = Array(repeating: -1, count: pools.count)
        for (place, pool) in numbers.enumerated() { places[pool] = place }
        hasProbes = pools.indices.contains { pools[$0].settings.health != nil }
    }

    /// Adopts the addresses that a name resolves to now.
    mutating func resolved(upstream name: String, to addresses: [UpstreamAddress], at now: MonotonicTime) {
        guard let pool = pool(named: name) else { return }
        pools[pool].adopt(pools[pool].settings, addresses: addresses.map(UpstreamAddress.init(unshared:)), at: now)
    }

    /// Adopts the verdict of the worker that probes on one address. A reload may have ended the probes since.
    mutating func learned(upstream name: String, at address: UpstreamAddress, healthy: Bool, now: MonotonicTime) {
        for endpoint in endpoints(of: name, at: address) where isProbed(endpoint) {
            self[endpoint].health.learned(healthy: healthy, at: now, pools[endpoint.pool].settings.outliers)
        }
    }

    /// Whether the address is in use and its upstream has health checks.
    func isProbed(_ index: EndpointIndex) -> Bool {
        !pools[index.pool].endpoints[index.number].isRetired && pools[index.pool].settings.health != nil
    }

    /// Adopts the verdict of the worker that judges on one address.
    mutating func learned(upstream name: String, at address: UpstreamAddress, absence: Absence) {
        for endpoint in endpoints(of: name, at: address) { self[endpoint].health.leave(absence) }
    }

    /// The endpoint of this address that is in use, if there is one.
    func endpoints(of name: String, at address: UpstreamAddress) -> [EndpointIndex] {
        guard let pool = pool(named: name) else { return [] }
        return pools[pool].endpoints.indices.filter { pools[pool].endpoints[$0].address.isSame(as: address) }
            .map { EndpointIndex(pool: pool, number: $0) }
    }
}
