internal import Transport
package import Wire

/// Where the shared counters are: what a `REDIS_URL` says. A value that could not be meant cannot be made.
///
/// Printing one never shows the password.
package struct RedisEndpoint: Equatable, Sendable {
    /// One server's place.
    package enum Place: Equatable, Hashable, Sendable {
        /// A name or an address without brackets.
        case host(String, port: UInt16)
        case unix(path: String)
    }

    /// How many servers there are and which of them has a key: the one place where another form plugs in.
    ///
    /// - A cluster (`redis+cluster://`) would be a case with its seeds: its driver keeps a `RedisConnection` for each node
    ///   and chooses by the slot of a command's first key; a call then has charges of one slot, and the counts of a charge
    ///   need a hash tag in common.
    /// - Sentinels (`redis+sentinel://`) would be a case with their places and the primary's name: who resolves names asks
    ///   them instead, and `RedisConnection.replace(addresses:)` follows a failover.
    package enum Topology: Equatable, Sendable {
        case single(Place)
    }

    package let topology: Topology
    package let usesTLS: Bool
    /// Of an access-control list; nil for the default user.
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

    package var place: Place {
        switch topology {
        case .single(let place): place
        }
    }

    /// The addresses that need no resolver: a path's or a numeric host's; nil for a name.
    package var fixedAddresses: [SocketAddress]? {
        switch place {
        case .unix(let path): [.unix(path)]
        case .host(let host, let port): Resolver.numeric(host).map { [.ip($0, port: port)] }
        }
    }

    /// What the server's certificate must be for; empty where TLS is not spoken.
    package var serverName: String {
        switch place {
        case .unix: ""
        case .host(let host, _): host
        }
    }
}

extension RedisEndpoint: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The URL without user and password: `rediss://redis.example:6379/0`.
    package var description: String {
        switch place {
        case .unix(let path): "unix:\(path)?db=\(database)"
        case .host(let host, let port):
            "\(usesTLS ? "rediss" : "redis")://\(host.contains(":") ? "[\(host)]" : host):\(port)/\(database)"
        }
    }

    package var debugDescription: String { description }
    /// `dump` and failed expectations show the description and nothing inside.
    package var customMirror: Mirror { Mirror(self, children: []) }
}
