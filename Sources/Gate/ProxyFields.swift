import Wire

/// Request fields that servers and frameworks trust for routing, authentication or the client's address, and that only a
/// proxy may set. Removed from requests and trailers, unless a route keeps one (`keep=`). Fields that the gateway writes are
/// in `IdentityHeaders`.
///
/// A name is listed if a server, framework or well-known setup trusts it by default or by a documented switch.
package enum ProxyFields {
    static let names: [StaticString] = routing + methods + schemes + addresses + users + certificates + proofs

    /// Override the path or host: Symfony, Zend, IIS, Spring, Traefik, WSGI.
    private static let routing: [StaticString] = [
        "X-Original-URL", "X-Original-URI", "X-Original-Host", "X-Rewrite-URL", "X-Forwarded-Prefix", "X-Forwarded-Uri",
        "X-Forwarded-Path", "X-Forwarded-Server", "X-Host", "X-Script-Name",
    ]
    /// Override the method: Rack, Express, Symfony, ASP.NET, forward-auth.
    private static let methods: [StaticString] = [
        "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-Method", "X-Forwarded-Method",
    ]
    /// Override the scheme or port: Rack, Gunicorn, Django, Exchange. `Proxy` becomes `HTTP_PROXY` under CGI (httpoxy).
    private static let schemes: [StaticString] = [
        "X-Forwarded-Port", "X-Forwarded-Scheme", "X-Forwarded-Protocol", "X-Forwarded-Ssl", "X-Scheme", "X-Url-Scheme",
        "Front-End-Https", "Proxy",
    ]
    /// Override the client address: content delivery networks, load balancers, Rails, PHP, WebLogic.
    private static let addresses: [StaticString] = [
        "True-Client-IP", "X-Client-IP", "Client-IP", "X-Cluster-Client-IP", "CF-Connecting-IP", "CF-Connecting-IPv6",
        "Fastly-Client-IP", "Fly-Client-IP", "X-Azure-ClientIP", "X-Appengine-User-IP", "X-Envoy-External-Address",
        "X-Original-Forwarded-For", "X-Forwarded", "Forwarded-For", "X-Remote-IP", "X-Remote-Addr", "X-Originating-IP",
        "X-ProxyUser-IP", "Proxy-Client-IP", "WL-Proxy-Client-IP",
    ]
    /// Name the user: Apache, Django, Kubernetes, Kong, Grafana, oauth2-proxy, Authelia, cloud proxies.
    private static let users: [StaticString] = [
        "Remote-User", "Remote-Name", "Remote-Email", "Remote-Groups", "X-Remote-User", "X-Remote-Group", "X-Remote-Groups",
        "X-Authenticated-User", "X-Authenticated-Userid", "X-Authenticated-Groups", "X-WebAuth-User", "X-Forwarded-User",
        "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-Preferred-Username", "X-Forwarded-Access-Token",
        "X-Auth-Request-User", "X-Auth-Request-Email", "X-Auth-Request-Groups", "X-Auth-Request-Preferred-Username",
        "X-Auth-Request-Access-Token", "X-MS-Client-Principal", "X-MS-Client-Principal-Id", "X-MS-Client-Principal-Name",
        "X-Goog-Authenticated-User-Id", "X-Goog-Authenticated-User-Email", "X-Amzn-Oidc-Identity",
        "CF-Access-Authenticated-User-Email",
    ]
    /// Carry the client certificate that a proxy saw (RFC 9440 and its predecessors).
    private static let certificates: [StaticString] = [
        "Client-Cert", "Client-Cert-Chain", "X-Client-Cert", "SSL-Client-Cert", "X-SSL-Client-Cert", "X-SSL-Client-Verify",
        "X-SSL-Client-S-DN", "X-Forwarded-Client-Cert", "X-Forwarded-Tls-Client-Cert", "X-Forwarded-Tls-Client-Cert-Info",
        "X-ARR-ClientCert", "SSL-Client-Verify", "SSL-Client-S-DN", "X-Client-Verify", "X-Client-DN",
    ]

    /// Prove the possession of a key to the gateway. It passes with the `Authorization` that it is for.
    private static let proofs: [StaticString] = [Admission.proofField]

    /// All names, for the message about a mistyped one.
    package static var spellings: [String] { names.map { "\($0)" } }
}

/// A set of `ProxyFields`: bit n is the name with index n.
package struct KeptFields: OptionSet, Hashable, Sendable {
    package let rawValue: UInt128

    package init(rawValue: UInt128) { self.rawValue = rawValue }

    /// Maximum number of names.
    static let capacity = UInt128.bitWidth

    /// The field of proofs, the last name.
    static let deviceProof = Self(rawValue: 1 << UInt128(ProxyFields.names.count - 1))

    func contains(_ index: Int) -> Bool { rawValue >> UInt128(index) & 1 != 0 }

    /// Why a field cannot be kept.
    package enum Fault: Error, Equatable, Sendable {
        /// The gateway writes it.
        case written
        /// It carries a credential for the gateway.
        case credential
        /// It frames the message or is hop-by-hop.
        case framing
        /// It is not removed by default.
        case notRemoved
    }

    /// The set of the field called `name`, in any case.
    package init(named name: String) throws(Fault) {
        let wanted = Array(name.utf8)
        if let index = ProxyFields.names.firstIndex(where: { FoldedName.isSpelling(wanted.rawBytes, of: $0.rawBytes) }) {
            self.init(rawValue: 1 << UInt128(index))
            return
        }
        throw IdentityHeaders.faultOfKeeping(wanted.rawBytes)
    }

    /// As written in the settings.
    package var text: String {
        ProxyFields.names.indices.filter(contains).map { "\(ProxyFields.names[$0])" }
            .joined(separator: ",")
    }
}
