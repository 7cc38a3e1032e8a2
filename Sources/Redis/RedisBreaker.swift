package import Wire

/// Circuit breaker: opens after five timeouts within a second, sends one probe after 375 to 625 ms, and closes with the
/// first good reply.
///
/// A value without clock or randomness. Timeouts at the same instant count once, so one late batch is one timeout.
package struct RedisBreaker: Equatable, Sendable {
    package enum State: Equatable, Sendable {
        case closed
        /// Sends nothing. Half-open with the first command at or after `probeAt`.
        case open(probeAt: MonotonicTime)
        /// One command is in flight. Closes with its reply, opens with its timeout.
        case halfOpen
    }

    static let maxMisses = 5
    /// Nanoseconds, as are the pauses.
    static let window: UInt64 = 1_000_000_000
    static let shortestPause: UInt64 = 375_000_000
    static let maxPause: UInt64 = 625_000_000

    package private(set) var state = State.closed
    /// The latest timeouts, oldest first.
    private var misses: [MonotonicTime] = []

    package init() {
        misses.reserveCapacity(Self.maxMisses)
    }

    /// Whether all commands are admitted.
    package var isClosed: Bool {
        switch state {
        case .closed: true
        case .open, .halfOpen: false
        }
    }

    /// Whether a command may be sent now; if true, it must be sent.
    package mutating func admit(_ now: MonotonicTime) -> Bool {
        switch state {
        case .closed: return true
        case .halfOpen: return false
        case .open(let probeAt):
            guard now >= probeAt else { return false }
            state = .halfOpen
            return true
        }
    }

    /// A good reply came in time.
    package mutating func answered() {
        guard state == .halfOpen else { return }
        state = .closed
        misses.removeAll(keepingCapacity: true)
    }

    /// A command timed out, or the reply was an outage error. `random` adds jitter to the next probe.
    package mutating func missed(_ now: MonotonicTime, random: UInt64) {
        switch state {
        case .open: return
        case .halfOpen: open(now, random)
        case .closed:
            guard misses.last != now else { return }
            if misses.count == Self.maxMisses { misses.removeFirst() }
            misses.append(now)
            guard misses.count == Self.maxMisses, now.nanoseconds(since: misses[0]) <= Self.window else { return }
            open(now, random)
        }
    }

    private mutating func open(_ now: MonotonicTime, _ random: UInt64) {
        let pause = Self.shortestPause + random % (Self.maxPause - Self.shortestPause + 1)
        state = .open(probeAt: MonotonicTime(nanoseconds: now.nanoseconds &+ pause))
    }
}
