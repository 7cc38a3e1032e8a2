internal import Wire

/// The `Host` values that the admin listeners accept: IP addresses, `localhost`, and the names in `TOLLGATE_ADMIN_HOSTS`.
///
/// Protects against DNS rebinding, where a web page's host name resolves to the operator's machine: the browser then sends
/// requests to the admin listener, with the page's name in `Host`.
package struct AdminHosts: Sendable {
    private let names: Set<String>

    /// `names` must be in lower case.
    package init(_ names: [String]) { self.names = Set(names).union(["localhost"]) }

    /// The host of a URL, in lower case; nil if it has none.
    package static func host(ofURL url: String) -> String? {
        let rest = url.split(separator: "/", omittingEmptySubsequences: true).dropFirst().first
        guard url.contains("://"), let authority = rest else { return nil }
        do { return try HostAndPort(String(authority), defaultPort: 80).host } catch { return nil }
    }

    /// Whether a `Host` value, with or without a port, is accepted.
    package func allows(_ field: String) -> Bool {
        do {
            let authority = try HostAndPort(field, defaultPort: 80)
            if authority.isIPv6 || names.contains(authority.host) { return true }
            return IPAddress(parsing: Array(authority.host.utf8).rawBytes) != nil
        } catch {
            return false
        }
    }
}

extension AdminRefusal {
    /// `Host` is not accepted (RFC 9110 §15.5.20).
    static var misdirected: AdminRefusal {
        AdminRefusal(
            421, "MISDIRECTED_REQUEST",
            "The admin listener answers to addresses, localhost and the names in TOLLGATE_ADMIN_HOSTS")
    }
}
