/// A closed list of label values; the raw value is the index.
package protocol MetricLabelValue: RawRepresentable<Int>, CaseIterable, Sendable {
    /// The label's text: the case's name in snake_case, unless a label says otherwise.
    var text: String { get }
}

extension MetricLabelValue {
    package var text: String {
        var text = ""
        var followsSmall = false
        for letter in "\(self)" {
            if letter.isUppercase && followsSmall { text += "_" }
            text += letter.lowercased()
            followsSmall = letter.isLowercase
        }
        return text
    }
}

/// Endpoint of forward-auth.
package enum CheckKind: Int, MetricLabelValue {
    case check, envoy, nginx
}

/// State of a client connection.
package enum ConnectionState: Int, MetricLabelValue {
    case handshaking
    /// Between requests.
    case idle
    /// From the first byte of a request to the last of its answer.
    case active
}

/// The bound of the gateway that was reached.
package enum OverloadReason: Int, MetricLabelValue {
    /// Client connections: accepting pauses.
    case connections
    /// Requests under way.
    case requests
    /// Requests under way to the gateway's own endpoints.
    case local
    /// Memory of heads and bodies on their way.
    case buffers
    /// The share of one client in any of these.
    case share
}

/// The end of a copy of a request.
package enum MirrorOutcome: Int, MetricLabelValue {
    case answered, failed, dropped
}

/// State of an upstream connection.
package enum UpstreamConnectionState: Int, MetricLabelValue {
    case connecting, idle, active
}

/// Result of a TLS handshake.
package enum HandshakeResult: Int, MetricLabelValue {
    case full, resumed, failed
}

/// Negotiated TLS version.
package enum HandshakeVersion: Int, MetricLabelValue {
    /// The handshake failed before one was negotiated.
    case none
    case tls12, tls13

    package var text: String {
        switch self {
        case .none: "-"
        case .tls12: "1.2"
        case .tls13: "1.3"
        }
    }
}

/// Why a request was retried.
package enum RetryReason: Int, MetricLabelValue {
    /// A pooled connection was closed already.
    case stale
    case connectFailed
    case timeout
    /// Closed or broken before the answer.
    case closed
    /// HTTP/2: refused unseen, or left out by GOAWAY.
    case refused
}

/// Why an address of an upstream was ejected.
package enum EjectionReason: Int, MetricLabelValue {
    /// Failures in a row.
    case failures
    /// Its share of successes.
    case success
    /// The time to the heads of its answers.
    case latency
    /// It asked for it by `Retry-After`.
    case retryAfter
}

/// A bound of an upstream that a request, or a retry, has met.
package enum UpstreamBound: Int, MetricLabelValue {
    case connections, requests, pending
    case retryBudget
    /// The share of one client in any of the first three.
    case share

    package var text: String {
        switch self {
        case .connections: "max_connections"
        case .requests: "max_requests"
        case .pending: "max_pending"
        case .retryBudget: "retry_budget"
        case .share: "share"
        }
    }
}

/// Purpose of a Redis command.
package enum RedisCommandKind: Int, MetricLabelValue {
    /// Charges limits.
    case take
    /// Heartbeat of this gateway; its label is `census`.
    case heartbeat
    /// Lease of a token refresh.
    case lease
    /// Refund of an attempt; its label is `give_back`.
    case refund

    package var text: String {
        switch self {
        case .take, .lease: "\(self)"
        case .heartbeat: "census"
        case .refund: "give_back"
        }
    }
}

/// Result of a Redis command.
package enum RedisCommandResult: Int, MetricLabelValue {
    case ok
    /// Error reply.
    case error
    /// Timeout, or no connection.
    case noAnswer
}

/// A node of a Redis Cluster did not serve a call, which was sent again.
package enum RedisRedirectKind: Int, MetricLabelValue {
    /// Another node serves the slot.
    case moved
    /// The slot is on its way to another node, which has the key.
    case ask
    /// The slot is on its way; the call was divided into calls with a single key.
    case tryAgain
}

/// State of a node of Redis.
package enum RedisNodeState: Int, MetricLabelValue {
    case ready
    /// Not connected, or its circuit breaker is open.
    case away
}

/// Result of a token refresh.
package enum RefreshResult: Int, MetricLabelValue {
    /// New access token and refresh token.
    case rotated
    /// New access token; the refresh token stays.
    case kept
    case refused
    case unavailable
}

/// Role in the single flight of a refresh.
package enum RefreshSource: Int, MetricLabelValue {
    case leader
    /// Another request of this gateway refreshed.
    case follower
    /// Another gateway refreshed.
    case remote
}

/// Why the gateway ended an HTTP/2 connection: a broken rule, or too much of what costs it more than the client.
package enum HTTP2EndReason: Int, MetricLabelValue {
    case protocolError, compressionError, flowControlError, frameSizeError
    case reset, provokedReset, refusedStream, emptyData, continuation, ping, settings, priority, windowUpdate, closedStream
}

/// Phase of the gateway's own work on a request.
package enum OverheadPhase: Int, MetricLabelValue {
    /// Parsing the head.
    case parse
    /// The whole decision, from path to limit.
    case auth
}

/// Result for an element that a tier filter judged.
package enum FilterAction: Int, MetricLabelValue {
    case kept, dropped
    /// Would be dropped; shadow mode.
    case shadowDropped
    /// No tier; counted in addition to its result.
    case unlabelled
    /// Dropped, or in shadow mode would be, for want of a tier; counted in addition to its result.
    case droppedUnlabelled
}

/// How a request on a cached route was answered.
package enum CacheResult: Int, MetricLabelValue, Sendable {
    /// From the cache.
    case hit
    /// By the upstream, and the answer was stored.
    case stored
    /// By the upstream, and the answer was not stored.
    case missed
    /// From the cache, though the answer was not fresh; or by the upstream in its place.
    case stale
    /// By the upstream at once, as answers to the key are not stored.
    case bypassed
    /// From the cache, after the upstream has said that the answer is still good.
    case revalidated

    package var text: String {
        switch self {
        case .hit: "hit"
        case .stored: "stored"
        case .missed: "miss"
        case .stale: "stale"
        case .bypassed: "bypass"
        case .revalidated: "revalidated"
        }
    }
}

/// Why a tier filter refused or cut an answer.
package enum FilterFailureReason: Int, MetricLabelValue {
    /// The answer is one object above the caller's tier.
    case aboveTier
    /// Invalid JSON.
    case broken
    /// An element exceeds the maximum that is held back.
    case tooLarge
    /// The root does not match the filter's path.
    case noList
    /// Not JSON, on a route with `filter-strict=on`.
    case notJSON
    /// A partial answer (206 or 226).
    case partial
    /// Unknown or broken content coding.
    case coding
}

/// Coding of an answer that was compressed.
package enum CompressionCoding: Int, MetricLabelValue {
    case gzip, br, zstd
}

/// Why an answer was not compressed.
package enum CompressionSkip: Int, MetricLabelValue {
    /// The client accepts no coding that the gateway has, or likes the content as it is better.
    case notAccepted
    /// It is shorter than `compress-min=`.
    case small
    /// Its type is none that becomes smaller.
    case type
    /// It was compressed already.
    case coded
    /// A part of the content (206).
    case partial
    /// An event stream, without `compress-events=on`.
    case events
    /// `Cache-Control: no-transform`.
    case noTransform
    /// `Set-Cookie`.
    case secret
    /// The worker is late, short of memory, or compresses as many answers as it may.
    case busy
}
