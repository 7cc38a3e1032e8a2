import System
import Transport
import Wire

/// Parser of `REDIS_URL` (component names of RFC 3986):
/// - `redis://[user][:password]@host[:port][/database]`, `rediss://` with TLS;
/// - `unix:/path` or `unix:///path`, with `?db=`, `user=` and `password=`;
/// - `redis+cluster://[user][:password]@host[:port],host[:port],…`, `rediss+cluster://` with TLS: some nodes of a cluster;
/// - `redis+sentinel://[user][:password]@host[:port],…/master-name[/database]`, `rediss+sentinel://` with TLS to sentinels and
///   servers: user and password are the servers'; those of the sentinels are `?sentinel-user=` and `sentinel-password=`.
///
/// Port 6379 goes without saying, and 26379 for sentinels.
extension RedisEndpoint {
    package init(parsing text: String) throws(RedisEndpointFault) {
        let bytes = Array(text.utf8)
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")) else { throw .scheme }
        let scheme = String(decoding: bytes[..<colon], as: UTF8.self).lowercased()
        let rest = bytes[(colon + 1)...]
        switch scheme {
        case "unix": self = try Self.unix(rest)
        case "redis", "rediss": self = try Self.network(rest, usesTLS: scheme == "rediss")
        case "redis+cluster", "rediss+cluster": self = try Self.cluster(rest, usesTLS: scheme == "rediss+cluster")
        case "redis+sentinel", "rediss+sentinel": self = try Self.sentinel(rest, usesTLS: scheme == "rediss+sentinel")
        default: throw .scheme
        }
    }

    // MARK: servers of the network

    private static func network(_ rest: ArraySlice<UInt8>, usesTLS: Bool) throws(RedisEndpointFault) -> RedisEndpoint {
        let url = try URL(rest)
        guard !url.hosts.contains(UInt8(ascii: ",")) else { throw .severalHosts }
        let address = try address(url.hosts)
        guard url.query.isEmpty else { throw .query }
        return RedisEndpoint(
            topology: .single(address), usesTLS: usesTLS, credentials: url.credentials, database: try database(url.path))
    }

    private static func cluster(_ rest: ArraySlice<UInt8>, usesTLS: Bool) throws(RedisEndpointFault) -> RedisEndpoint {
        let url = try URL(rest)
        let nodes = try addresses(url.hosts)
        guard url.query.isEmpty else { throw .query }
        guard try database(url.path) == 0 else { throw .clusterDatabase }
        return RedisEndpoint(topology: .cluster(nodes), usesTLS: usesTLS, credentials: url.credentials)
    }

    private static func sentinel(_ rest: ArraySlice<UInt8>, usesTLS: Bool) throws(RedisEndpointFault) -> RedisEndpoint {
        let url = try URL(rest)
        let sentinels = try addresses(url.hosts, defaultPort: 26379)
        let master = url.path.prefix { $0 != UInt8(ascii: "/") }
        guard !master.isEmpty, master.allSatisfy({ $0.isASCIILetter || $0.isASCIIDigit || ".-_".utf8.contains($0) }) else {
            throw .masterName
        }
        guard !url.query.contains(UInt8(ascii: "#")) else { throw .sentinelQuery }
        let options = try options(url.query.dropFirst(), "sentinel-user", "sentinel-password", or: .sentinelQuery)
        let credentials = Credentials(user: options["sentinel-user"], password: options["sentinel-password"])
        guard credentials.user == nil || credentials.password != nil else { throw .sentinelQuery }
        return RedisEndpoint(
            topology: .sentinel(sentinels, master: String(decoding: master, as: UTF8.self)), usesTLS: usesTLS,
            credentials: url.credentials, sentinelCredentials: credentials,
            database: try database(url.path.dropFirst(master.count + 1)))
    }

    /// The parts of a URL behind the scheme's colon.
    private struct URL {
        let credentials: Credentials
        let hosts: ArraySlice<UInt8>
        /// Without the slash.
        let path: ArraySlice<UInt8>
        /// With its `?`, and a fragment if there is one; empty without either.
        let query: ArraySlice<UInt8>

        init(_ rest: ArraySlice<UInt8>) throws(RedisEndpointFault) {
            guard rest.starts(with: "//".utf8) else { throw .scheme }
            let all = rest.dropFirst(2)
            let authority = all.prefix { !"/?#".utf8.contains($0) }
            let tail = all.dropFirst(authority.count)
            // An @ behind the authority follows an unescaped / ? or # in the password.
            guard !tail.contains(UInt8(ascii: "@")) else { throw .reserved }
            (credentials, hosts) = try split(authority)
            let path = tail.prefix { !"?#".utf8.contains($0) }
            self.path = path.dropFirst()
            query = tail.dropFirst(path.count)
        }
    }

