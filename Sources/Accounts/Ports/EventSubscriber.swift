package import Wire

/// A service that is told what happens to accounts.
package struct EventSubscriber: Sendable {
    package let name: String
    /// The kinds that it is sent.
    package let kinds: Set<AccountEvent.Kind>
    /// Sends it one event; the reason if it has not taken it.
    package let send: @Sendable (AccountEvent) async -> String?

    package init(name: String, kinds: Set<AccountEvent.Kind>, send: @escaping @Sendable (AccountEvent) async -> String?) {
        self.name = name
        self.kinds = kinds
        self.send = send
    }
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
