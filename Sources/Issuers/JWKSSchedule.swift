package import Wire

/// The state machine that schedules fetches of one issuer's key set. Pure; all durations are in milliseconds.
///
/// Exits: `waiting` ends by the clock (`next`) or by an unknown key, `fetching` by `fetched` or `failed`. Keys stay valid until
/// `staleAt` in either phase, so an outage of the issuer of up to a day does not lock its users out.
package struct JWKSSchedule: Equatable, Sendable {
    /// The refresh interval without a `max-age`.
    package static let defaultRefresh: UInt64 = 300_000
    /// The bounds of a `max-age`.
    package static let refreshBounds: ClosedRange<UInt64> = 60_000...3_600_000
    /// How long keys stay valid after the last successful fetch.
    package static let maxStale: UInt64 = 86_400_000
    /// The minimum interval of fetches that unknown keys cause, so that forged tokens cannot cause a storm.
    package static let unknownKeyPause: UInt64 = 10_000
    /// The back-off after failures: doubles from the lower to the upper bound.
    package static let retryBounds: ClosedRange<UInt64> = 1_000...60_000

    /// The driver's next action.
    package enum Step: Equatable, Sendable {
        case fetch
        case wait(until: MonotonicTime)
        /// Forget the keys: they are stale.
        case dropKeys
    }

    private enum Phase: Equatable, Sendable {
        case waiting(until: MonotonicTime)
        /// `again`: an unknown key was seen during the fetch.
        case fetching(again: Bool)
    }

    private var phase: Phase
    private var lastStart: MonotonicTime?
    private var failures = 0
    /// When the keys become stale; nil without keys.
    private var staleAt: MonotonicTime?

    /// Starts with a fetch. `cachedAge` is the age of keys in the disk cache; nil for none.
    package init(now: MonotonicTime, cachedAge: UInt64? = nil) {
        phase = .waiting(until: now)
        if let cachedAge, cachedAge < Self.maxStale {
            staleAt = now.advanced(milliseconds: Self.maxStale - cachedAge)
        }
    }

    /// Whether there are valid keys.
    package var hasKeys: Bool { staleAt != nil }

    /// When the next fetch begins; nil during one.
    package var nextFetch: MonotonicTime? {
        if case .waiting(let until) = phase { until } else { nil }
    }

    /// The next action. Call it after each event and deadline, until it returns `wait`.
    package mutating func next(now: MonotonicTime) -> Step {
        if let staleAt, now >= staleAt {
            self.staleAt = nil
            return .dropKeys
        }
        switch phase {
        case .fetching:
            return .wait(until: staleAt ?? MonotonicTime(nanoseconds: .max))
        case .waiting(let until) where now < until:
            return .wait(until: staleAt.map { min($0, until) } ?? until)
        case .waiting:
            phase = .fetching(again: false)
            lastStart = now
            return .fetch
        }
    }

    /// A usable key set arrived; `maxAge` is its `Cache-Control`, in milliseconds.
    package mutating func fetched(now: MonotonicTime, maxAge: UInt64?) {
        failures = 0
        staleAt = now.advanced(milliseconds: Self.maxStale)
        let pause = maxAge.map { min(max($0, Self.refreshBounds.lowerBound), Self.refreshBounds.upperBound) }
        wait(until: now.advanced(milliseconds: pause ?? Self.defaultRefresh))
    }

    /// The fetch failed. `jitter` is any random number; it spreads the retries of many gateways.
    package mutating func failed(now: MonotonicTime, jitter: UInt64) {
        let doubled = Self.retryBounds.lowerBound << UInt64(min(failures, 16))
        let pause = min(doubled, Self.retryBounds.upperBound)
        failures += 1
        wait(until: now.advanced(milliseconds: pause - jitter % (pause / 4 + 1)))
    }

    /// A token had a `kid` that is not in the key set.
    package mutating func sawUnknownKey(now: MonotonicTime) {
        switch phase {
        case .fetching: phase = .fetching(again: true)
        case .waiting(let until): phase = .waiting(until: min(until, max(now, earliestForUnknownKey(now))))
        }
    }

    private mutating func wait(until: MonotonicTime) {
        guard case .fetching(again: true) = phase else {
            phase = .waiting(until: until)
            return
        }
        phase = .waiting(until: min(until, earliestForUnknownKey(until)))
    }

    private func earliestForUnknownKey(_ otherwise: MonotonicTime) -> MonotonicTime {
        lastStart?.advanced(milliseconds: Self.unknownKeyPause) ?? otherwise
    }
}
