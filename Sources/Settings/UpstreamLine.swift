package import Gate
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

/// An upstream, as a `TOLLGATE_UPSTREAM_…` line declares it.
package struct UpstreamDeclaration: Hashable, Sendable {
    /// The part that the workers get.
    package var settings: UpstreamSettings
    package var bases: [UpstreamBase]
    /// Whether requests go over HTTP/2: by ALPN to https, by prior knowledge to http.
    package var speaksHTTP2 = false
    /// Whether it tells paths apart by case, last slash and blanks at the end (`paths=exact`).
    package var pathsAreExact = false
    /// PEM file of the CA for the upstream's certificate; nil for the system's.
    package var authorityFile: String?
    /// PEM files of the certificate for the upstream, and of its key (`tls-cert=`, `tls-key=`).
    package var clientCertificate: String?
    package var clientKey: String?
    /// The name of its certificate (`tls-name=`); nil: that of the address.
    package var tlsName: String?
    package var origin: Origin

    package var name: String { settings.name }

    init(name: String, bases: [UpstreamBase], origin: Origin) {
        settings = UpstreamSettings(name: name)
        self.bases = bases
        self.origin = origin
    }
}

extension UpstreamDeclaration: OptionTarget {
    package static let grammar = "URL… key=value …"
    package static let family = Setting.upstream
    package var lineName: String { name }
    package static let bare = Self(name: "", bases: [], origin: .builtIn)

    package static let options = table {
        LineOption(
            "balance", \.settings.balance, .choice([("least", .leastOutstanding), ("round", .roundRobin)]),
            "the address with the fewest requests under way, or round robin"
        ).column
        LineOption(
            "health", ifSet: \.settings.health, .healthCheck, "a path, or grpc",
            "probed every few seconds; an address that fails the probe gets no requests. `grpc` is the standard health service of gRPC and needs `http2=on`"
        ).column
        LineOption(
            "timeout", \.settings.timeout, .duration(1...86_400_000, isNumber: true),
            "the time until the first byte of the response, and between its parts"
        ).json("timeout_ms")
        LineOption(
            "connect-timeout", \.settings.connectTimeout, .duration(1...600_000, isNumber: true),
            "the time for the connection and the TLS handshake"
        ).json("connect_timeout_ms")
        LineOption(
            "retries", \.settings.retries, .count(0...5), "the number of retries of an idempotent request that got no response, up to 5")
        LineOption(
            "max-connections", \.settings.maxConnections, .bound(1...1_000_000), values: "unbounded",
            "the maximum number of connections of all workers to all addresses, health checks excepted; beyond it 503")
        LineOption(
            "http2", \.speaksHTTP2, .flag(), "HTTP/2, many requests on one connection: by ALPN over https://, by prior knowledge otherwise"
        ).column
        LineOption(
            "host", \.settings.sendsOwnHost, .choice([("client", false), ("upstream", true)]),
            "the `Host` that the upstream receives: the client's, or the address's own")
        LineOption(
            "paths", \.pathsAreExact, .flag([("loose", false), ("exact", true)]),
            "`exact` if it tells paths apart by case, last slash and blanks at the end; otherwise a path that differs only in these from one of a stricter route is refused"
        ).json("paths_exact")
        LineOption("tls-ca", ifSet: \.authorityFile, .path, "a PEM file", "the CA of its certificate; the system's CAs by default")
        LineOption(
            "tls-cert", ifSet: \.clientCertificate, .path, "a PEM file",
            "the certificate that the gateway shows it (mTLS), with its chain; used without a restart when it changes, and so are the files of the next and the last option"
        )
        LineOption("tls-key", ifSet: \.clientKey, .path, "a PEM file", "the private key of `tls-cert`")
        LineOption(
            "tls-name", ifSet: \.tlsName, .plain(TypedText.hostName), "a host name",
            "the name that its certificate must have, and that it is asked for (SNI), in place of the address's")
        LineOption(
            "eject-failures", orOff: \.settings.outliers.failures, .count(1...1_000),
            "the number of failures in a row that eject an address: no response, 502, 503, 504, or `UNAVAILABLE` of gRPC")
        LineOption(
            "eject-after", \.settings.outliers.interval, .duration(1_000...300_000),
            "the time of the first ejection, which doubles each time up to 5 minutes; also the window of `eject-success` and `eject-latency`"
        )
        LineOption(
            "eject-max", \.settings.outliers.maxEjected, .percentage(),
            "the share of the addresses that may be ejected at a time, at least one unless it is 0%; one always stays")
        LineOption(
            "eject-success", orOff: \.settings.outliers.minSuccess, .percentage(1...100),
            "the share of successes in a window below which an address is ejected, if the others are above it")
        LineOption(
            "eject-latency", orOff: \.settings.outliers.latency, .latency, values: "off, 3x or 500ms",
            "the median time to the head of a response above which an address is ejected: so many times that of the others, or so much while the others are below"
        )
        LineOption("panic", \.settings.outliers.panic, .percentage(), "the share of available addresses below which all are used")
        LineOption(
            "slow-start", \.settings.outliers.slowStart, .duration(0...3_600_000),
            "the time in which the share of an address that is new or comes back rises from a tenth")
        LineOption(
            "max-requests", \.settings.maxRequests, .bound(1...1_000_000), values: "unbounded",
            "the maximum number of requests of all workers under way; beyond it 503")
        LineOption(
            "max-pending", \.settings.maxPending, .bound(1...1_000_000), values: "unbounded",
            "the maximum number of those that wait for a connection; beyond it 503")
        LineOption("retry-budget", \.settings.retryPercent, .percentage(), "the retries that requests earn; ten are saved in each worker")
        LineOption(
            "retry-min", \.settings.minRetries, .count(0...1_000), "the number of retries under way up to which the budget is not asked")
    }
}

