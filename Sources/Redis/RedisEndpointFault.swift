/// Invalid `REDIS_URL`. The description says what would be valid, and never contains a part of the URL that may be the
/// password.
package enum RedisEndpointFault: Error, Equatable, Sendable, CaseIterable {
    case scheme
    case cluster
    case sentinel
    case encoding
    case reserved
    case userWithoutPassword
    case host
    case port
    case database
    case query
    case path
}

extension RedisEndpointFault: CustomStringConvertible {
    package var description: String {
        switch self {
        case .scheme:
            "it must begin with redis://, rediss:// (with TLS) or unix: (a socket's path), as in redis://127.0.0.1:6379/0"
        case .cluster:
            "redis+cluster:// is not supported yet: name one server that has all keys, as in redis://127.0.0.1:6379/0"
        case .sentinel:
            "redis+sentinel:// is not supported yet: name the primary itself, as in redis://127.0.0.1:6379/0"
        case .encoding:
            "it holds a broken percent-encoding, or one of a zero byte: a % must be followed by two hexadecimal digits, and stands for itself as %25"
        case .reserved:
            "the user or the password holds one of / ? # @ [ ] as it is: write them %2F %3F %23 %40 %5B %5D"
        case .userWithoutPassword:
            "it names a user without a password: write user:password@host, or :password@host for the default user"
        case .host:
            "the host must be a name, an IPv4 address or an IPv6 address in brackets, as in redis://[::1]:6379/0"
        case .port:
            "the port after the host's colon must be a number from 1 to 65535"
        case .database:
            "the database must be a whole number, as in redis://127.0.0.1:6379/0"
        case .query:
            "only a unix socket has options behind a ?: db, user and password, each at most once, an & inside them written %26"
        case .path:
            "a unix socket is named by its whole path of at most 107 bytes, as in unix:/run/redis/redis.sock?db=0"
        }
    }
}
