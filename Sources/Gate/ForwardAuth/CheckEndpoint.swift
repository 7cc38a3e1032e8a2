import Wire

/// The endpoints of forward-auth: a proxy asks there whether a request may pass to an upstream of its own. They differ in how the
/// request is described and in which statuses the proxy can pass on.
package enum CheckEndpoint: UInt8, CaseIterable, Sendable {
    /// The fields describe the request. A refusal has its own status (Traefik, Caddy).
    case check
    /// The method, `Host` and the rest of the target are those of the request (Envoy's `ext_authz` with a path prefix).
    case envoy
    /// As `check`, but a refusal is 401 or 403: nginx's `auth_request` takes every other status for an error of its own.
    case nginx

    /// The prefix in front of the path of a request that `envoy` checks.
    static let envoyPrefix: StaticString = "/auth/check/envoy"

    /// The endpoint at `path`, compared byte for byte; nil if there is none.
    package init?(path: RawSpan) {
        if path.equals("/auth/check") {
            self = .check
        } else if path.equals("/auth/check/nginx") {
            self = .nginx
        } else if path.hasPrefix(Self.envoyPrefix), path.dropping(Self.envoyPrefix.utf8CodeUnitCount).hasPrefix("/") {
            self = .envoy
        } else {
            return nil
        }
    }

    /// The access log's `forward_auth`.
    package var text: StaticString {
        switch self {
        case .check: "check"
        case .envoy: "envoy"
        case .nginx: "nginx"
        }
    }

    /// The status of a refusal's answer.
    package func status(of refusal: Refusal) -> Int {
        switch self {
        case .check, .envoy: Int(refusal.status)
        case .nginx: refusal.status == 401 ? 401 : 403
        }
    }

    /// Whether the proxy gives its client an answer that is no refusal: Envoy lets only 200 pass the request, others any 2xx.
    var givesAnswers: Bool { self == .envoy }
}
