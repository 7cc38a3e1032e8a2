import Synchronization

/// Counts the connections to one upstream that all workers hold together, busy, being made or idle, so that the bound of
/// `max-connections` is exact without shares. Health checks are not counted.
package final class ConnectionBudget: Sendable {
    private let used = Atomic<Int>(0)
    private let idle = Atomic<Int>(0)

    /// The budget of an upstream without connections.
    package init() {}

    /// Takes room for one connection, unless `limit` are held.
    func take(within limit: Int) -> Bool {
        var count = used.load(ordering: .relaxed)
        while count < limit {
            let (isTaken, now) = used.compareExchange(expected: count, desired: count + 1, ordering: .relaxed)
            if isTaken { return true }
            count = now
        }
        return false
    }

    /// Gives back what `take` took.
    func give() { used.wrappingSubtract(1, ordering: .relaxed) }

    /// One of the connections has become idle.
    func restBegan() { idle.wrappingAdd(1, ordering: .relaxed) }

    /// An idle connection is used again, or was closed and has given its room back.
    func restEnded() { idle.wrappingSubtract(1, ordering: .releasing) }

    /// Whether some worker holds an idle connection, which it could close for another's request. Where it says no, what was
    /// given back by then can be taken.
    var hasIdle: Bool { idle.load(ordering: .acquiring) > 0 }
}

/// One worker's request that the others close connections to an upstream which they keep idle.
package final class RoomRequest: Sendable {
    /// The upstream's name.
    package let upstream: String
    private let wanted: Atomic<Int>
    private let unanswered: Atomic<Int>
    private let whenAnswered: @Sendable () -> Void

    /// For so many connections, to be answered by so many workers; then `whenAnswered` is called, once, on any thread.
    package init(upstream: String, connections: Int, workers: Int, whenAnswered: @escaping @Sendable () -> Void) {
        self.upstream = upstream
        wanted = Atomic(connections)
        unanswered = Atomic(workers)
        self.whenAnswered = whenAnswered
    }

    /// Whether one more connection is wanted, which the caller then closes.
    func claim() -> Bool {
        var count = wanted.load(ordering: .relaxed)
        while count > 0 {
            let (isClaimed, now) = wanted.compareExchange(expected: count, desired: count - 1, ordering: .relaxed)
            if isClaimed { return true }
            count = now
        }
        return false
    }

    /// One of the workers has closed what it could, or has ended.
    package func answered() {
        if unanswered.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { whenAnswered() }
    }
}
