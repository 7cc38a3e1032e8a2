package import Gate
internal import Synchronization
internal import Transport
internal import Wire

/// Refreshes the expired tokens of internal callers: the gateway's own through its accounts, those of outside issuers at
/// their auth servers.
package final class TokenRefreshes: Sendable {
    /// Takes the answer, on any thread.
    package typealias Reply = @Sendable (RefreshAnswer) -> Void

    private let own: @Sendable (RefreshOrder) async -> TokenRefreshOutcome
    private let outside: ExternalRefresher
    private let flights = Mutex(RefreshFlights<Reply>())

    /// `own` refreshes a token of the gateway's own.
    package init(
        own: @escaping @Sendable (RefreshOrder) async -> TokenRefreshOutcome, outside: ExternalRefresher
    ) {
        self.own = own
        self.outside = outside
    }

    /// Any thread; returns at once, and answers in bounded time.
    package func refresh(_ order: RefreshOrder, _ reply: @escaping Reply) {
        let boarding = flights.withLock { $0.board(order, reply, now: EventLoop.now().monotonic) }
        switch boarding {
        case .known(let outcome): reply(RefreshAnswer(outcome, .follower))
        case .waits: break
        case .full: reply(RefreshAnswer(.unavailable(retryAfterSeconds: 1), .leader))
        case .leads:
            // Unstructured, because its parent is a loop: it ends with the answer, which every way out of it brings.
            Task {
                let (outcome, role) = await carryOut(order)
                let waiters = flights.withLock { $0.ended(order, outcome, now: EventLoop.now().monotonic) }
                reply(RefreshAnswer(outcome, role))
                for waiter in waiters { waiter(RefreshAnswer(outcome, .follower)) }
            }
        }
    }

    private func carryOut(_ order: RefreshOrder) async -> (TokenRefreshOutcome, RefreshRole) {
        if order.isOwn { return (await own(order), .leader) }
        return await outside.refresh(order)
    }
}