extension UpstreamDeclaration {
    /// Parses `URL… key=value…`.
    package init(_ line: inout OptionLine, name: String) {
        var bases: [UpstreamBase] = []
        for word in line.words {
            let base = line.parse(quoting: word, word) { text throws(ParseError) in try UpstreamBase(text) }
            guard let base else { continue }
            if bases.contains(base) { line.fault("\(quoted(word)) is given twice, keep one of them") } else { bases.append(base) }
        }
        if line.words.isEmpty { line.fault("has no address, write one like http://127.0.0.1:9001") }
        self.init(name: name, bases: bases, origin: line.entry.origin)
        line.read(into: &self)
        if settings.health == .grpc, !speaksHTTP2 { line.fault("health=grpc needs HTTP/2, write http2=on beside it") }
        for key in ["tls-ca", "tls-cert", "tls-key", "tls-name"] where line.has(key) && !bases.contains(where: \.isTLS) {
            line.fault("\(key)= is for https:// addresses and there is none, remove it or write https://")
        }
        if (clientCertificate == nil) != (clientKey == nil) {
            let (given, missing) = clientKey == nil ? ("tls-cert", "tls-key") : ("tls-key", "tls-cert")
            if line.has(given), !line.has(missing) { line.fault("\(given)= needs \(missing)=, the other file of the pair, add it") }
        }
    }
}

extension OptionForm where Value == UpstreamSettings.HealthCheck {
    fileprivate static var healthCheck: Self {
        Self(plain: { text throws(ParseError) in
            if text == "grpc" { return .grpc }
            // A path in origin form (RFC 9112 §3.2.1), with an optional query.
            guard text.hasPrefix("/"), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }) else {
                throw ParseError("is no path, write one like /healthz")
            }
            return .path(text)
        }) { OptionValue($0.text) }
    }
}

extension UpstreamSettings.HealthCheck {
    /// As it is written.
    package var text: String {
        switch self {
        case .path(let path): path
        case .grpc: "grpc"
        }
    }
}

extension OptionForm where Value == OutlierRules.LatencyRule {
    fileprivate static var latency: Self {
        Self(plain: { text throws(ParseError) in
            if text.hasSuffix("x"), let factor = UInt64(text.dropLast()), text.utf8.first?.isASCIIDigit == true {
                guard (2...100).contains(factor) else { throw ParseError("is out of range, write a factor from 2x to 100x") }
                return .factor(factor)
            }
            guard DurationText.parse(text) != nil else {
                throw ParseError("is no bound on the time to a response, write off, a factor like 3x or a duration like 500ms")
            }
            return .bound(milliseconds: try TypedText.duration(text, 1...600_000))
        }) { rule in
            switch rule {
            case .factor(let factor): OptionValue("\(factor)x")
            case .bound(let milliseconds): OptionValue(DurationText.text(milliseconds))
            }
        }
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
