internal import System
internal import Transport
package import Wire

/// A parsed `REDIS_URL`. Only valid values can be made.
///
/// Never prints the password.
package struct RedisEndpoint: Equatable, Sendable {
    /// Address of one server.
    package enum Address: Equatable, Hashable, Sendable {
        /// A name, or an address without brackets.
        case host(String, port: UInt16)
        case unix(path: String)
    }

    /// Servers of the endpoint, and how to find the one that has a key. Lists are in the URL's order and not empty.
    package enum Topology: Equatable, Sendable {
        /// One server with all keys.
        case single(Address)
        /// Redis Cluster; some of its nodes, which know the others.
        case cluster([Address])
        /// One primary with all keys, which these sentinels name.
        case sentinel([Address], master: String)
    }

    /// User and password of AUTH.
    struct Credentials: Equatable, Sendable {
        /// ACL user; nil for the default user.
        var user: [UInt8]?
        /// nil: AUTH is not sent.
        var password: [UInt8]?
    }

    package let topology: Topology
    package let usesTLS: Bool
    /// Of the servers with the keys.
    private let credentials: Credentials
    /// Of the sentinels.
    private let sentinelCredentials: Credentials
    package let database: UInt32

    /// ACL user of the servers with the keys; nil for the default user.
    var user: [UInt8]? { credentials.user }
    var password: [UInt8]? { credentials.password }

    init(
        topology: Topology, usesTLS: Bool, credentials: Credentials = Credentials(),
        sentinelCredentials: Credentials = Credentials(), database: UInt32 = 0
    ) {
        self.topology = topology
        self.usesTLS = usesTLS
        self.credentials = credentials
        self.sentinelCredentials = sentinelCredentials
        self.database = database
    }

    /// The addresses in the URL: of the server, of some nodes, or of sentinels.
    package var seeds: [Address] {
        switch topology {
        case .single(let address): [address]
        case .cluster(let addresses), .sentinel(let addresses, _): addresses
        }
    }

    /// Why a connection whose server is no more one of this endpoint's is closed.
    func reasonOfMove(hasServers: Bool) -> RedisFault {
        switch topology {
        case .single: .moved
        case .cluster: .otherNodes
        case .sentinel: hasServers ? .replaced : .noPrimary
        }
    }

    /// Why there is nothing to connect to.
    var reasonWithoutServers: RedisFault {
        switch topology {
        case .single: .noAddress
        case .cluster: .noNode
        case .sentinel: .noPrimary
        }
    }

    /// Whether sentinels name the server.
    package var hasSentinels: Bool {
        switch topology {
        case .sentinel: true
        case .single, .cluster: false
        }
    }

    /// The endpoint of one server with keys: a node of the cluster, or the sentinels' primary.
    package func server(at address: Address) -> RedisEndpoint {
        RedisEndpoint(topology: .single(address), usesTLS: usesTLS, credentials: credentials, database: database)
    }

    /// The endpoint of one sentinel, with the sentinels' credentials.
    package func sentinel(at address: Address) -> RedisEndpoint {
        RedisEndpoint(topology: .single(address), usesTLS: usesTLS, credentials: sentinelCredentials)
    }

    /// Addresses that need no resolver: a path or a numeric host; nil for a name, and where the servers must be asked for.
    package var fixedAddresses: [SocketAddress]? {
        switch topology {
        case .single(let address): address.fixed.map { [$0] }
        case .cluster, .sentinel: nil
        }
    }

    /// Name that the certificate of a single server must have; empty without TLS.
    package var serverName: String {
        switch topology {
        case .single(.host(let host, _)): host
        case .single(.unix), .cluster, .sentinel: ""
        }
    }
}

extension RedisEndpoint.Address: CustomStringConvertible {
    /// The address if it needs no resolver: a path or a numeric host.
    package var fixed: SocketAddress? {
        switch self {
        case .unix(let path): .unix(path)
        case .host(let host, let port): Resolver.numeric(host).map { .ip($0, port: port) }
        }
    }

    /// `redis.example:6379`, `[::1]:6379`, or a path.
    package var description: String {
        switch self {
        case .unix(let path): path
        case .host(let host, let port): "\(host.contains(":") ? "[\(host)]" : host):\(port)"
        }
    }
}

extension RedisEndpoint: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The URL without users and passwords: `rediss://redis.example:6379/0`.
    package var description: String {
        let scheme = usesTLS ? "rediss" : "redis"
        let servers = seeds.map(\.description).joined(separator: ",")
        return switch topology {
        case .single(.unix(let path)): "unix:\(path)?db=\(database)"
        case .single(.host): "\(scheme)://\(servers)/\(database)"
        case .cluster: "\(scheme)+cluster://\(servers)"
        case .sentinel(_, let master): "\(scheme)+sentinel://\(servers)/\(master)/\(database)"
        }
    }

    package var debugDescription: String { description }
    /// `dump` and failed expectations print the description only.
    package var customMirror: Mirror { Mirror(self, children: []) }
}
