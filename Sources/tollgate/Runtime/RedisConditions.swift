internal import Gate
internal import Redis
internal import Telemetry

/// The connections of the workers to Redis, the map of its Cluster and its sentinels, for `/readyz`. Pure.
struct RedisConditions {
    /// By worker and node: each worker has connections of its own. The node is "" with one server.
    private var connections: [Int: [String: RedisCondition]] = [:]
    /// Why the nodes of the Redis Cluster are unknown.
    var map = LoggedProblem()
    /// Why the sentinels name no primary, or a failover would not be noticed.
    var sentinels = LoggedProblem()

    /// A worker's connection changed; returns whether it is the first worker that sees the condition.
    mutating func changed(worker: Int, _ change: RedisNodes.Change) -> Bool {
        let node = change.node ?? ""
        let isKnown = connections.values.contains { $0[node] == change.condition }
        connections[worker, default: [:]][node] = change.condition
        return !isKnown
    }

    /// Degraded and not unready: a gateway without its Redis serves on, and all gateways lose it together.
    func add(to readiness: inout Readiness, of workers: Int, _ mode: LimitFailureMode) {
        // By node, so that each is named once.
        var away = connections.values.reduce(into: [String: RedisCondition]()) { away, nodes in
            for (node, condition) in nodes where condition != .ready { away[node] = condition }
        }
        if away.isEmpty, connections.count < workers { away[""] = .connecting }
        guard !away.isEmpty || map.problem != nil else {
            guard let problem = sentinels.problem else { return readiness.add("redis", .ready) }
            return readiness.add("redis", .degraded, "\(problem); limits are shared, but a failover would not be noticed")
        }
        let nodes = away.sorted { $0.key < $1.key }.map { $0.key.isEmpty ? "\($0.value)" : "node \($0.key): \($0.value)" }
        let limits = away.keys.contains("") || map.problem != nil ? "limits" : "limits of their keys"
        let consequence =
            switch mode {
            case .local: "\(limits) are counted in this gateway"
            case .open: "\(limits) let everything pass"
            case .closed: limits == "limits" ? "routes with limits answer 503" : "requests with limits of their keys get 503"
            }
        let problems = (sentinels.problem.map { [$0] } ?? nodes) + [map.problem].compactMap(\.self)
        readiness.add("redis", .degraded, (problems + [consequence]).joined(separator: "; "))
    }
}

/// A problem that has several reasons in turn, as a server that hangs does, and the reasons of it that were logged.
struct LoggedProblem {
    /// nil while all is well.
    private(set) var problem: String?
    private var logged = ReportedReasons()

    /// Sets the problem, and returns whether to log that: the end and the first reason are, and of further reasons each once, if `isDue`.
    mutating func set(_ problem: String?, isDue: () -> Bool) -> Bool {
        self.problem = problem
        let isFurther = problem != nil && logged.latest != nil
        guard logged.isNew(problem), !isFurther || isDue() else { return false }
        logged.told(problem)
        return true
    }
}
