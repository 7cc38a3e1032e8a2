/// A socket address: IP with port, or a unix socket.
package enum SocketAddress: Hashable, Sendable {
    /// `scope` is the interface index of a link-local IPv6 address, else 0.
    case ip(IPAddress, port: UInt16, scope: UInt32 = 0)
    /// A path of at most 107 bytes, "@" and an abstract name, or empty for an unnamed socket.
    case unix(String)

    /// Parses `127.0.0.1:8000`, `[::1]:8000`, `unix:/path` or `unix:@name`; nil for anything else, host names included.
    package init?(parsing text: String) {
        if text.hasPrefix("unix:") {
            let path = text.dropFirst(5)
            guard path.hasPrefix("/") || path.hasPrefix("@"), (2...Self.maxPath).contains(path.utf8.count),
                !path.utf8.contains(0)
            else { return nil }
            self = .unix(String(path))
            return
        }
        guard let colon = text.utf8.lastIndex(of: UInt8(ascii: ":")),
            let port = Self.port(text[text.index(after: colon)...])
        else { return nil }
        var host = text[..<colon]
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        if isBracketed { host = host.dropFirst().dropLast() }
        guard let address = IPAddress(parsing: String(host)), isBracketed == host.utf8.contains(UInt8(ascii: ":"))
        else {
            return nil
        }
        self = .ip(address, port: port)
    }

    /// The IP address; nil for a unix socket.
    package var ip: IPAddress? {
        switch self {
        case .ip(let address, _, _): address
        case .unix: nil
        }
    }

    /// The port; nil for a unix socket.
    package var port: UInt16? {
        switch self {
        case .ip(_, let port, _): port
        case .unix: nil
        }
    }

    /// Whether it is a loopback address; false for a unix socket.
    package var isLoopback: Bool { ip?.isLoopback ?? false }

    /// Whether a listener there takes connections to some address of `other`, too, or the other way around: one is the wildcard.
    package func overlaps(_ other: SocketAddress) -> Bool {
        guard self != other, let (ip, otherIP) = ip.flatMap({ ip in other.ip.map { (ip, $0) } }) else { return false }
        return port == other.port && ip.isIPv4 == otherIP.isIPv4 && (ip.isUnspecified || otherIP.isUnspecified)
    }

    /// The longest unix path in bytes: `sun_path` without its NUL.
    package static let maxPath = 107

    private static func port(_ digits: Substring) -> UInt16? {
        guard (1...5).contains(digits.utf8.count), digits.utf8.allSatisfy(\.isASCIIDigit) else { return nil }
        return UInt16(digits)
    }
}

extension SocketAddress: CustomStringConvertible {
    /// The form that `init(parsing:)` reads.
    package var description: String {
        switch self {
        case .ip(let address, let port, _): address.isIPv4 ? "\(address.text):\(port)" : "[\(address.text)]:\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }
}
