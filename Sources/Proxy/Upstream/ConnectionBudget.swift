import Synchronization

/// The connections to one upstream that all workers hold together, busy, connecting or idle: `max-connections` is exact, without a
/// share for each worker. Health checks are not counted. Any thread.
package final class ConnectionBudget: Sendable {
    private let used = SharedCount()
    private let idle = Atomic<Int>(0)
    /// The bounds on its requests.
    let requests = RequestBudget()

    /// The budget of an upstream without connections.
    package init() {}

    /// Reserves one connection, unless `limit` are held.
    func acquire(within limit: Int) -> Bool { used.acquire(within: limit) }

    /// Whether more than `limit` are held.
    func isOver(_ limit: Int) -> Bool { used.value > limit }

    /// Releases one reservation.
    func release() { used.release() }

    /// One of the connections has become idle.
    func idleBegan() { idle.wrappingAdd(1, ordering: .relaxed) }

    /// An idle connection is used again, or was closed and its reservation released.
    func idleEnded() { idle.wrappingSubtract(1, ordering: .releasing) }

    /// Whether some worker holds an idle connection, which it could close for another's request. If not, reservations released by
    /// then can be acquired.
    var hasIdle: Bool { idle.load(ordering: .acquiring) > 0 }
}

/// One worker's request that the others close idle connections to an upstream. Any thread.
package final class RoomRequest: Sendable {
    /// The upstream's name.
    package let upstream: String
    private let wanted: Atomic<Int>
    private let unanswered: Atomic<Int>
    private let whenAnswered: @Sendable () -> Void

    /// Wants `connections` closed by `workers`; when all have answered, calls `whenAnswered` once, on any thread.
    package init(upstream: String, connections: Int, workers: Int, whenAnswered: @escaping @Sendable () -> Void) {
        self.upstream = upstream
        wanted = Atomic(connections)
        unanswered = Atomic(workers)
        self.whenAnswered = whenAnswered
    }

    /// Whether one more connection is wanted; then the caller closes one.
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
