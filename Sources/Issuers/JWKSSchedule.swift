package import Wire

/// When one issuer's key set is fetched from its URL, and how long fetched keys count: a machine without I/O.
///
/// Exits: `waiting` leaves by the clock (`next`) or by an unknown key; `fetching` by `fetched` or `failed`. Keys count
/// until `staleAt`, whatever the phase: an issuer that does not answer does not lock its users out for a day.
package struct JWKSSchedule: Equatable, Sendable {
    package static let usualRefresh: UInt64 = 300_000
    package static let refreshBounds: ClosedRange<UInt64> = 60_000...3_600_000
    /// How long keys count that could not be confirmed again.
    package static let longestStale: UInt64 = 86_400_000
    /// At most one fetch in this time for the sake of unknown keys.
    package static let unknownKeyPause: UInt64 = 10_000
    /// The first pause after a failure; it doubles up to the last.
    package static let retryBounds: ClosedRange<UInt64> = 1_000...60_000

    /// What the driver must do.
    package enum Step: Equatable, Sendable {
        case fetch
        case wait(until: MonotonicTime)
        /// The keys are too old to count: forget them.
        case dropKeys
    }

    private enum Phase: Equatable, Sendable {
        case waiting(until: MonotonicTime)
        /// `again`: an unknown key was seen meanwhile.
        case fetching(again: Bool)
    }

    private var phase: Phase
    private var lastStart: MonotonicTime?
    private var failures = 0
    /// When the keys held stop counting; nil while there are none.
    private var staleAt: MonotonicTime?

    /// Starts with a fetch. `cachedAge` is the age in milliseconds of keys kept from an earlier run, if there are any.
    package init(now: MonotonicTime, cachedAge: UInt64? = nil) {
        phase = .waiting(until: now)
        if let cachedAge, cachedAge < Self.longestStale {
            staleAt = now.advanced(milliseconds: Self.longestStale - cachedAge)
        }
    }

    /// Whether there are keys that count.
    package var hasKeys: Bool { staleAt != nil }

    /// How long ago the keys held were last confirmed, in milliseconds.
    package func keyAge(now: MonotonicTime) -> UInt64? {
        staleAt.map { Self.longestStale - min(Self.longestStale, $0.nanoseconds(since: now) / 1_000_000) }
    }

    /// Call when anything happened and when the time waited for has come, until the answer is to wait.
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

    /// A usable key set came; `maxAge` is what its `Cache-Control` allows, in milliseconds.
    package mutating func fetched(now: MonotonicTime, maxAge: UInt64?) {
        failures = 0
        staleAt = now.advanced(milliseconds: Self.longestStale)
        let pause = maxAge.map { min(max($0, Self.refreshBounds.lowerBound), Self.refreshBounds.upperBound) }
        wait(until: now.advanced(milliseconds: pause ?? Self.usualRefresh))
    }

    /// No usable key set came. `jitter` is any random number: it spreads the tries of many gateways.
    package mutating func failed(now: MonotonicTime, jitter: UInt64) {
        let doubled = Self.retryBounds.lowerBound << UInt64(min(failures, 16))
        let pause = min(doubled, Self.retryBounds.upperBound)
        failures += 1
        wait(until: now.advanced(milliseconds: pause - jitter % (pause / 4 + 1)))
    }

    /// A token named a key that the set does not hold.
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
