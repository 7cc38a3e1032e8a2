package import Wire

/// The mail server of `SMTP_URL`.
package struct MailServer: Sendable, Equatable {
    /// Scheme, host and port, without user and password.
    let url: String
    package let host: String
    package let port: UInt16
    /// Host and port, for the log.
    package let hostAndPort: String
    let user: String?
    let password: String?
    /// Whether TLS is required: for `smtps`, and wherever a password would cross a network.
    let demandsTLS: Bool
    /// PEM file of the CA for the server's certificate; nil for the system's.
    package let authorityFile: String?

    /// Parses `smtps://user:password@host:465` (implicit TLS) or `smtp://host:587` (STARTTLS if offered), with an optional
    /// `?tls-ca=FILE`. `path` makes the path of that file, which the URL may give relative to another folder.
    package init(_ text: String, path: (String) -> String = { $0 }) throws(ParseError) {
        let isSecure = text.hasPrefix("smtps://")
        guard isSecure || text.hasPrefix("smtp://") else {
            throw ParseError("is no mail server, write one like smtps://user:password@mail.example.org:465")
        }
        var rest = text[text.index(text.startIndex, offsetBy: isSecure ? 8 : 7)...]
        authorityFile = try Self.removeOption(&rest).map(path)
        if rest.hasSuffix("/") { rest.removeLast() }
        (user, password) = try Self.removeLogin(&rest)
        let authority = try HostAndPort(String(rest), defaultPort: isSecure ? 465 : 587)
        let host = authority.isIPv6 ? "[\(authority.host)]" : authority.host
        self.host = authority.host
        port = authority.port
        hostAndPort = "\(host):\(authority.port)"
        url = (isSecure ? "smtps://" : "smtp://") + hostAndPort
        demandsTLS = isSecure || (password != nil && !Self.isLoopback(authority.host))
    }

    private static func removeOption(_ rest: inout Substring) throws(ParseError) -> String? {
        guard let mark = rest.firstIndex(of: "?") else { return nil }
        let option = rest[rest.index(after: mark)...]
        rest = rest[..<mark]
        guard option.hasPrefix("tls-ca="), option.count > 7 else {
            throw ParseError("has an unknown option after the ?, the only one is tls-ca=FILE")
        }
        return String(option.dropFirst(7))
    }

    private static func removeLogin(_ rest: inout Substring) throws(ParseError) -> (user: String?, password: String?) {
        guard let at = rest.lastIndex(of: "@") else { return (nil, nil) }
        let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        rest = rest[rest.index(after: at)...]
        guard parts.count == 2, let user = decoded(parts[0]), let password = decoded(parts[1]), !user.isEmpty else {
            throw ParseError("has no usable user and password before the @, write user:password with %40 for @ and %25 for %")
        }
        return (user, password)
    }

    /// Decodes percent-encoding; nil if it is broken, no UTF-8, or contains control characters.
    private static func decoded(_ text: Substring) -> String? {
        guard let bytes = PercentEncoding.decode(text.utf8) else { return nil }
        return bytes.contains { $0 < 0x20 } ? nil : String(validating: bytes, as: UTF8.self)
    }

    private static func isLoopback(_ host: String) -> Bool {
        host == "localhost" || host == "::1" || (host.hasPrefix("127.") && IPAddress(parsing: Array(host.utf8).rawBytes) != nil)
    }
}
