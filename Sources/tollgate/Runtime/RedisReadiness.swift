internal import Gate
internal import Redis
internal import Telemetry

extension Readiness {
    /// Degraded and not unready: a gateway without its Redis serves on, and all gateways lose it together.
    mutating func add(
        _ redis: [Int: [String: RedisCondition]], of workers: Int, mapProblem: String?, _ sentinelProblem: String?, _ mode: LimitFailureMode
    ) {
        // By node, so that each is named once.
        var away = redis.values.reduce(into: [String: RedisCondition]()) { away, nodes in
            for (node, condition) in nodes where condition != .ready { away[node] = condition }
        }
        if away.isEmpty, redis.count < workers { away[""] = .connecting }
        guard !away.isEmpty || mapProblem != nil else {
            guard let sentinelProblem else { return add("redis", .ready) }
            return add("redis", .degraded, "\(sentinelProblem); limits are shared, but a failover would not be noticed")
        }
        let problems = sentinelProblem.map { [$0] } ?? away.sorted { $0.key < $1.key }.map { $0.key.isEmpty ? "\($0.value)" : "node \($0.key): \($0.value)" }
        let limits = away.keys.contains("") || mapProblem != nil ? "limits" : "limits of their keys"
        let consequence =
            switch mode {
            case .local: "\(limits) are counted in this gateway"
            case .open: "\(limits) let everything pass"
            case .closed: limits == "limits" ? "routes with limits answer 503" : "requests with limits of their keys get 503"
            }
        add("redis", .degraded, (problems + [mapProblem].compactMap(\.self) + [consequence]).joined(separator: "; "))
    }
}
