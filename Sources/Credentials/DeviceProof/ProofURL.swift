import Wire

/// The URL of a request as its client used it, for comparison with the `htu` of a proof.
///
/// URLs are compared as RFC 3986 §6.2.2 and §6.2.3 say: without regard to the case of scheme and host, to a default port, an empty path
/// and the spelling of percent-encoded bytes. Query and fragment do not count (RFC 9449 §4.3).
package struct ProofURL: ~Escapable {
    /// The scheme that the client used, as far as it is known.
    package enum Scheme: Sendable {
        case http, https, either
    }

    private let scheme: Scheme
    private let authority: RawSpan
    private let path: RawSpan
    private let alternative: RawSpan

    /// `path` may have a query. `alternative` is the address at which clients may also have used the gateway, such as its public URL; empty
    /// for none.
    @_lifetime(copy authority, copy path, copy alternative)
    package init(scheme: Scheme, authority: RawSpan, path: RawSpan, alternative: RawSpan) {
        self.scheme = scheme
        self.authority = authority
        self.path = path.extracting(0..<(path.firstIndex(of: UInt8(ascii: "?")) ?? path.byteCount))
        self.alternative = alternative
    }

    /// Whether `url` names this URL.
    func matches(_ url: RawSpan) -> Bool {
        guard let named = URLParts(url) else { return false }
        if scheme == .either || (scheme == .https) == named.isHTTPS, named.hasAuthority(authority), Self.isSamePath(named.path, path) {
            return true
        }
        guard let other = URLParts(alternative), named.isHTTPS == other.isHTTPS, named.hasAuthority(other.authority) else { return false }
        return named.path.hasPrefix(other.path) && Self.isSamePath(named.path.dropping(other.path.byteCount), path)
    }

    private static func isSamePath(_ left: RawSpan, _ right: RawSpan) -> Bool {
        if left.byteCount == 0 || right.byteCount == 0 {
            return left.byteCount + right.byteCount == 0 || left.equals("/") || right.equals("/")
        }
        var (first, second) = (0, 0)
        while first < left.byteCount, second < right.byteCount {
            guard left.pathUnit(&first) == right.pathUnit(&second) else { return false }
        }
        return first == left.byteCount && second == right.byteCount
    }
}

/// Scheme, authority and path of an absolute URL of HTTP.
private struct URLParts: ~Escapable {
    let isHTTPS: Bool
    let authority: RawSpan
    let path: RawSpan

    /// nil for any other text.
    @_lifetime(copy url)
    init?(_ url: RawSpan) {
        guard let colon = url.firstIndex(of: UInt8(ascii: ":")), url.dropping(colon).hasPrefix("://") else { return nil }
        let scheme = url.extracting(0..<colon)
        isHTTPS = scheme.equalsIgnoringCase("https")
        guard isHTTPS || scheme.equalsIgnoringCase("http") else { return nil }
        let rest = url.dropping(colon + 3)
        var end = 0
        while end < rest.byteCount, !rest[end].endsPath, rest[end] != UInt8(ascii: "/") { end += 1 }
        authority = rest.extracting(0..<end)
        let start = end
        while end < rest.byteCount, !rest[end].endsPath { end += 1 }
        path = rest.extracting(start..<end)
    }

    func hasAuthority(_ other: RawSpan) -> Bool {
        let own = Self.withoutDefaultPort(authority, isHTTPS)
        return own.byteCount > 0 && own.equalsIgnoringCase(Self.withoutDefaultPort(other, isHTTPS))
    }

    @_lifetime(copy authority)
    private static func withoutDefaultPort(_ authority: RawSpan, _ isHTTPS: Bool) -> RawSpan {
        let port: StaticString = isHTTPS ? ":443" : ":80"
        for suffix in [port, ":"] {
            let start = authority.byteCount - suffix.utf8CodeUnitCount
            if start >= 0, authority.dropping(start).equals(suffix) { return authority.extracting(0..<start) }
        }
        return authority
    }
}

extension UInt8 {
    fileprivate var endsPath: Bool { self == UInt8(ascii: "?") || self == UInt8(ascii: "#") }
}

extension RawSpan {
    /// The byte at `offset`, which is moved past it. An encoded byte that needs no encoding is the byte itself; any other encoded one is
    /// told from the byte.
    fileprivate func pathUnit(_ offset: inout Int) -> UInt16 {
        let byte = self[offset]
        offset += 1
        guard byte == UInt8(ascii: "%"), offset + 2 <= byteCount, let high = self[offset].hexValue, let low = self[offset + 1].hexValue
        else { return UInt16(byte) }
        offset += 2
        let decoded = high << 4 | low
        return decoded.isUnreserved ? UInt16(decoded) : 256 | UInt16(decoded)
    }
}
