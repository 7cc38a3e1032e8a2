package import Gate
internal import Synchronization
internal import Threads
package import Wire

/// Transparent refresh of internal callers' expired tokens: own tokens through the accounts, outside issuers' at their endpoints.
package final class TokenRefreshes: Sendable {
    /// The callback with the answer, on any thread.
    package typealias Reply = @Sendable (RefreshAnswer) -> Void

    private let own: @Sendable (RefreshOrder) async -> TokenRefreshOutcome
    private let outside: ExternalRefresher
    private let flights = Mutex(RefreshFlights<Reply>())

    /// `own` refreshes a token that the gateway issued.
    package init(
        own: @escaping @Sendable (RefreshOrder) async -> TokenRefreshOutcome, outside: ExternalRefresher
    ) {
        self.own = own
        self.outside = outside
    }

    /// Refreshes a token and calls `reply` once, in bounded time. Any thread; returns at once. `address`: whose share of the flights it
    /// counts to; nil for internal callers.
    package func refresh(_ order: RefreshOrder, from address: IPAddress? = nil, _ reply: @escaping Reply) {
        let role = flights.withLock { $0.join(order, reply, from: address?.limitPrefix, now: SystemClock.now().monotonic) }
        switch role {
        case .cached(let outcome): reply(RefreshAnswer(outcome, .follower))
        case .follower: break
        case .full: reply(RefreshAnswer(.unavailable(retryAfterSeconds: 1), .leader))
        case .leader:
            // Unstructured because the caller is an event loop. It always ends with the reply, and refreshes have timeouts.
            Task {
                let (outcome, role) = await carryOut(order, from: address?.limitPrefix)
                let waiters = flights.withLock { $0.ended(order, outcome, now: SystemClock.now().monotonic) }
                reply(RefreshAnswer(outcome, role))
                for waiter in waiters { waiter(RefreshAnswer(outcome, .follower)) }
            }
        }
    }

    private func carryOut(_ order: RefreshOrder, from address: IPAddress?) async -> (TokenRefreshOutcome, RefreshRole) {
        if order.isOwn { return (await own(order), .leader) }
        return await outside.refresh(order, from: address)
    }
}
