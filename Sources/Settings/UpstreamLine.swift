package import Wire

/// The address of an upstream.
package enum UpstreamEndpoint: Hashable, Sendable {
    /// A host name (lower case) or an IP address, and a port, by default the scheme's.
    case host(String, port: UInt16)
    /// A name (lower case) whose SRV records say hosts and ports (RFC 2782).
    case service(String)
    case unix(path: String)
}

/// One base URL of an upstream.
package struct UpstreamBase: Hashable, Sendable {
    package var isTLS: Bool
    package var endpoint: UpstreamEndpoint
    /// The `Host` field with `host=upstream`: the host and, unless it is the scheme's, the port. Of a service its domain, for which
    /// its certificate must be, too: the targets of SRV records come from DNS, which proves nothing (RFC 6125 §6.2.1).
    package var hostField: String
    /// The prefix of each request's path: empty, or `/…` without a slash at the end.
    package var pathPrefix: String
    /// The source text, for messages, metrics and logs.
    package var text: String
}

/// The load balancing policy of an upstream (`balance=`): least requests, or round robin.
package enum Balance: String, Hashable, Sendable, CaseIterable { case least, round }

/// An upstream, as a `TOLLGATE_UPSTREAM_…` line declares it. Times are in milliseconds.
package struct UpstreamDeclaration: Hashable, Sendable {
    package var name: String
    package var bases: [UpstreamBase]
    package var balance: Balance = .least
    /// The kind of active health checks; nil for none.
    package var health: HealthCheck?
    /// From the end of the request to the first byte of the response, and between its parts.
    package var timeoutMilliseconds: UInt32 = 30_000
    package var connectTimeoutMilliseconds: UInt32 = 2_000
    /// The number of retries of an idempotent request, 0 to 5.
    package var retries: UInt8 = 1
    /// The maximum number of connections of all workers to all addresses; nil for no bound.
    package var maxConnections: Int?
    /// Ejections, and the bounds on requests and retries.
    package var limits = UpstreamLimits()
    /// Whether requests go over HTTP/2: by ALPN to https, by prior knowledge to http.
    package var speaksHTTP2 = false
    /// Whether the upstream receives its own name as `Host` in place of the client's.
    package var sendsOwnHost = false
    /// Whether it tells paths apart by case, last slash and blanks at the end (`paths=exact`).
    package var pathsAreExact = false
    /// PEM file of the CA for the upstream's certificate; nil for the system's.
    package var authorityFile: String?
    package var origin: Origin
}

extension UpstreamDeclaration {
    /// A kind of active health checks (`health=`).
    package enum HealthCheck: Hashable, Sendable {
        /// GET of this path, with an answer from 200 to 399.
        case path(String)
        /// The standard health service of gRPC.
        case grpc

        /// As it is written.
        package var text: String {
            switch self {
            case .path(let path): path
            case .grpc: "grpc"
            }
        }
    }
}

extension LineOption {
    package static let upstream: [LineOption] = [
        LineOption("balance", "least or round", "the address with the fewest requests under way, or round robin"),
        LineOption("health", "a path, or grpc", "probed every few seconds; an address that fails the probe gets no requests. `grpc` is the standard health service of gRPC and needs `http2=on`"),
        LineOption("timeout", "30s", "the time until the first byte of the response, and between its parts"),
        LineOption("connect-timeout", "2s", "the time for the connection and the TLS handshake"),
        LineOption("retries", "1", "the number of retries of an idempotent request that got no response, up to 5"),
        LineOption("max-connections", "unbounded", "the maximum number of connections of all workers to all addresses, health checks excepted; beyond it 503"),
        LineOption("http2", "off or on", "HTTP/2, many requests on one connection: by ALPN over https://, by prior knowledge otherwise"),
        LineOption("host", "client or upstream", "the `Host` that the upstream receives: the client's, or the address's own"),
        LineOption("paths", "loose or exact", "`exact` if it tells paths apart by case, last slash and blanks at the end; otherwise a path that differs only in these from one of a stricter route is refused"),
        LineOption("tls-ca", "a PEM file", "the CA of its certificate; the system's CAs by default"),
    ] + upstreamLimits
}

/// Parser of `TOLLGATE_UPSTREAM_<NAME>`: `URL… key=value…`.
enum UpstreamLine {
    static func parse(_ entry: EnvEntry, name: String) -> (UpstreamDeclaration, Findings) {
        var line = OptionLine(entry, knows: LineOption.upstream)
        var bases: [UpstreamBase] = []
        for word in line.words {
            let base = line.parse(word, word) { text throws(ParseError) in try UpstreamBase(text) }
            guard let base else { continue }
            if bases.contains(base) { line.fault("\(quoted(word)) is given twice, keep one of them") } else { bases.append(base) }
        }
        if line.words.isEmpty { line.fault("has no address, write one like http://127.0.0.1:9001") }
        var upstream = UpstreamDeclaration(name: name, bases: bases, origin: entry.origin)
        read(&line, into: &upstream)
        return (upstream, line.findings)
    }

