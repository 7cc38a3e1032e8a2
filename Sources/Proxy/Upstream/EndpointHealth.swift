import Wire

/// Health of one upstream address, by probes (active) and by outlier detection (passive).
///
/// - Probes: two failures in a row make it unhealthy, two successes healthy again.
/// - Requests: five failures in a row eject it for 10 s, then 20 s, up to 5 min; so do five answers in a row that were cut off or
///   malformed behind their heads. The head of an answer resets the first count; a complete answer resets the second and the
///   length of the next ejection.
///
/// A value without clocks or sockets; one per worker and address.
struct EndpointHealth: Equatable, Sendable {
    static let probesToTurn = 2
    static let failuresToEject = 5
    static let firstEjection: UInt64 = 10_000
    static let longestEjection: UInt64 = 300_000

    private(set) var isHealthy = true
    private var contraryProbes = 0
    private var failures = 0
    private var brokenAnswers = 0
    private var ejections = 0
    private var ejectedUntil = MonotonicTime(nanoseconds: 0)

    enum Change: Equatable { case none, ejected, turnedHealthy, turnedUnhealthy }

    /// Whether requests may go there.
    func isAvailable(at now: MonotonicTime) -> Bool { isHealthy && !isEjected(at: now) }

    func isEjected(at now: MonotonicTime) -> Bool { now < ejectedUntil }

    mutating func probed(good: Bool) -> Change {
        guard good != isHealthy else {
            contraryProbes = 0
            return .none
        }
        contraryProbes += 1
        guard contraryProbes >= Self.probesToTurn else { return .none }
        contraryProbes = 0
        isHealthy = good
        if good {
            ejections = 0
            ejectedUntil = MonotonicTime(nanoseconds: 0)
        }
        return good ? .turnedHealthy : .turnedUnhealthy
    }

    /// Adopts the verdict of the worker that probes for all.
    mutating func learned(healthy: Bool) {
        contraryProbes = 0
        isHealthy = healthy
    }

    /// Whether there is anything that an answer resets.
    var hasFailures: Bool { failures | brokenAnswers | ejections != 0 }

    mutating func answerBegan() { failures = 0 }

    mutating func answerEnded() {
        brokenAnswers = 0
        ejections = 0
    }

    /// `isBrokenAnswer`: the head of its answer was good.
    mutating func requestFailed(at now: MonotonicTime, isBrokenAnswer: Bool = false) -> Change {
        if isBrokenAnswer { brokenAnswers += 1 } else { failures += 1 }
        guard max(failures, brokenAnswers) >= Self.failuresToEject, !isEjected(at: now) else { return .none }
        failures = 0
        brokenAnswers = 0
        let length = min(Self.firstEjection << UInt64(min(ejections, 5)), Self.longestEjection)
        ejections += 1
        ejectedUntil = now.advanced(milliseconds: length)
        return .ejected
    }
}
