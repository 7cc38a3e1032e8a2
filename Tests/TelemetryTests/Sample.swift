import Telemetry
import Wire

/// Labels as a small gateway would declare them.
func sampleLabels(
    routes: [String] = ["passages", "export"], upstreams: [String] = ["content"], tiers: [String] = ["free", "premium"],
    issuers: [String] = ["own"]
) -> MetricLabels {
    var labels = MetricLabels(
        FixedLabelValues(
            methods: ["GET", "HEAD", "POST"], algorithms: ["HS256", "ES256"], authOutcomes: ["accepted", "refused"],
            authReasons: ["ok", "expired", "bad_signature"], limitOutcomes: ["allow", "deny", "shadow_deny"],
            limitSources: ["process", "redis"],
            refusalCodes: ["NOT_FOUND", "RATE_LIMITED"]))
    labels.declare(routes: routes, upstreams: upstreams, tiers: tiers, issuers: issuers)
    return labels
}

let sampleProcess = ProcessMetrics(build: BuildInfo(version: "1.0", commit: "abc", swift: "6.3"))

/// The sample lines of the exposition.
func samples(_ workers: [MetricsSnapshot], _ process: ProcessMetrics = sampleProcess, at now: WallTime = WallTime(seconds: 0)) -> [String] {
    lines(workers, process, at: now).filter { !$0.hasPrefix("#") }
}

func lines(_ workers: [MetricsSnapshot], _ process: ProcessMetrics = sampleProcess, at now: WallTime = WallTime(seconds: 0)) -> [String] {
    String(decoding: Exposition.render(workers, process, at: now), as: UTF8.self).split(separator: "\n").map(String.init)
}

extension String {
    var utf8Bytes: [UInt8] { Array(utf8) }
}
