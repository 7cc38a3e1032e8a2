package import Gate
package import Telemetry
package import Wire

/// The running gateway as the admin API and the admin listeners read it.
package protocol AdminGateway: Sendable {
    /// The name of the machine.
    var instance: String { get }
    /// How many workers run.
    var workerCount: Int { get }
    var startedAt: WallTime { get }
    var time: WallTime { get }
    /// The metrics of every worker.
    func reports() async -> [MetricsSnapshot]
    func process() -> ProcessMetrics
    func readiness() -> Readiness
    func refusals(_ query: RefusalQuery) async -> [ExplainedRefusal]
    /// The refusals of each worker since it had had so many, by its number, at most so many of each.
    func newRefusals(since counts: [Int: Int], limit: Int) async -> [Int: NewRefusals]
    func upstreams() async -> [UpstreamStatus]
}
