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
        /// Refused: too many refreshes are under way, or of the address.
        case full
    }

    private static var maximumFlights: Int { 1_024 }
    private static var maximumCached: Int { 8_192 }
    /// How long tokens are cached, in milliseconds: clients that lost a response repeat their request within this time.
    private static var successMilliseconds: UInt64 { 10_000 }
    /// How long failures are cached, in milliseconds.
    private static var failureMilliseconds: UInt64 { 1_000 }

    /// One address may hold so many times what is free: one alone gets most, another always finds room.
    private static var share: Int { 4 }

    private var flights: [RefreshOrder: (address: IPAddress?, waiters: [Waiter])] = [:]
    private var held: [IPAddress: Int] = [:]
    private var cached: [RefreshOrder: (outcome: TokenRefreshOutcome, until: MonotonicTime)] = [:]

    /// Joins the refresh of `order` or starts it. Orders are compared in full, so only holders of the same refresh token share
    /// an outcome.
    mutating func join(_ order: RefreshOrder, _ waiter: Waiter, from address: IPAddress? = nil, now: MonotonicTime) -> Role {
        if let entry = cached[order] {
            if now < entry.until { return .cached(entry.outcome) }
            cached[order] = nil
        }
        if flights[order] != nil {
            flights[order]?.waiters.append(waiter)
            return .follower
        }
        let free = Self.maximumFlights - flights.count
        guard free > 0 else { return .full }
        if let address {
            let own = held[address] ?? 0
            guard own < Self.share * free else { return .full }
            held[address] = own + 1
        }
        flights[order] = (address, [])
        return .leader
    }

    /// Ends the refresh, caches its outcome, and returns the followers.
    mutating func ended(_ order: RefreshOrder, _ outcome: TokenRefreshOutcome, now: MonotonicTime) -> [Waiter] {
        if cached.count >= Self.maximumCached { cached = cached.filter { now < $0.value.until } }
        if cached.count < Self.maximumCached {
            cached[order] = (outcome, now.advanced(milliseconds: Self.milliseconds(outcome)))
        }
        guard let flight = flights.removeValue(forKey: order) else { return [] }
        if let address = flight.address { held[address] = held[address].flatMap { $0 > 1 ? $0 - 1 : nil } }
        return flight.waiters
    }

    private static func milliseconds(_ outcome: TokenRefreshOutcome) -> UInt64 {
        switch outcome {
        case .refreshed: successMilliseconds
        case .refused, .unavailable: failureMilliseconds
        }
    }
}
