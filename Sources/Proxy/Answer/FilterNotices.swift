import Gate
import Telemetry
import Wire

/// Rate limiter of a log line about a route: the first is logged at once, then one a minute with the count since the last.
struct AnswerNotices {
    fileprivate static let intervalMilliseconds: UInt64 = 60_000

    private var routes: [LabelID: (nextAt: MonotonicTime, count: Int)] = [:]

    /// Counts one more answer; returns the count to log if a line is due.
    mutating func count(_ route: LabelID, at now: MonotonicTime) -> Int? {
        var state = routes[route] ?? (nextAt: now, count: 0)
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

extension Worker {
    /// Logs, at a limited rate, that an answer was not JSON, and which setting of its route would let it pass.
    mutating func logNotJSON(_ exchange: ExchangeIndex, _ failure: FilterFault) {
        guard failure == .notJSON, exchanges[exchange].record.status < 400, exchanges[exchange].record.isRecorded else { return }
        let route = exchanges[exchange].record.route
        guard let count = telemetry.answerNotices.count(route, at: now.monotonic) else { return }
        services.answerNotJSON(telemetry.labels.routes.name(of: route), count, exchanges[exchange].answer.stages?.filter.isShadow ?? false)
    }

    /// Logs, at a limited rate, that elements passed in an answer without a single label.
    mutating func noteUnlabelled(_ exchange: ExchangeIndex, _ counts: FilterCounts) {
        let route = exchanges[exchange].record.route
        guard exchanges[exchange].answer.stages?.filter.labelsTheUnlabelled == false,
            let count = telemetry.unlabelledAnswers.count(counts, of: route, at: now.monotonic)
        else { return }
        services.answerUnlabelled(telemetry.labels.routes.name(of: route), exchanges[exchange].note.sentPath, count)
    }
}