    private static func split(_ authority: ArraySlice<UInt8>) throws(RedisEndpointFault) -> (Credentials, ArraySlice<UInt8>) {
        guard let at = authority.lastIndex(of: UInt8(ascii: "@")) else { return (Credentials(), authority) }
        let info = authority[..<at]
        guard !info.contains(where: { "@[]".utf8.contains($0) }) else { throw .reserved }
        let user = try decoded(info.prefix { $0 != UInt8(ascii: ":") })
        let host = authority[(at + 1)...]
        guard let colon = info.firstIndex(of: UInt8(ascii: ":")) else {
            guard user.isEmpty else { throw .userWithoutPassword }
            return (Credentials(), host)
        }
        let password = try decoded(info[(colon + 1)...])
        // An ACL user may have an empty password; for the default user it means none.
        if user.isEmpty { return (Credentials(password: password.isEmpty ? nil : password), host) }
        return (Credentials(user: user, password: password), host)
    }

    private static func addresses(
        _ text: ArraySlice<UInt8>, defaultPort: UInt16 = 6379
    ) throws(RedisEndpointFault) -> [Address] {
        var found: [Address] = []
        for host in text.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            found.append(try address(host, defaultPort: defaultPort))
        }
        return found
    }

    private static func address(
        _ text: ArraySlice<UInt8>, defaultPort: UInt16 = 6379
    ) throws(RedisEndpointFault) -> Address {
        var host = text
        var port = defaultPort
        let bracket = text.firstIndex(of: UInt8(ascii: "]"))
        if let colon = text.lastIndex(of: UInt8(ascii: ":")), colon > bracket ?? -1 {
            host = text[..<colon]
            guard let number = number(text[(colon + 1)...]), let value = UInt16(exactly: number), value > 0 else { throw .port }
            port = value
        }
        let name = String(decoding: host, as: UTF8.self)
        if host.first == UInt8(ascii: "[") || host.contains(UInt8(ascii: ":")) {
            guard host.first == UInt8(ascii: "["), let address = Resolver.numeric(name) else { throw .host }
            return .host(address.text, port: port)
        }
        guard !host.isEmpty, host.allSatisfy({ $0.isASCIILetter || $0.isASCIIDigit || "-._".utf8.contains($0) }) else {
            throw .host
        }
        return .host(name, port: port)
    }

    // MARK: a socket of this machine

    private static func unix(_ rest: ArraySlice<UInt8>) throws(RedisEndpointFault) -> RedisEndpoint {
        let written = rest.prefix { $0 != UInt8(ascii: "?") }
        let path = try decoded(written.starts(with: "///".utf8) ? written.dropFirst(2) : written)
        guard path.first == UInt8(ascii: "/"), !path.starts(with: "//".utf8), (2...107).contains(path.count) else { throw .path }
        let options = try options(rest.dropFirst(written.count + 1), "db", "user", "password", or: .query)
        guard options["user"] == nil || options["password"] != nil else { throw .userWithoutPassword }
        return RedisEndpoint(
            topology: .single(.unix(path: String(decoding: path, as: UTF8.self))), usesTLS: false,
            credentials: Credentials(user: options["user"], password: options["password"]),
            database: try database(options["db", default: []][...]))
    }

    // MARK: parts

    /// The options of a query, which may be these.
    private static func options(
        _ query: ArraySlice<UInt8>, _ names: String..., or fault: RedisEndpointFault
    ) throws(RedisEndpointFault) -> [String: [UInt8]] {
        var found: [String: [UInt8]] = [:]
        for option in query.split(separator: UInt8(ascii: "&")) {
            let name = String(decoding: option.prefix { $0 != UInt8(ascii: "=") }, as: UTF8.self)
            guard names.contains(name), found[name] == nil else { throw fault }
            found[name] = try decoded(option.dropFirst(name.utf8.count + 1))
        }
        return found
    }

    /// An empty path means database 0.
    private static func database(_ digits: ArraySlice<UInt8>) throws(RedisEndpointFault) -> UInt32 {
        if digits.isEmpty { return 0 }
        guard let number = number(digits) else { throw .database }
        return number
    }

    /// At most nine digits.
    private static func number(_ digits: ArraySlice<UInt8>) -> UInt32? {
        guard (1...9).contains(digits.count), digits.allSatisfy(\.isASCIIDigit) else { return nil }
        return digits.reduce(0) { $0 * 10 + UInt32($1 - 48) }
    }

    private static func decoded(_ text: ArraySlice<UInt8>) throws(RedisEndpointFault) -> [UInt8] {
        guard let bytes = PercentEncoding.decode(text), !bytes.contains(0) else { throw .encoding }
        return bytes
    }
}
