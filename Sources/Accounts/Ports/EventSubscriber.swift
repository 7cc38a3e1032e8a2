package import Wire

/// A service that receives account events by webhook.
package struct EventSubscriber: Sendable {
    package let name: String
    /// The kinds that it is sent.
    package let kinds: Set<AccountEvent.Kind>
    /// Sends it one event; nil if it has taken it.
    package let send: @Sendable (AccountEvent) async -> DeliveryFailure?

    package init(name: String, kinds: Set<AccountEvent.Kind>, send: @escaping @Sendable (AccountEvent) async -> DeliveryFailure?) {
        self.name = name
        self.kinds = kinds
        self.send = send
    }
}

/// Why a subscriber has not taken an event.
package struct DeliveryFailure: Sendable, Equatable {
    package let reason: String
    /// Whether the subscriber was away, rather than that it has refused this event.
    package let isAway: Bool

    package init(reason: String, isAway: Bool) {
        self.reason = reason
        self.isAway = isAway
    }

    /// An answer of another status than 2xx. A proxy in front of a service that is away answers 502, 503 or 504.
    package init(status: Int) { self.init(reason: "the answer has the status \(status)", isAway: (502...504).contains(status)) }
}

/// The outcome of deliveries, for the metrics and the log.
package enum EventReport: Sendable, Equatable {
    /// Sent to this subscriber: the number that arrived and that failed, the longest time from an event to its arrival, and a reason.
    case sent(String, arrived: Int, failed: Int, lagMilliseconds: Int64, reason: String?)
    /// One was given up.
    case parked(String, AccountEvent.Kind, UUID, reason: String)
    /// The numbers that wait and are parked, as the gateway that sends has read them.
    case state(Subscription)
    /// This gateway no longer sends to it.
    case left(String)
}
