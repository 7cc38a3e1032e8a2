package import Wire

/// Keeps callers from waiting for a server that does not answer: after five misses within a second nothing is sent for
/// about half a second, then a single command tries, and one good answer lets everything through again.
///
/// A value without clocks or randomness. What is missed at one moment is one miss: a batch that is late is late once.
package struct RedisBreaker: Equatable, Sendable {
    package enum State: Equatable, Sendable {
        case closed
        /// Nothing is sent. Leaves with the first command at or after the moment.
        case open(probeAt: MonotonicTime)
        /// One command is under way. Leaves with its answer, or with a miss.
        case halfOpen
    }

    static let mostMisses = 5
    static let window: UInt64 = 1_000_000_000
    static let shortestPause: UInt64 = 375_000_000
    static let longestPause: UInt64 = 625_000_000

    package private(set) var state = State.closed
    /// The latest misses, the oldest first.
    private var misses: [MonotonicTime] = []

    package init() {
        misses.reserveCapacity(Self.mostMisses)
    }

    /// Whether everything is let through.
    package var isClosed: Bool {
        switch state {
        case .closed: true
        case .open, .halfOpen: false
        }
    }

    /// Whether a command may be sent now; if so, it must be.
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

    /// A good answer came in time.
    package mutating func answered() {
        guard state == .halfOpen else { return }
        state = .closed
        misses.removeAll(keepingCapacity: true)
    }

    /// No answer came, or one that says that the server answers nobody. `random` spreads the next try.
    package mutating func missed(_ now: MonotonicTime, random: UInt64) {
        switch state {
        case .open: return
        case .halfOpen: open(now, random)
        case .closed:
            guard misses.last != now else { return }
            if misses.count == Self.mostMisses { misses.removeFirst() }
            misses.append(now)
            guard misses.count == Self.mostMisses, now.nanoseconds(since: misses[0]) <= Self.window else { return }
            open(now, random)
        }
    }

    private mutating func open(_ now: MonotonicTime, _ random: UInt64) {
        let pause = Self.shortestPause + random % (Self.longestPause - Self.shortestPause + 1)
        state = .open(probeAt: MonotonicTime(nanoseconds: now.nanoseconds &+ pause))
    }
}
