import Gate
import Telemetry
import Wire

/// Rate limiter of a log line about a route: the first is logged at once, then one a minute with the count since the last.
struct AnswerNotices {
    fileprivate static let intervalMilliseconds: UInt64 = 60_000

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

/// Rate limiter of the log line about a route whose filtered answers have no label at all, at most once a minute. A route that had an
/// answer with a label within the minute before is not named.
struct UnlabelledAnswers {
    private var notices = AnswerNotices()
    /// Until when a route is not named.
    private var quietUntil: [LabelID: MonotonicTime] = [:]

    /// Counts one more answer; returns the number without labels to log if a line is due.
    mutating func count(_ counts: FilterCounts, of route: LabelID, at now: MonotonicTime) -> Int? {
        guard counts.kept &+ counts.dropped == counts.unlabelled else {
            quietUntil[route] = now.advanced(milliseconds: AnswerNotices.intervalMilliseconds)
            return nil
        }
        if let end = quietUntil[route], now < end { return nil }
        return counts.kept > 0 ? notices.count(route, at: now) : nil
    }
}
