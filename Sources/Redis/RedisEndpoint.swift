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

    /// Servers of the endpoint, and which of them has a key. Other topologies would be cases here:
    ///
    /// - A cluster (`redis+cluster://`), with its seeds: its driver keeps a `RedisConnection` per node and chooses by the
    ///   slot of a command's first key. A call then has charges of one slot, and the counts of a charge need a common hash
    ///   tag.
    /// - Sentinels (`redis+sentinel://`), with their addresses and the primary's name: the resolver asks them, and
    ///   `RedisConnection.replace(addresses:)` follows a failover.
    package enum Topology: Equatable, Sendable {
        case single(Address)
    }

    package let topology: Topology
    package let usesTLS: Bool
    /// ACL user; nil for the default user.
    let user: [UInt8]?
    let password: [UInt8]?
    package let database: UInt32

    init(topology: Topology, usesTLS: Bool, user: [UInt8]? = nil, password: [UInt8]? = nil, database: UInt32 = 0) {
        self.topology = topology
        self.usesTLS = usesTLS
        self.user = user
        self.password = password
        self.database = database
    }

    package var address: Address {
        switch topology {
        case .single(let address): address
        }
    }

    /// Addresses that need no resolver: a path or a numeric host; nil for a name.
    package var fixedAddresses: [SocketAddress]? {
        switch address {
        case .unix(let path): [.unix(path)]
        case .host(let host, let port): Resolver.numeric(host).map { [.ip($0, port: port)] }
        }
    }

    /// Name that the server's certificate must have; empty without TLS.
    package var serverName: String {
        switch address {
        case .unix: ""
        case .host(let host, _): host
        }
    }
}

extension RedisEndpoint: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The URL without user and password: `rediss://redis.example:6379/0`.
    package var description: String {
        switch address {
        case .unix(let path): "unix:\(path)?db=\(database)"
        case .host(let host, let port):
            "\(usesTLS ? "rediss" : "redis")://\(host.contains(":") ? "[\(host)]" : host):\(port)/\(database)"
        }
    }

    package var debugDescription: String { description }
    /// `dump` and failed expectations print the description only.
    package var customMirror: Mirror { Mirror(self, children: []) }
}
