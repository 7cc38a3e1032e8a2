internal import Gate
internal import Wire

/// Which refreshes are under way and what came of the latest: so that one is asked for once, however many requests want
/// it, and again only when its outcome is no longer known. Pure.
struct RefreshFlights<Waiter> {
    /// What whoever wants a refresh is to do.
    enum Boarding: Equatable {
        /// It is known.
        case known(TokenRefreshOutcome)
        /// It will be told with the flight's end.
        case waits
        /// The refresh is to be carried out; `ended` says what came of it.
        case leads
        /// There is no room for more.
        case full
    }

    private static var mostFlights: Int { 1_024 }
    private static var mostKnown: Int { 8_192 }
    /// Milliseconds that an outcome is known for: tokens as long as a lost answer is asked for again, anything else for a
    /// second, so that what was wrong may pass.
    private static var keptMilliseconds: UInt64 { 10_000 }
    private static var refusalMilliseconds: UInt64 { 1_000 }

    private var flights: [RefreshOrder: [Waiter]] = [:]
    private var known: [RefreshOrder: (outcome: TokenRefreshOutcome, until: MonotonicTime)] = [:]

    /// The orders are compared in full: whoever has another refresh token shares nothing.
    mutating func board(_ order: RefreshOrder, _ waiter: Waiter, now: MonotonicTime) -> Boarding {
        if let entry = known[order] {
            if now < entry.until { return .known(entry.outcome) }
            known[order] = nil
        }
        if flights[order] != nil {
            flights[order]?.append(waiter)
            return .waits
        }
        guard flights.count < Self.mostFlights else { return .full }
        flights[order] = []
        return .leads
    }

    /// Ends the flight and answers who waited for it besides its leader.
    mutating func ended(_ order: RefreshOrder, _ outcome: TokenRefreshOutcome, now: MonotonicTime) -> [Waiter] {
        if known.count >= Self.mostKnown { known = known.filter { now < $0.value.until } }
        if known.count < Self.mostKnown {
            known[order] = (outcome, now.advanced(milliseconds: Self.milliseconds(outcome)))
        }
        return flights.removeValue(forKey: order) ?? []
    }

    private static func milliseconds(_ outcome: TokenRefreshOutcome) -> UInt64 {
        switch outcome {
        case .refreshed: keptMilliseconds
        case .refused, .unavailable: refusalMilliseconds
        }
    }
}
