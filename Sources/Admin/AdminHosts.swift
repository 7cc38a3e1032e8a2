internal import Wire

/// The names under which the admin listeners answer: every address, `localhost`, and those of `TOLLGATE_ADMIN_HOSTS`.
///
/// A page on the web can lead its own name to the operator's machine (DNS rebinding); the browser then takes the admin
/// listener for that page's server, but says the page's name in `Host`.
package struct AdminHosts: Sendable {
    private let names: Set<String>

    /// `names` are in lower case.
    package init(_ names: [String]) { self.names = Set(names).union(["localhost"]) }

    /// Whether a `Host` field, with its port if one was sent, names this gateway.
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
    /// The request is for a name that is not this gateway's.
    static var misdirected: AdminRefusal {
        AdminRefusal(
            421, "MISDIRECTED_REQUEST",
            "The admin listener answers to addresses, localhost and the names in TOLLGATE_ADMIN_HOSTS")
    }
}
