import Transport
import Wire

/// Configuration of one upstream, the same on every worker: timeouts, retries, balancing, health checks.
package struct UpstreamSettings: Sendable {
    package enum Balance: Sendable { case leastOutstanding, roundRobin }
    /// A path that is fetched, or the standard health service of gRPC.
    package enum HealthCheck: Equatable, Sendable { case path(String), grpc }

    /// The configured name, lower case: the metrics' label.
    package var name: String
    package var balance = Balance.leastOutstanding
    /// Milliseconds to establish a connection, with TLS where it is spoken.
    package var connectTimeout: UInt64 = 2_000
    /// Milliseconds to the first byte of an answer, and between two.
    package var timeout: UInt64 = 30_000
    /// Retries of a request that may be sent again.
    package var retries = 1
    /// Connections of all workers to all addresses, without health checks; above it a request is refused with 503.
    package var maxConnections = Int.max
    /// The kind of active health checks; nil for none.
    package var health: HealthCheck?
    package var healthInterval: UInt64 = 5_000
    /// Whether `Host` is the address's own and not the client's.
    package var sendsOwnHost = false

    package init(name: String) { self.name = name }
}

/// An endpoint by the index of its pool in the directory and its own in the pool.
struct EndpointIndex: Equatable, Sendable {
    var pool: Int
    var number: Int
}

/// One address of an upstream, with this worker's view of it.
struct Endpoint {
    /// Replaced by one that is the same (`isSame`) when its rank changes.
    var address: UpstreamAddress
    /// Its credit in smooth weighted round robin; see `chooseByRank`.
    var credit = 0
    var health = EndpointHealth()
    /// Requests of this worker that were sent there and are not answered.
    var outstanding = 0
    /// Connections of this worker to it, busy and idle.
    var connections = 0
    /// The most recently used idle connection, the head of a list through `UpstreamConnection.nextIdle`.
    var idleHead: UpstreamIndex?
    /// The latest connection that takes streams, or will: the head of a list through `UpstreamSession.next`.
    var sessionHead: UpstreamIndex?
    /// Streams that a connection was allowed last, until one says otherwise.
    var streamsPerConnection = UpstreamSession.mostStreams
    /// Whether its ALPN chose HTTP/1.1 last: then each request that waits has a connection of its own.
    var choseHTTP1 = false
    /// No longer in the configuration or in DNS: takes no new request.
    var isRetired = false
}

/// The addresses of one upstream and the load balancing among them. A value without sockets; one per worker and upstream.
struct UpstreamPool {
    private(set) var settings: UpstreamSettings
    var endpoints: [Endpoint]
    /// Shared with the same pool of every other worker.
    let connections: ConnectionBudget
    /// Requests that wait for a connection within the bound.
    var room = RoomQueue()
    var budget = RetryBudget()
    private var turn = 0
    /// Whether priorities or weights of the addresses differ, as only those of SRV records do.
    private(set) var isRanked = false
    /// When its addresses are probed next.
    var nextProbe = MonotonicTime(nanoseconds: 0)

    init(settings: UpstreamSettings, addresses: [UpstreamAddress], connections: ConnectionBudget = ConnectionBudget()) {
        self.settings = settings
        self.connections = connections
        endpoints = addresses.map { Endpoint(address: $0) }
        isRanked = addresses.haveRanks
    }

    /// Reserves one more connection within `max-connections`, if there is room.
    func reserveConnection() -> Bool { connections.acquire(within: settings.maxConnections) }

    /// Whether another worker may need an idle connection's room.
    var isBounded: Bool { settings.maxConnections < .max }

    /// Whether more connections are open than allowed, since a reload lowered the bound.
    var isOverBound: Bool { isBounded && connections.isOver(settings.maxConnections) }

    /// The endpoint for the next request, or for its retry, which avoids the one that failed if there is another; nil if none may
    /// be used now.
    ///
    /// Unhealthy addresses are never chosen. If every healthy one is ejected, they are used all the same: outlier detection may be
    /// wrong, and must not take the last address away.
    mutating func choose(avoiding avoided: Int?, at now: MonotonicTime) -> Int? {
        if endpoints.count == 1 { return endpoints[0].health.isHealthy && !endpoints[0].isRetired ? 0 : nil }
        if isRanked { return chooseByRank(avoiding: avoided, at: now) }
        turn &+= 1
        var best: Int?
        var bestScore = Int.max
        for offset in endpoints.indices {
            let index = (turn &+ offset) % endpoints.count
            guard endpoints[index].health.isHealthy, !endpoints[index].isRetired else { continue }
            var score = settings.balance == .leastOutstanding ? endpoints[index].outstanding : 0
            if endpoints[index].health.isEjected(at: now) { score += 1 << 40 }
            if index == avoided { score += 1 << 41 }
            if score < bestScore {
                best = index
                bestScore = score
            }
        }
        return best
    }

    /// Addresses that requests may be sent to.
    func availableCount(at now: MonotonicTime) -> Int { endpoints.count { !$0.isRetired && $0.health.isAvailable(at: now) } }

    /// Adopts new settings and addresses. An address that stays keeps its state; one that is gone is retired, but keeps its index
    /// while it is in use.
    mutating func adopt(_ settings: UpstreamSettings, addresses: [UpstreamAddress]) {
        self.settings = settings
        isRanked = addresses.haveRanks
        for index in endpoints.indices {
            let same = addresses.first { endpoints[index].address.isSame(as: $0) }
            endpoints[index].isRetired = same == nil
            if let same { endpoints[index].address = same }
        }
        for address in addresses where !endpoints.contains(where: { $0.address.isSame(as: address) }) {
            let endpoint = Endpoint(address: address)
            if let free = endpoints.firstIndex(where: { $0.isRetired && $0.connections == 0 && $0.outstanding == 0 }) {
                endpoints[free] = endpoint
            } else {
                endpoints.append(endpoint)
            }
        }
    }
}
