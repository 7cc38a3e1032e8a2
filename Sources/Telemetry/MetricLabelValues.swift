/// A closed list of label values that the data plane counts by; the raw value is the place in the list.
protocol MetricLabelValue: RawRepresentable<Int>, CaseIterable, Sendable {
    /// The label's text.
    var text: String { get }
}

/// What a client connection is doing.
package enum ConnectionState: Int, MetricLabelValue {
    case handshaking
    /// Between requests.
    case idle
    /// From the first byte of a request to the last of its answer.
    case active

    var text: String { "\(self)" }
}

/// What a connection to an upstream is doing.
package enum UpstreamConnectionState: Int, MetricLabelValue {
    case connecting, idle, active

    var text: String { "\(self)" }
}

/// How a TLS handshake ended: anew, by a session of before, or not at all.
package enum HandshakeResult: Int, MetricLabelValue {
    case full, resumed, failed

    var text: String { "\(self)" }
}

/// The TLS version that a handshake agreed on.
package enum HandshakeVersion: Int, MetricLabelValue {
    /// The handshake ended before one was agreed on.
    case none
    case tls12, tls13

    var text: String {
        switch self {
        case .none: "-"
        case .tls12: "1.2"
        case .tls13: "1.3"
        }
    }
}

/// Why a request was sent to an upstream again.
package enum RetryReason: Int, MetricLabelValue {
    /// A kept connection turned out to be closed already.
    case stale
    case connectFailed
    case timeout
    /// Closed or broken before the answer was there.
    case closed

    var text: String { self == .connectFailed ? "connect_failed" : "\(self)" }
}

/// What a command to Redis is for.
package enum RedisCommandKind: Int, MetricLabelValue {
    /// Takes grants of limits.
    case take
    /// Says that this gateway is alive, and asks how many are.
    case heartbeat
    /// Sees to it that one gateway alone refreshes a token.
    case lease
    /// Gives back what an attempt was charged that turned out not to count.
    case refund

    var text: String { self == .refund ? "give_back" : "\(self)" }
}

/// How a command to Redis ended.
package enum RedisCommandResult: Int, MetricLabelValue {
    case ok
    /// The server refused it.
    case error
    /// There was no answer in time, or no connection.
    case noAnswer

    var text: String { self == .noAnswer ? "no_answer" : "\(self)" }
}

/// What came of refreshing an expired token.
package enum RefreshResult: Int, MetricLabelValue {
    /// A new access token and a new refresh token.
    case rotated
    /// A new access token; the refresh token stays.
    case kept
    case refused
    case unavailable

    var text: String { "\(self)" }
}

/// Whose work a refresh was.
package enum RefreshSource: Int, MetricLabelValue {
    case leader
    /// Another request's of this gateway.
    case follower
    /// Another gateway's.
    case remote

    var text: String { "\(self)" }
}

/// A part of the gateway's own work on a request.
package enum OverheadPhase: Int, MetricLabelValue {
    /// The head of the request.
    case parse
    /// The whole decision, from path to limit.
    case auth

    var text: String { "\(self)" }
}

/// What became of an element that a tier filter judged.
package enum FilterAction: Int, MetricLabelValue {
    case kept, dropped
    /// It would have been dropped, but is only watched.
    case shadowDropped
    /// It had no tier; counted beside what became of it.
    case unlabelled

    var text: String { self == .shadowDropped ? "shadow_dropped" : "\(self)" }
}

/// Why a tier filter let an answer go no further.
package enum FilterFailureReason: Int, MetricLabelValue {
    /// The answer was one object above the caller's tier.
    case aboveTier
    /// It was not the JSON it should have been.
    case broken
    /// An element was larger than what may be held back.
    case tooLarge
    /// It was an object where a list was named.
    case noList
    /// It was not JSON, and the route lets nothing else pass.
    case notJSON
    /// It was a part.
    case partial
    /// It was packed in a way that is not known, or broken.
    case coding

    var text: String {
        switch self {
        case .aboveTier: "above_tier"
        case .tooLarge: "too_large"
        case .noList: "no_list"
        case .notJSON: "not_json"
        case .broken, .partial, .coding: "\(self)"
        }
    }
}
