package import Gate
package import Telemetry
package import Wire

/// The running gateway as the admin API reads it.
package struct AdminGateway: Sendable {
    /// The name of the machine, and how many workers run.
    package var instance = ""
    package var workers = 1
    package var startedAt: WallTime
    package var now: @Sendable () -> WallTime
    package var reports: @Sendable () async -> [MetricsSnapshot] = { [] }
    package var process: @Sendable () -> ProcessMetrics
    package var readiness: @Sendable () -> Readiness = { Readiness() }
    package var refusals: @Sendable (RefusalQuery) async -> [ExplainedRefusal] = { _ in [] }
    /// The refusals of each worker since it had had so many, by its number, at most so many of each.
    package var newRefusals: @Sendable ([Int: Int], Int) async -> [Int: NewRefusals] = { _, _ in [:] }
    package var upstreams: @Sendable () async -> [UpstreamStatus] = { [] }
    /// Writes the routes as members of an open object; the closure adds members to the route of this name.
    package var writeRoutes: @Sendable (inout JSONWriter, (String, inout JSONWriter) -> Void) -> Void = { _, _ in }
    /// Keys, limits, outbox and configuration.
    package var controls = AdminControls()
    package var explain: @Sendable (ExplainQuestion) async -> ExplainOutcome = { _ in .busy }

    package init(startedAt: WallTime, now: @escaping @Sendable () -> WallTime, process: @escaping @Sendable () -> ProcessMetrics) {
        self.startedAt = startedAt
        self.now = now
        self.process = process
    }
}

/// A request to explain.
package struct ExplainQuestion: Sendable {
    package var method: String
    package var url: String
    package var token: String?
    /// The client's address.
    package var from: String?
    package var headers: [(name: String, value: String)]
}

/// The answer to it.
package enum ExplainOutcome: Sendable {
    case explained(steps: [Explanation.Step], explanation: Explanation, route: String?)
    /// The question is no request; a sentence says why.
    case invalid(String)
    /// Others are being explained.
    case busy
    case failed(String)
}