    private static func read(_ line: inout OptionLine, into upstream: inout UpstreamDeclaration) {
        if let balance = line.choice("balance", Balance.allCases.map(\.rawValue)) {
            upstream.balance = balance == Balance.round.rawValue ? .round : .least
        }
        if let timeout = line.duration("timeout", 1...86_400_000) { upstream.timeoutMilliseconds = UInt32(timeout) }
        if let timeout = line.duration("connect-timeout", 1...600_000) {
            upstream.connectTimeoutMilliseconds = UInt32(timeout)
        }
        if let retries = line.count("retries", 0...5) { upstream.retries = UInt8(retries) }
        upstream.maxConnections = line.count("max-connections", 1...1_000_000)
        upstream.limits = line.upstreamLimits()
        upstream.speaksHTTP2 = line.choice("http2", ["off", "on"]) == "on"
        upstream.sendsOwnHost = line.choice("host", ["client", "upstream"]) == "upstream"
        upstream.pathsAreExact = line.choice("paths", ["loose", "exact"]) == "exact"
        upstream.health = line.value("health") { text throws(ParseError) in
            text == "grpc" ? .grpc : .path(try originPath(text))
        }
        if upstream.health == .grpc, !upstream.speaksHTTP2 { line.fault("health=grpc needs HTTP/2, write http2=on beside it") }
        upstream.authorityFile = line.text("tls-ca").map(upstream.origin.path)
        if line.has("tls-ca"), !upstream.bases.contains(where: \.isTLS) {
            line.fault("tls-ca= is for https:// addresses and there is none, remove it or write https://")
        }
    }

    /// A path in origin form (RFC 9112 §3.2.1), with an optional query.
    static func originPath(_ text: String) throws(ParseError) -> String {
        guard text.hasPrefix("/"), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }) else {
            throw ParseError("is no path, write one like /healthz")
        }
        return text
    }
}

extension UpstreamBase {
    /// Parses `http://host:port`, `https://host/base`, `srv+http://name`, `srv+https://name/base` or `unix:/path`.
    package init(_ text: String) throws(ParseError) {
        if text.hasPrefix("unix:") {
            self = try Self(unix: text)
            return
        }
        if text.hasPrefix("srv+") {
            self = try Self(service: text)
            return
        }
        let isTLS = text.hasPrefix("https://")
        guard isTLS || text.hasPrefix("http://") else {
            throw ParseError("is no address of an upstream, write one like http://127.0.0.1:9001, https://example.org or unix:/path")
        }
        let rest = text.dropFirst(isTLS ? 8 : 7)
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = try HostAndPort(String(rest[..<slash]), defaultPort: isTLS ? 443 : 80)
        let name = authority.isIPv6 ? "[\(authority.host)]" : authority.host
        self.init(
            isTLS: isTLS, endpoint: .host(authority.host, port: authority.port),
            hostField: authority.port == (isTLS ? 443 : 80) ? name : "\(name):\(authority.port)",
            pathPrefix: try Self.prefix(rest[slash...]), text: text)
    }

    private init(unix text: String) throws(ParseError) {
        let path = String(text.dropFirst(5))
        guard path.hasPrefix("/"), path.utf8.count <= 107 else {
            throw ParseError("is no unix socket, write unix: and an absolute path of at most 107 bytes")
        }
        self.init(isTLS: false, endpoint: .unix(path: path), hostField: "localhost", pathPrefix: "", text: text)
    }

    private init(service text: String) throws(ParseError) {
        let isTLS = text.hasPrefix("srv+https://")
        guard isTLS || text.hasPrefix("srv+http://") else {
            throw ParseError("is no service in DNS, write one like srv+http://_http._tcp.example.org")
        }
        let rest = text.dropFirst(isTLS ? 12 : 11)
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        guard !rest[..<slash].contains(":") else {
            throw ParseError("has a port, but those of a service are in its SRV records: leave it out")
        }
        let name = try TypedText.hostName(String(rest[..<slash]))
        let domain = name.split(separator: ".").drop { $0.hasPrefix("_") }.joined(separator: ".")
        guard !domain.isEmpty else {
            throw ParseError("names no domain, write one like srv+http://_http._tcp.example.org")
        }
        self.init(
            isTLS: isTLS, endpoint: .service(name), hostField: domain, pathPrefix: try Self.prefix(rest[slash...]), text: text)
    }

    private static func prefix(_ path: Substring) throws(ParseError) -> String {
        let trimmed = path.hasSuffix("/") ? path.dropLast() : path
        guard !trimmed.isEmpty else { return "" }
        let plain = trimmed.utf8.allSatisfy { byte in
            byte.isASCIILetter || byte.isASCIIDigit || "/-._~".utf8.contains(byte)
        }
        let dots = trimmed.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        guard plain, dots.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." }) else {
            throw ParseError("has a base path that is not plain, use letters, digits and -._~ between single slashes")
        }
        return String(trimmed)
    }
}
