import Telemetry
import Wire

/// Rate limiter of a log line about a route: the first is logged at once, then one a minute with the count since the last.
struct AnswerNotices {
    private static let intervalMilliseconds: UInt64 = 60_000

    private struct Route {
        var nextAt: MonotonicTime
        var count: Int
    }

    private var routes: [LabelID: Route] = [:]

    /// Counts one more answer; returns the count to log if a line is due.
    mutating func count(_ route: LabelID, at now: MonotonicTime) -> Int? {
        var state = routes[route] ?? Route(nextAt: now, count: 0)
        defer { routes[route] = state }
        state.count += 1
        guard now >= state.nextAt else { return nil }
        defer { state.count = 0 }
        state.nextAt = now.advanced(milliseconds: Self.intervalMilliseconds)
        return state.count
    }
}
