internal import Gate
internal import Wire

/// Single flight for token refreshes, with a short cache of outcomes: however many requests need the same refresh, it is sent once.
/// Pure.
struct RefreshFlights<Waiter> {
    /// The role of a request for a refresh.
    enum Role: Equatable {
        /// The outcome is cached.
        case cached(TokenRefreshOutcome)
        /// Another request has started it; the waiter is returned by `ended`.
        case follower
        /// The caller must refresh and then call `ended`.
        case leader
        /// Refused: too many refreshes are under way.
        case full
    }

    private static var maximumFlights: Int { 1_024 }
    private static var maximumCached: Int { 8_192 }
    /// How long tokens are cached, in milliseconds: clients that lost a response repeat their request within this time.
    private static var successMilliseconds: UInt64 { 10_000 }
    /// How long failures are cached, in milliseconds.
    private static var failureMilliseconds: UInt64 { 1_000 }

    private var flights: [RefreshOrder: [Waiter]] = [:]
    private var cached: [RefreshOrder: (outcome: TokenRefreshOutcome, until: MonotonicTime)] = [:]

    /// Joins the refresh of `order` or starts it. Orders are compared in full, so only holders of the same refresh token share
    /// an outcome.
    mutating func join(_ order: RefreshOrder, _ waiter: Waiter, now: MonotonicTime) -> Role {
        if let entry = cached[order] {
            if now < entry.until { return .cached(entry.outcome) }
            cached[order] = nil
        }
        if flights[order] != nil {
            flights[order]?.append(waiter)
            return .follower
        }
        guard flights.count < Self.maximumFlights else { return .full }
        flights[order] = []
        return .leader
    }

    /// Ends the refresh, caches its outcome, and returns the followers.
    mutating func ended(_ order: RefreshOrder, _ outcome: TokenRefreshOutcome, now: MonotonicTime) -> [Waiter] {
        if cached.count >= Self.maximumCached { cached = cached.filter { now < $0.value.until } }
        if cached.count < Self.maximumCached {
            cached[order] = (outcome, now.advanced(milliseconds: Self.milliseconds(outcome)))
        }
        return flights.removeValue(forKey: order) ?? []
    }

    private static func milliseconds(_ outcome: TokenRefreshOutcome) -> UInt64 {
        switch outcome {
        case .refreshed: successMilliseconds
        case .refused, .unavailable: failureMilliseconds
        }
    }
}
