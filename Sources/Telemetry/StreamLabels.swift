/// Kind of a stream: an answer that lasts, and ends with its session.
package enum StreamKind: Int, MetricLabelValue {
    case websocket
    /// Server-sent events (`text/event-stream`).
    case sse
    case grpc
    /// Any other answer that has become long.
    case http

    package var word: StaticString {
        switch self {
        case .websocket: "websocket"
        case .sse: "sse"
        case .grpc: "grpc"
        case .http: "http"
        }
    }
}

/// Why a stream ended.
package enum StreamEndReason: Int, MetricLabelValue {
    /// The client has gone.
    case client
    /// The upstream has ended it.
    case upstream
    case tokenExpired
    /// Signed out, revoked, or a refresh token was used twice.
    case sessionEnded
    /// The user's tier has fallen below the route's.
    case tier
    /// The gateway is ending.
    case drain
    /// Silence for too long.
    case idle
    /// The upstream was lost, or the answer is broken.
    case error

    package var word: StaticString {
        switch self {
        case .client: "client"
        case .upstream: "upstream"
        case .tokenExpired: "token_expired"
        case .sessionEnded: "session_ended"
        case .tier: "tier"
        case .drain: "drain"
        case .idle: "idle"
        case .error: "error"
        }
    }
}
