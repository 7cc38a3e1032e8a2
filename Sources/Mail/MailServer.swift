package import Wire

/// Where mail is handed in, as `SMTP_URL` says.
package struct MailServer: Sendable, Equatable {
    /// Scheme, host and port: no user, no password.
    let url: String
    /// Host and port, for the log.
    let place: String
    let user: String?
    let password: String?
    /// Whether mail goes by TLS or not at all. A password never goes in the clear over a network.
    let demandsTLS: Bool
    /// A PEM file with the authorities to trust in place of the system's.
    package let authorityFile: String?

    /// `smtps://user:password@host:465` (TLS at once) or `smtp://host:587` (TLS where the server offers it), with
    /// `?tls-ca=FILE` behind it where the server's certificate is of an authority of one's own.
    package init(_ text: String) throws(ParseError) {
        let isSecure = text.hasPrefix("smtps://")
        guard isSecure || text.hasPrefix("smtp://") else {
            throw ParseError("is no mail server, write one like smtps://user:password@mail.example.org:465")
        }
        var rest = text[text.index(text.startIndex, offsetBy: isSecure ? 8 : 7)...]
        authorityFile = try Self.takeOption(&rest)
        if rest.hasSuffix("/") { rest.removeLast() }
        (user, password) = try Self.takeLogin(&rest)
        let authority = try HostAndPort(String(rest), defaultPort: isSecure ? 465 : 587)
        let host = authority.isIPv6 ? "[\(authority.host)]" : authority.host
        place = "\(host):\(authority.port)"
        url = (isSecure ? "smtps://" : "smtp://") + place
        demandsTLS = isSecure || (password != nil && !Self.isLoopback(authority.host))
    }

    private static func takeOption(_ rest: inout Substring) throws(ParseError) -> String? {
        guard let mark = rest.firstIndex(of: "?") else { return nil }
        let option = rest[rest.index(after: mark)...]
        rest = rest[..<mark]
        guard option.hasPrefix("tls-ca="), option.count > 7 else {
            throw ParseError("has an unknown option behind the ?, the one there is is tls-ca=FILE")
        }
        return String(option.dropFirst(7))
    }

    private static func takeLogin(_ rest: inout Substring) throws(ParseError) -> (user: String?, password: String?) {
        guard let at = rest.lastIndex(of: "@") else { return (nil, nil) }
        let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        rest = rest[rest.index(after: at)...]
        guard parts.count == 2, let user = decoded(parts[0]), let password = decoded(parts[1]), !user.isEmpty else {
            throw ParseError("has no usable user and password before the @, write user:password with %40 for @ and %25 for %")
        }
        return (user, password)
    }

    /// nil for broken percent-encoding, NUL and line ends.
    private static func decoded(_ text: Substring) -> String? {
        guard let bytes = PercentEncoding.decode(text.utf8) else { return nil }
        return bytes.contains { $0 < 0x20 } ? nil : String(validating: bytes, as: UTF8.self)
    }

    private static func isLoopback(_ host: String) -> Bool {
        host == "localhost" || host == "::1" || (host.hasPrefix("127.") && IPAddress(parsing: Array(host.utf8).rawBytes) != nil)
    }
}
