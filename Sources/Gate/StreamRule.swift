/// Fate of a stream whose token expires or whose session ends (`stream-expiry=`).
package enum StreamExpiry: UInt8, Sendable, CaseIterable {
    /// A refresh of the session moves the stream's end to the expiry of the newer token. Streams of outside issuers' tokens end as
    /// under `close`.
    case extend
    /// The stream ends with its token or session.
    case close
    /// Neither token nor session ends the stream.
    case keep
}

/// The rules for a route's streams.
package struct StreamRule: Sendable, Equatable {
    package var expiry = StreamExpiry.extend
    /// How long before its end an event stream gets a warning (`stream-warning=`); nil for none.
    package var warningMilliseconds: UInt32?
    /// After so long a silence of the upstream an event stream gets a comment (`sse-heartbeat=`); nil for none.
    package var heartbeatMilliseconds: UInt32?

    package init() {}

    /// Whether the gateway writes into event streams before their end, for which it must be able to read them.
    package var writesEvents: Bool { warningMilliseconds != nil || heartbeatMilliseconds != nil }
}

extension Admission {
    /// The rules for the streams of the decision's route.
    package func streamRule(_ decision: borrowing Decision) -> StreamRule { policy.gates[decision.routeIndex].streams }
}
