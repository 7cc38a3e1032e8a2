package import Gate
package import Telemetry
internal import Wire

/// The gateway's totals since its start, and its condition.
struct GatewayNow: Sendable, Recorded {
    let gateway: any AdminGateway
    let at: WallTime
    let traffic: TrafficSummary
    let process: ProcessMetrics
    let checks: [Readiness.Check]
    let upstreams: [UpstreamStatus]

    init(_ gateway: any AdminGateway) async {
        self.gateway = gateway
        traffic = TrafficSummary(await gateway.reports())
        upstreams = await gateway.upstreams()
        (process, checks, at) = (gateway.process(), gateway.readiness().checks, gateway.time)
    }

    static let record = Record<Self>(
        "Now",
        [
            .has("at", \.at), .has("uptime_seconds") { Int(max(0, $0.at.seconds - $0.gateway.startedAt.seconds)) },
            .has("version") { _ in Version.text }, .has("instance", \.gateway.instance), .has("workers", \.gateway.workerCount),
            .has("requests_total", \.traffic.total.requests),
            .has("by_status", .map(UInt64.shape), about: "By class, and those without an answer as aborted", \.traffic.total.classes),
            .has("refusals", .map(UInt64.shape), about: "By code") { $0.traffic.refusals.map { ($0.code, $0.count) } },
            .has("limited_total", \.traffic.limited),
            .has("latency_seconds", .map(.nullable(.seconds)), about: "p50, p90 and p99, estimated from the buckets; null without requests")
            { now in
                [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)].map { ($0.0, now.traffic.total.quantile($0.1)) }
            },
            .has("duration_buckets", about: "Each request in one bucket") {
                $0.traffic.total.buckets.map(DurationBucket.init)
            },
            .has("connections", Record([.has("open", \.openConnections), .has("http2_streams", \.http2Streams)]).shape, \.traffic),
            .has("streams_open", \.traffic.openStreams), .has("bus", \.process.bus),
            .has("keys", .map(ProcessMetrics.KeySetState.shape), about: "By issuer") {
                $0.process.keySets.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
            },
            .has("checks", about: "Those of /readyz", \.checks), .has("upstreams", \.upstreams),
        ])
}

private struct DurationBucket: Recorded {
    let bound: UInt64
    let count: UInt64

    static let record = Record<Self>([.has("le", .seconds, \.bound), .has("count", \.count)])
}

extension BusMetrics: Recorded {
    package static let record = Record<Self>([
        .may("carrier", \.carrier), .has("connected", \.isConnected), .has("messages", \.messages), .has("refused", \.refusedMessages),
    ])
}

extension ProcessMetrics.KeySetState: Recorded {
    package static let record = Record<Self>([
        .has("keys", \.keys), .has("fetches", \.succeeded), .has("failures", \.failed), .may("fetched_at", \.lastSuccess),
    ])
}

extension Shape where Value == String {
    /// A state of `/readyz`.
    package static var readiness: Self { .words(["ready", "degraded", "unready"]) }
}

extension Readiness.Check: Recorded {
    package static let record = Record<Self>([
        .has("name", \.name), .has("state", .readiness) { $0.state.text.description }, .may("reason", \.reason),
    ])
}

extension UpstreamStatus: Recorded {
    package static let record = Record<Self>(
        "Upstream",
        [
            .has("name", \.name), .has("panic", \.isPanicking), .has("bounded_requests", \.requests), .has("bounded_pending", \.pending),
            .has("retries", \.retries), .has("addresses", \.addresses),
        ])
}

extension UpstreamStatus.Address: Recorded {
    package static let record = Record<Self>([
        .has("address", \.text), .has("state", .cases, \.state), .may("reason", \.reason), .may("detail", \.detail), .may("since", \.since),
        .may("until", \.until), .has("share", \.share), .has("ejections", \.ejections), .has("requests", \.requests),
        .has("connections", \.connections),
    ])
}

extension TrafficSummary.Counts: Recorded {
    package static let record = Record<Self>(
        [.has("requests", \.requests), .has("refused", \.refused)]
            + (2...5).map { code in .has("\(code)xx") { $0.byClass[code] } }
            + [
                .has("p50", .nullable(.seconds), about: "Seconds") { $0.quantile(0.5) },
                .has("p99", .nullable(.seconds), about: "Seconds") { $0.quantile(0.99) },
            ])

    fileprivate var classes: [(String, UInt64)] { (1...5).map { ("\($0)xx", byClass[$0]) } + [("aborted", byClass[0])] }
}

extension Shape where Value == UInt64 {
    /// Microseconds, shown as seconds.
    fileprivate static var seconds: Self {
        Self(.number) { $1.verbatim(Array(TrafficSummary.seconds($0).utf8).rawBytes) }
    }
}

// MARK: - Decisions

/// The steps of a decision with its verdict.
package struct Verdict: Sendable {
    let steps: [Explanation.Step]
    let explanation: Explanation

    static let record = Record<Self>([
        .has("steps", \.steps), .has("passes") { $0.explanation.status == 0 },
        .may("status", Shape(.range(100...599)) { $1.number($0) }) { $0.explanation.status == 0 ? nil : Int($0.explanation.status) },
        .may("code", \.explanation.code),
    ])
}

extension Explanation.Step: Recorded {
    package static let record = Record<Self>([.has("step", \.name), .has("text", \.text)])
}

extension ExplainedRefusal: Recorded {
    package static let record = Record<Self>(
        "Decision",
        [
            .has("request_id", \.requestID), .has("time", \.at), .has("method", \.method), .has("host", \.host),
            .has("path", about: "Without the query", \.path), .may("route", \.route),
            .may("user", about: "Whose token was accepted", \.user),
        ] + Verdict.record.fields { Verdict(steps: $0.explanation.steps, explanation: $0.explanation) })
}

/// The walk of a request through the policy, as `explain` shows it.
package struct ShownWalk: Sendable, Recorded {
    let method: String
    let url: String
    let route: String?
    private let verdict: Verdict

    package init(method: String, url: String, route: String?, steps: [Explanation.Step], _ explanation: Explanation) {
        self.method = method
        self.url = url
        self.route = route
        verdict = Verdict(steps: steps, explanation: explanation)
    }

    package static let record = Record<Self>(
        "Walk",
        [
            .has("method", \.method), .has("url", \.url), .may("route", \.route),
        ] + Verdict.record.fields(of: \.verdict))
}
