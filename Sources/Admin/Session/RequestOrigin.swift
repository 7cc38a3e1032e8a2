internal import HTTP
internal import Wire

/// The origin of the page that sent a request with the console's cookie (RFC 6454). A browser sends the cookie by itself, so a request
/// that changes something must come from the console's own page.
enum RequestOrigin: Equatable {
    case own(isSecure: Bool)
    case foreign
    /// Without `Origin`: no page of a browser that changes something.
    case missing

    init(of request: LocalRequest) {
        let origins = request.fields.filter { $0.name.lowercased() == "origin" }.map(\.value)
        guard let origin = origins.first else {
            self = .missing
            return
        }
        let hosts = request.fields.filter { $0.name.lowercased() == "host" }.map(\.value)
        guard origins.count == 1, hosts.count == 1 else {
            self = .foreign
            return
        }
        self = Self.compare(origin, host: hosts[0], overTLS: request.isSecure)
    }

    /// A proxy that ends TLS and is not declared leaves the scheme unknown, so both count on a plain connection.
    private static func compare(_ origin: String, host: String, overTLS: Bool) -> RequestOrigin {
        let isSecure = origin.hasPrefix("https://")
        guard isSecure || !overTLS && origin.hasPrefix("http://") else { return .foreign }
        let port: UInt16 = isSecure ? 443 : 80
        do {
            let named = try HostAndPort(String(origin.dropFirst(isSecure ? 8 : 7)), defaultPort: port)
            return named == (try HostAndPort(host, defaultPort: port)) ? .own(isSecure: isSecure) : .foreign
        } catch {
            return .foreign
        }
    }
}
