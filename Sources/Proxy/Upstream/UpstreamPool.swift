import Transport
import Wire

/// How an upstream is reached and how long each step may take: configuration, the same on every worker.
package struct UpstreamSettings: Sendable {
    package enum Balance: Sendable { case leastOutstanding, roundRobin }

    /// The configured name, lower case: the metrics' label.
    package var name: String
    package var balance = Balance.leastOutstanding
    /// Milliseconds to establish a connection, with TLS where it is spoken.
    package var connectTimeout: UInt64 = 2_000
    /// Milliseconds to the first byte of an answer, and between two bytes of it.
    package var timeout: UInt64 = 30_000
    /// How often a request that may be repeated is sent again.
    package var retries = 1
    /// Connections of all workers to all addresses, without health checks; past it a request is refused with 503.
    package var maxConnections = Int.max
    /// The path of active health checks; nil for none.
    package var healthPath: String?
    package var healthInterval: UInt64 = 5_000
    /// Whether `Host` is the address's own and not the client's.
    package var sendsOwnHost = false

    package init(name: String) { self.name = name }
}

/// Where an endpoint is: the place of its pool in the directory, and its own in the pool.
struct EndpointIndex: Equatable, Sendable {
    var pool: Int
    var number: Int
}

/// One address of an upstream as one worker knows it.
struct Endpoint {
    let address: UpstreamAddress
    var health = EndpointHealth()
    /// Requests on their way there from this worker.
    var outstanding = 0
    /// Connections there of this worker, busy and idle.
    var connections = 0
    /// The most recently used idle connection, the head of a list through `UpstreamConnection.nextIdle`.
    var idleHead: UpstreamIndex?
    /// Left the configuration or the name's addresses: takes no new request.
    var isRetired = false
}

/// The addresses of one upstream, and the choice among them. A value without sockets; one per worker and upstream.
struct UpstreamPool {
    private(set) var settings: UpstreamSettings
    var endpoints: [Endpoint]
    /// Shared with the same pool of every other worker.
    let connections: ConnectionBudget
    /// Requests that wait for one of those connections.
    var room = RoomQueue()
    var budget = RetryBudget()
    private var turn = 0
    /// When its addresses are probed next.
    var nextProbe = MonotonicTime(nanoseconds: 0)

    init(settings: UpstreamSettings, addresses: [UpstreamAddress], connections: ConnectionBudget = ConnectionBudget()) {
        self.settings = settings
        self.connections = connections
        endpoints = addresses.map { Endpoint(address: $0) }
    }

    /// Takes room for one more connection, if there is some.
    func takeRoom() -> Bool { connections.take(within: settings.maxConnections) }

    /// Whether idle connections may be in another worker's way.
    var isBounded: Bool { settings.maxConnections < .max }

    enum Choice: Equatable {
        case endpoint(Int)
        /// No address may be used now.
        case unavailable
    }

    /// The address for the next request, or for its retry, which avoids the address that failed it where another one is to be had.
    ///
    /// Unhealthy addresses are never chosen. If every healthy one is ejected they are used all the same: ejection
    /// rests on guesses, and a guess must not take the last address away.
    mutating func choose(avoiding avoided: Int?, at now: MonotonicTime) -> Choice {
        if endpoints.count == 1 {
            return endpoints[0].health.isHealthy && !endpoints[0].isRetired ? .endpoint(0) : .unavailable
        }
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
        return best.map { .endpoint($0) } ?? .unavailable
    }

    /// Takes over new settings and addresses; what is known of an address that stays is kept, one that is gone is retired.
    ///
    /// An index handed out before stays good: retired addresses keep theirs.
    mutating func adopt(_ settings: UpstreamSettings, addresses: [UpstreamAddress]) {
        self.settings = settings
        for index in endpoints.indices {
            endpoints[index].isRetired = !addresses.contains { endpoints[index].address.isSame(as: $0) }
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
