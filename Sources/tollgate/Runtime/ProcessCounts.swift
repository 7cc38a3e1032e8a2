internal import Accounts
internal import Issuers
internal import Telemetry
internal import Wire

/// The metrics of the process, and the counts of key sets that are already in them. Pure.
struct ProcessCounts {
    var metrics: ProcessMetrics
    /// As of the last scrape: metrics count what was fetched since.
    private var keySets: [String: KeyStatus] = [:]

    init(_ build: BuildInfo) {
        metrics = ProcessMetrics(build: build, attempts: AttemptMetrics(buckets: AttemptBucket.Kind.allCases.map(\.rawValue)))
    }

    /// Counts the fetches of key sets since the last scrape.
    mutating func add(_ statuses: [KeyStatus], now: WallTime) {
        for status in statuses {
            var before = keySets[status.name] ?? KeyStatus(name: status.name)
            // Since a reload the name has another source, whose counts begin at 0.
            if status.fetches < before.fetches || status.failures < before.failures { before = KeyStatus(name: status.name) }
            let failures = Int(clamping: status.failures &- before.failures)
            let fetches = Int(clamping: status.fetches &- before.fetches)
            for _ in 0..<max(0, min(failures, 1_000)) {
                metrics.keySetFetched(issuer: status.name, .unreachable, keys: status.keyCount, at: now)
            }
            for _ in 0..<max(0, min(fetches - failures, 1_000)) {
                metrics.keySetFetched(issuer: status.name, .ok, keys: status.keyCount, at: status.confirmedAt ?? now)
            }
            keySets[status.name] = status
        }
    }
}
