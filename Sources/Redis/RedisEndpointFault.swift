/// Invalid `REDIS_URL`. The description says what would be valid, and never contains a part of the URL that may be the
/// password.
package enum RedisEndpointFault: Error, Equatable, Sendable, CaseIterable {
    case scheme
    case encoding
    case reserved
    case userWithoutPassword
    case host
    case severalHosts
    case port
    case database
    case clusterDatabase
    case masterName
    case query
    case sentinelQuery
    case path
}

extension RedisEndpointFault: CustomStringConvertible {
    package var description: String {
        switch self {
        case .scheme:
            "it must begin with redis://, redis+cluster://, redis+sentinel://, the same with rediss (TLS), or unix: (a socket's path), as in redis://127.0.0.1:6379/0"
        case .encoding:
            "it holds a broken percent-encoding, or one of a zero byte: a % must be followed by two hexadecimal digits, and stands for itself as %25"
        case .reserved:
            "the user or the password holds one of / ? # @ [ ] as it is: write them %2F %3F %23 %40 %5B %5D"
        case .userWithoutPassword:
            "it names a user without a password: write user:password@host, or :password@host for the default user"
        case .host:
            "the host must be a name, an IPv4 address or an IPv6 address in brackets, as in redis://[::1]:6379/0"
        case .severalHosts:
            "several hosts are nodes of a cluster, redis+cluster://a,b, or sentinels, redis+sentinel://a,b/master-name"
        case .port:
            "the port after the host's colon must be a number from 1 to 65535"
        case .database:
            "the database must be a whole number, as in redis://127.0.0.1:6379/0"
        case .clusterDatabase:
            "a cluster has only database 0, as in redis+cluster://a:6379,b:6379"
        case .masterName:
            "the path must be the name by which the sentinels know the primary (letters, digits, . - _), as in redis+sentinel://a:26379,b:26379/mymaster/0"
        case .query:
            "only a unix socket has options behind a ?: db, user and password, each at most once, an & inside them written %26"
        case .sentinelQuery:
            "only sentinel-user and sentinel-password may follow the ? of redis+sentinel://, each at most once, no user without a password, an & inside them written %26"
        case .path:
            "a unix socket is named by its whole path of at most 107 bytes, as in unix:/run/redis/redis.sock?db=0"
        }
    }
}
