import Telemetry
import Testing
import Wire

/// The console's numbers, from the workers' counters.
@Suite struct TrafficSummaryTests {
    private func finish(_ metrics: inout WorkerMetrics, _ labels: MetricLabels, _ status: Int, route: LabelID, micros: UInt64) {
        metrics.requestFinished(
            route: route, method: 0, statusCode: status, tier: labels.tiers[0], durationMicros: micros, bytesIn: 1, bytesOut: 1)
    }

    @Test func workersAndRoutesAreSummed() {
        let labels = sampleLabels()
        let (passages, export) = (labels.routes[0], labels.routes[1])
        var one = WorkerMetrics(labels), two = WorkerMetrics(labels)
        for _ in 0..<98 { finish(&one, labels, 200, route: passages, micros: 700) }
        finish(&two, labels, 404, route: passages, micros: 700)
        finish(&two, labels, 503, route: export, micros: 20_000_000)
        finish(&two, labels, 0, route: .none, micros: 1)
        two.refused(route: passages, code: 0)
        two.refused(route: export, code: 1)
        two.rateLimitDecision(route: export, outcome: 1, source: 0)
        two.rateLimitDecision(route: export, outcome: 0, source: 0)
        one.connections(.idle, 2)
        two.connections(.active, 3)
        two.http2Streams(4)
        one.streamOpened(route: passages, .sse)
        let summary = TrafficSummary([one.snapshot(), two.snapshot()])
        #expect(summary.total.requests == 101 && summary.total.refused == 2 && summary.limited == 1)
        #expect(summary.total.byClass == [1, 0, 98, 0, 1, 1])
        #expect(summary.refusals.map(\.code) == ["NOT_FOUND", "RATE_LIMITED"] && summary.refusals.allSatisfy { $0.count == 1 })
        #expect(summary.routes["passages"]?.requests == 99 && summary.routes["passages"]?.refused == 1)
        #expect(summary.routes["export"]?.byClass[5] == 1 && summary.routes["-"]?.requests == 1)
        #expect(summary.openConnections == 5 && summary.http2Streams == 4 && summary.openStreams == 1)
        #expect(summary.routes["passages"]?.quantile(0.5) == 750, "half of the bucket from 0.5 to 1 ms")
        #expect(summary.routes["export"]?.quantile(0.5) == 10_000_000, "above all buckets: the largest bound")
    }

    /// Its pages hold a stream open for hours, which is no client's latency.
    @Test func theConsolesOwnRequestsCountInNoTotal() {
        let labels = sampleLabels(routes: ["passages", "own-console", "own-admin-api"])
        var metrics = WorkerMetrics(labels)
        finish(&metrics, labels, 200, route: labels.routes[0], micros: 700)
        finish(&metrics, labels, 200, route: labels.routes[1], micros: 700)
        finish(&metrics, labels, 200, route: labels.routes[2], micros: 3_600_000_000)
        metrics.refused(route: labels.routes[2], code: 1)
        let summary = TrafficSummary([metrics.snapshot()])
        #expect(summary.total.requests == 1 && summary.total.refused == 0 && summary.refusals.isEmpty)
        #expect(summary.total.quantile(0.99).map { $0 <= 1_000 } == true)
        #expect(summary.routes["own-admin-api"]?.requests == 1 && summary.routes["own-admin-api"]?.refused == 1)
    }

    @Test func withoutRequestsThereIsNoLatency() throws {
        #expect(TrafficSummary([]).total.quantile(0.5) == nil)
        let metrics = WorkerMetrics(sampleLabels())
        let summary = TrafficSummary([metrics.snapshot()])
        #expect(summary.total == TrafficSummary.Counts() && summary.routes.isEmpty)
        let first = try #require(summary.total.buckets.first)
        #expect(TrafficSummary.seconds(first.bound) == "0.0005" && summary.total.buckets.allSatisfy { $0.count == 0 })
    }
}
