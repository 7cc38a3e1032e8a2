import Transport
import Wire

/// Parser of `REDIS_URL` (component names of RFC 3986):
/// - `redis://[user][:password]@host[:port][/database]`, `rediss://` with TLS;
/// - `unix:/path` or `unix:///path`, with `?db=`, `user=` and `password=`.
extension RedisEndpoint {
    package init(parsing text: String) throws(RedisEndpointFault) {
        let bytes = Array(text.utf8)
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")) else { throw .scheme }
        let scheme = String(decoding: bytes[..<colon], as: UTF8.self).lowercased()
        let rest = bytes[(colon + 1)...]
        switch scheme {
        case "unix": self = try Self.unix(rest)
        case "redis", "rediss": self = try Self.network(rest, usesTLS: scheme == "rediss")
        case "redis+cluster", "rediss+cluster": throw .cluster
        case "redis+sentinel", "rediss+sentinel": throw .sentinel
        default: throw .scheme
        }
    }

    // MARK: a server of the network

    private static func network(_ rest: ArraySlice<UInt8>, usesTLS: Bool) throws(RedisEndpointFault) -> RedisEndpoint {
        guard rest.starts(with: "//".utf8) else { throw .scheme }
        let all = rest.dropFirst(2)
        let authority = all.prefix { !"/?#".utf8.contains($0) }
        let tail = all.dropFirst(authority.count)
        // An @ behind the authority follows an unescaped / ? or # in the password.
        guard !tail.contains(UInt8(ascii: "@")) else { throw .reserved }
        let (credentials, host) = try split(authority)
        let address = try address(host)
        guard !tail.contains(UInt8(ascii: "?")), !tail.contains(UInt8(ascii: "#")) else { throw .query }
        return RedisEndpoint(
            topology: .single(address), usesTLS: usesTLS, user: credentials.user, password: credentials.password,
            database: try database(tail.dropFirst()))
    }

    private typealias Credentials = (user: [UInt8]?, password: [UInt8]?)

    private static func split(_ authority: ArraySlice<UInt8>) throws(RedisEndpointFault) -> (Credentials, ArraySlice<UInt8>) {
        guard let at = authority.lastIndex(of: UInt8(ascii: "@")) else { return ((nil, nil), authority) }
        let info = authority[..<at]
        guard !info.contains(where: { "@[]".utf8.contains($0) }) else { throw .reserved }
        let user = try decoded(info.prefix { $0 != UInt8(ascii: ":") })
        let host = authority[(at + 1)...]
        guard let colon = info.firstIndex(of: UInt8(ascii: ":")) else {
            guard user.isEmpty else { throw .userWithoutPassword }
            return ((nil, nil), host)
        }
        let password = try decoded(info[(colon + 1)...])
        // An ACL user may have an empty password; for the default user it means none.
        if user.isEmpty { return ((nil, password.isEmpty ? nil : password), host) }
        return ((user, password), host)
    }

    private static func address(_ text: ArraySlice<UInt8>) throws(RedisEndpointFault) -> Address {
        var host = text
        var port: UInt16 = 6379
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
        let options = try options(rest.dropFirst(written.count + 1))
        guard options["user"] == nil || options["password"] != nil else { throw .userWithoutPassword }
        return RedisEndpoint(
            topology: .single(.unix(path: String(decoding: path, as: UTF8.self))), usesTLS: false,
            user: options["user"], password: options["password"], database: try database(options["db", default: []][...]))
    }

    private static func options(_ query: ArraySlice<UInt8>) throws(RedisEndpointFault) -> [String: [UInt8]] {
        var found: [String: [UInt8]] = [:]
        for option in query.split(separator: UInt8(ascii: "&")) {
            let name = String(decoding: option.prefix { $0 != UInt8(ascii: "=") }, as: UTF8.self)
            guard ["db", "user", "password"].contains(name), found[name] == nil else { throw .query }
            found[name] = try decoded(option.dropFirst(name.utf8.count + 1))
        }
        return found
    }

    // MARK: parts

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
