import Synchronization

/// The requests to one upstream that all workers have under way, those of them that wait for a connection, and the retries: what
/// `max-requests`, `max-pending`, `max-connections` and `retry-min` bound. Each is only counted where it is bounded, as threads share the
/// counts.
final class RequestBudget: Sendable {
    let requests = SharedCount()
    let pending = SharedCount()
    let retries = SharedCount()
    /// Those that have a connection, or look for one.
    let carried = SharedCount()
    /// Tells this upstream's bounds from those of others.
    private let number = RequestBudget.made.wrappingAdd(1, ordering: .relaxed).newValue
    private static let made = Atomic<UInt64>(0)

    func count(of holding: RequestHoldings) -> SharedCount {
        switch holding {
        case .request: requests
        case .pending: pending
        case .retry: retries
        default: carried
        }
    }

    /// The bound in which clients have shares.
    func bound(of holding: RequestHoldings) -> SharedBound { .upstream(number, UInt64(holding.rawValue.trailingZeroBitCount)) }
}

/// A number that threads count together. Any thread.
final class SharedCount: Sendable {
    private let used = Atomic<Int>(0)

    /// Counts one more, unless there are `limit`.
    func acquire(within limit: Int) -> Bool {
        var count = used.load(ordering: .relaxed)
        while count < limit {
            let (isTaken, now) = used.compareExchange(expected: count, desired: count + 1, ordering: .relaxed)
            if isTaken { return true }
            count = now
        }
        return false
    }

    func release() { used.wrappingSubtract(1, ordering: .relaxed) }

    var value: Int { used.load(ordering: .relaxed) }
}

/// The counts of its upstream's `RequestBudget` that an exchange is part of.
struct RequestHoldings: OptionSet, Sendable {
    var rawValue: UInt8

    static let request = RequestHoldings(rawValue: 1)
    /// It has no connection yet.
    static let pending = RequestHoldings(rawValue: 2)
    /// It was sent again.
    static let retry = RequestHoldings(rawValue: 4)
    /// It has a connection, or looks for one.
    static let connection = RequestHoldings(rawValue: 8)

    static let all = RequestHoldings(rawValue: 15)
}
