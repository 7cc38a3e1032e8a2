import Wire

/// One origin of `cors=`: `https://app.example.org`, or `https://*.example.org` for every subdomain but not `example.org`
/// itself. Browsers serialise an origin in one way (RFC 6454, 6.2), so scheme, host and port are compared byte for byte.
package struct OriginPattern: Hashable, Sendable {
    /// As browsers write it, with `*.` for any subdomain.
    package let text: String
    /// All of it; for subdomains the part before the `*`.
    private let prefix: [UInt8]
    /// The part behind the `*`, from its dot on; empty for a single origin.
    private let suffix: [UInt8]

    /// Why a text is no origin: the rest of a sentence that begins with the text.
    package struct Fault: Error, Equatable, Sendable {
        package let message: String

        fileprivate init(_ message: String) { self.message = message }
    }

    package init(parsing text: String) throws(Fault) {
        guard text.lowercased() != "null" else {
            throw Fault("is the origin of every sandboxed frame and local file, so it cannot be allowed, remove it")
        }
        guard let mark = text.firstRange(of: "://"), Self.isScheme(text[..<mark.lowerBound]) else {
            throw Fault("is no origin, write one like https://app.example.org")
        }
        let scheme = text[..<mark.lowerBound].lowercased()
        let authority = text[mark.upperBound...].lowercased()
        let isSubdomains = authority.hasPrefix("*.")
        guard !authority.contains(where: { "/?#".contains($0) }) else {
            throw Fault("has a path or a slash at its end, which no origin has, write one like https://app.example.org")
        }
        guard !authority.dropFirst(isSubdomains ? 2 : 0).contains("*") else {
            throw Fault("has a * where none can be, write https://*.example.org for any subdomain")
        }
        let place: HostAndPort
        do throws(ParseError) {
            // 0 is no port, so it stands for none.
            place = try HostAndPort(isSubdomains ? String(authority.dropFirst(2)) : authority, defaultPort: 0)
        } catch {
            throw Fault(error.text)
        }
        guard !isSubdomains || !place.isIPv6 else {
            throw Fault("has a * before an address, which has no subdomains")
        }
        guard place.isIPv6 || place.host.withRawBytes({ Self.hasPlainLabels($0) }) else {
            throw Fault("has a host that no browser sends, write one like https://app.example.org")
        }
        guard place.port != Self.defaultPort(of: scheme) else {
            throw Fault("names the port that browsers leave out, write it without :\(place.port)")
        }
        let host = place.isIPv6 ? "[\(place.host)]" : place.host
        let rest = host + (place.port == 0 ? "" : ":\(place.port)")
        self.text = scheme + "://" + (isSubdomains ? "*." : "") + rest
        prefix = Array((scheme + "://" + (isSubdomains ? "" : rest)).utf8)
        suffix = isSubdomains ? Array(("." + rest).utf8) : []
    }

    /// Whether it is `origin`, the value of an `Origin` field.
    func matches(_ origin: RawSpan) -> Bool {
        let (start, end) = (prefix.count, origin.byteCount - suffix.count)
        guard !suffix.isEmpty else { return origin.equals(prefix.rawBytes) }
        guard start < end, origin.hasPrefix(prefix.rawBytes), origin.dropping(end).equals(suffix.rawBytes) else { return false }
        return Self.hasPlainLabels(origin.extracting(start..<end))
    }

    /// Whether `name` consists of labels with dots between them, in the letters of a name that browsers send.
    private static func hasPlainLabels(_ name: RawSpan) -> Bool {
        var isAfterDot = true
        for offset in 0..<name.byteCount {
            let byte = name[offset]
            let isDot = byte == UInt8(ascii: ".")
            guard isDot ? !isAfterDot : byte.isLabelByte else { return false }
            isAfterDot = isDot
        }
        return !isAfterDot
    }

    private static func isScheme(_ text: Substring) -> Bool {
        guard let first = text.utf8.first, first.isASCIILetter else { return false }
        return text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || [43, 45, 46].contains($0) }
    }

    private static func defaultPort(of scheme: String) -> UInt16? {
        switch scheme {
        case "https": 443
        case "http": 80
        default: nil
        }
    }

    /// The origin of an absolute `http` or `https` URL; nil for none. The port is left out where browsers leave it out.
    package static func origin(ofURL url: String) -> String? {
        guard let mark = url.firstRange(of: "://") else { return nil }
        let scheme = url[..<mark.lowerBound].lowercased()
        let authority = url[mark.upperBound...].prefix { !"/?#".contains($0) }
        do throws(ParseError) {
            let place = try HostAndPort(String(authority), defaultPort: 0)
            let port = place.port == 0 || place.port == defaultPort(of: scheme) ? "" : ":\(place.port)"
            return scheme + "://" + (place.isIPv6 ? "[\(place.host)]" : place.host) + port
        } catch {
            return nil
        }
    }
}

extension UInt8 {
    fileprivate var isLabelByte: Bool {
        self &- 97 < 26 || isASCIIDigit || self == UInt8(ascii: "-") || self == UInt8(ascii: "_")
    }
}
