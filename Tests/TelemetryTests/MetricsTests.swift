import Telemetry
import Testing
import Wire

@Suite struct MetricsTests {
    @Test func everyCounterShowsUnderItsLabels() {
        let labels = sampleLabels()
        var metrics = WorkerMetrics(labels)
        let (route, tier, upstream) = (labels.routes[0], labels.tiers[1], labels.upstreams[0])
        metrics.requestStarted()
        metrics.requestStarted()
        metrics.requestFinished(
            route: route, method: 0, statusCode: 204, tier: tier, durationMicros: 700, bytesIn: 100, bytesOut: 300)
        metrics.requestStarted()
        metrics.requestFinished(
            route: .none, method: nil, statusCode: 400, tier: .none, durationMicros: 1, bytesIn: 1, bytesOut: 1)
        metrics.connectionAccepted()
        metrics.connections(.handshaking, 2)
        metrics.connections(.handshaking, 0)
        metrics.connections(.active, 1)
        metrics.tlsHandshake(.resumed, .tls13)
        metrics.upstreamFinished(upstream: upstream, statusCode: 503, durationMicros: 10_000_001)
        metrics.upstreamFinished(upstream: upstream, statusCode: 0, durationMicros: 5)
        metrics.upstreamConnections(upstream: upstream, .connecting, 1)
        metrics.upstreamRetry(upstream: upstream, .connectFailed)
        metrics.upstreamEjected(upstream: upstream, .failures)
        metrics.upstreamHealthy(upstream: upstream, addresses: 2)
        metrics.upstreamRefused(upstream: upstream, .requests)
        metrics.upstreamState(upstream: upstream, ejected: 1, isPanicking: true, requests: 7)
        metrics.authDecision(route: route, outcome: 1, reason: 1)
        metrics.authDecision(route: route, outcome: 0, reason: 0)
        metrics.tokenVerified(algorithm: 1, reason: 0, nanoseconds: 90_000)
        metrics.tokenVerified(algorithm: nil, reason: 2, nanoseconds: 400)
        metrics.tokenCacheHit()
        metrics.tokenCacheMiss()
        metrics.tokenCacheEvictions(3)
        metrics.tokenCacheHolds(17)
        metrics.unknownKeyID(issuer: labels.issuers[0])
        metrics.rateLimitDecision(route: route, outcome: 2, source: 0)
        metrics.overhead(.auth, nanoseconds: 1_000)
        let shown = Set(samples([metrics.snapshot()]))
        for line in [
            #"tollgate_http_requests_total{route="passages",method="GET",code_class="2xx",tier="premium"} 1"#,
            #"tollgate_http_requests_total{route="-",method="-",code_class="4xx",tier="anonymous"} 1"#,
            "tollgate_http_requests_in_flight 1",
            #"tollgate_http_request_duration_seconds_bucket{route="passages",le="0.0005"} 0"#,
            #"tollgate_http_request_duration_seconds_bucket{route="passages",le="0.001"} 1"#,
            #"tollgate_http_request_duration_seconds_bucket{route="passages",le="+Inf"} 1"#,
            #"tollgate_http_request_duration_seconds_sum{route="passages"} 0.0007"#,
            #"tollgate_http_request_duration_seconds_count{route="passages"} 1"#,
            #"tollgate_http_request_size_bytes_sum{route="passages"} 100"#,
            #"tollgate_http_response_size_bytes_bucket{route="passages",le="256"} 0"#,
            #"tollgate_http_response_size_bytes_bucket{route="passages",le="1024"} 1"#,
            #"tollgate_connections{state="handshaking"} 0"#, #"tollgate_connections{state="active"} 1"#,
            "tollgate_connections_accepted_total 1", #"tollgate_tls_handshakes_total{result="resumed",version="1.3"} 1"#,
            #"tollgate_upstream_requests_total{upstream="content",code_class="5xx"} 1"#,
            #"tollgate_upstream_requests_total{upstream="content",code_class="error"} 1"#,
            #"tollgate_upstream_duration_seconds_bucket{upstream="content",le="10"} 1"#,
            #"tollgate_upstream_duration_seconds_bucket{upstream="content",le="+Inf"} 2"#,
            #"tollgate_upstream_connections{upstream="content",state="connecting"} 1"#,
            #"tollgate_upstream_retries_total{upstream="content",reason="connect_failed"} 1"#,
            #"tollgate_upstream_ejections_total{upstream="content",reason="failures"} 1"#,
            #"tollgate_upstream_healthy{upstream="content"} 2"#,
            #"tollgate_upstream_refused_total{upstream="content",reason="max_requests"} 1"#,
            #"tollgate_upstream_ejected{upstream="content"} 1"#, #"tollgate_upstream_panic{upstream="content"} 1"#,
            #"tollgate_upstream_requests_in_flight{upstream="content"} 7"#,
            #"tollgate_auth_decisions_total{route="passages",outcome="refused",reason="expired"} 1"#,
            #"tollgate_auth_decisions_total{route="passages",outcome="accepted",reason="ok"} 1"#,
            #"tollgate_token_verifications_total{alg="ES256",result="ok"} 1"#,
            #"tollgate_token_verifications_total{alg="-",result="bad_signature"} 1"#,
            #"tollgate_token_verification_seconds_sum{alg="ES256"} 0.00009"#, "tollgate_token_cache_hits_total 1",
            "tollgate_token_cache_misses_total 1", "tollgate_token_cache_evictions_total 3", "tollgate_token_cache_entries 17",
            #"tollgate_jwks_unknown_kid_total{issuer="own"} 1"#,
            #"tollgate_ratelimit_decisions_total{policy="passages",outcome="shadow_deny",source="process"} 1"#,
            #"tollgate_overhead_seconds_bucket{phase="auth",le="0.000001"} 1"#,
        ] { #expect(shown.contains(line), "\(line)") }
    }

    @Test func aDurationFallsIntoTheFirstBucketThatHoldsIt() {
        let bounds: [(UInt64, String)] = [
            (500, "0.0005"), (1_000, "0.001"), (2_500, "0.0025"), (5_000, "0.005"), (10_000, "0.01"), (25_000, "0.025"),
            (50_000, "0.05"), (100_000, "0.1"), (250_000, "0.25"), (500_000, "0.5"), (1_000_000, "1"), (2_500_000, "2.5"),
            (5_000_000, "5"), (10_000_000, "10"),
        ]
        for (index, bound) in bounds.enumerated() {
            var metrics = WorkerMetrics(sampleLabels())
            metrics.upstreamFinished(upstream: sampleLabels().upstreams[0], statusCode: 200, durationMicros: bound.0)
            metrics.upstreamFinished(upstream: sampleLabels().upstreams[0], statusCode: 200, durationMicros: bound.0 + 1)
            let shown = samples([metrics.snapshot()])
            let name = #"tollgate_upstream_duration_seconds_bucket{upstream="content",le=""#
            #expect(shown.contains("\(name)\(bound.1)\"} 1"))
            if index > 0 { #expect(shown.contains("\(name)\(bounds[index - 1].1)\"} 0")) }
            #expect(shown.contains("\(name)\(index + 1 < bounds.count ? bounds[index + 1].1 : "+Inf")\"} 2"))
        }
    }

    @Test func theWorkersNumbersAreAddedUp() {
        var first = WorkerMetrics(sampleLabels())
        var second = WorkerMetrics(sampleLabels())
        let upstream = sampleLabels().upstreams[0]
        for _ in 0..<3 { first.connectionAccepted() }
        for _ in 0..<4 { second.connectionAccepted() }
        first.connections(.idle, 1)
        second.connections(.idle, 1)
        first.upstreamHealthy(upstream: upstream, addresses: 3)
        second.upstreamHealthy(upstream: upstream, addresses: 1)
        let shown = samples([first.snapshot(), second.snapshot()])
        #expect(shown.contains("tollgate_connections_accepted_total 7"))
        #expect(shown.contains(#"tollgate_connections{state="idle"} 2"#))
        #expect(shown.contains(#"tollgate_upstream_healthy{upstream="content"} 1"#))
    }

    @Test func aSnapshotDoesNotMove() {
        var metrics = WorkerMetrics(sampleLabels())
        metrics.tokenCacheHit()
        let snapshot = metrics.snapshot()
        metrics.tokenCacheHit()
        #expect(samples([snapshot]).contains("tollgate_token_cache_hits_total 1"))
        #expect(samples([metrics.snapshot()]).contains("tollgate_token_cache_hits_total 2"))
    }

    @Test func aReloadKeepsTotalsByName() {
        var labels = sampleLabels()
        var metrics = WorkerMetrics(labels)
        let export = labels.routes[1]
        count(&metrics, labels.routes[0], labels.tiers[1], times: 5)
        count(&metrics, export, labels.tiers[0], times: 2)
        metrics.upstreamHealthy(upstream: labels.upstreams[0], addresses: 1)

        labels.declare(
            routes: ["search", "passages"], upstreams: ["content", "search"], tiers: ["free", "plus", "premium"], issuers: ["own", "aunt"])
        metrics.adopt(labels)
        count(&metrics, labels.routes[1], labels.tiers[2], times: 1)
        count(&metrics, labels.routes[0], labels.tiers[1], times: 1)
        // A request that began before the reload ends under its own name, which is no longer shown.
        count(&metrics, export, labels.tiers[0], times: 1)

        let shown = samples([metrics.snapshot()]).filter { $0.hasPrefix("tollgate_http_requests_total") }
        #expect(
            Set(shown) == [
                #"tollgate_http_requests_total{route="passages",method="GET",code_class="2xx",tier="premium"} 6"#,
                #"tollgate_http_requests_total{route="search",method="GET",code_class="2xx",tier="plus"} 1"#,
            ])
        let all = samples([metrics.snapshot()])
        #expect(all.contains(#"tollgate_http_request_duration_seconds_count{route="passages"} 6"#))
        #expect(all.contains(#"tollgate_upstream_healthy{upstream="content"} 1"#))
        #expect(!all.contains { $0.contains(#"="export""#) })

        // It may come back.
        labels.declare(routes: ["export"], upstreams: [], tiers: ["free"], issuers: [])
        metrics.adopt(labels)
        let last = samples([metrics.snapshot()])
        #expect(last.contains(#"tollgate_http_requests_total{route="export",method="GET",code_class="2xx",tier="free"} 3"#))
        #expect(!last.contains { $0.contains("passages") || $0.contains("content") || $0.contains("premium") })
    }

    /// With and without new names, and with a longer label in the middle.
    @Test(arguments: [(2, 2), (300, 2), (2, 5), (300, 5)]) func aReloadKeepsEverySeries(_ routes: Int, _ tiers: Int) {
        var labels = sampleLabels()
        var metrics = WorkerMetrics(labels)
        for (number, tier) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            count(&metrics, labels.routes[number], labels.tiers[tier], times: 1 + number * 2 + tier)
        }
        let before = samples([metrics.snapshot()])
        labels.declare(
            routes: ["passages", "export"] + (2..<routes).map { "r\($0)" }, upstreams: ["content"],
            tiers: ["free", "premium"] + (2..<tiers).map { "t\($0)" }, issuers: ["own"])
        metrics.adopt(labels)
        #expect(samples([metrics.snapshot()]) == before)
        count(&metrics, labels.routes[routes - 1], labels.tiers[tiers - 1], times: 1)
        #expect(samples([metrics.snapshot()]) != before)
    }

    @Test func workersMayAdoptAReloadOneAfterTheOther() {
        var labels = sampleLabels()
        var behind = WorkerMetrics(labels)
        var ahead = WorkerMetrics(labels)
        count(&behind, labels.routes[1], labels.tiers[0], times: 1)
        labels.declare(routes: ["export", "new"], upstreams: [], tiers: ["basic", "free"], issuers: [])
        ahead.adopt(labels)
        count(&ahead, labels.routes[0], labels.tiers[1], times: 1)
        for order in [[behind.snapshot(), ahead.snapshot()], [ahead.snapshot(), behind.snapshot()]] {
            let shown = samples(order)
            #expect(shown.contains(#"tollgate_http_requests_total{route="export",method="GET",code_class="2xx",tier="free"} 2"#))
        }
    }

    @Test func removedNamesWithoutCountsAreNotShown() {
        var labels = sampleLabels()
        var metrics = WorkerMetrics(labels)
        #expect(samples([metrics.snapshot()]).contains(#"tollgate_upstream_panic{upstream="content"} 0"#))
        labels.declare(routes: ["passages"], upstreams: ["other"], tiers: ["free"], issuers: [])
        metrics.adopt(labels)
        let shown = samples([metrics.snapshot()])
        #expect(!shown.contains { $0.contains(#""export""#) || $0.contains("content") })
        #expect(shown.contains(#"tollgate_upstream_panic{upstream="other"} 0"#))
    }

    /// Counters come back with the name; nothing would set the gauges again.
    @Test func gaugesOfARemovedUpstreamEnd() {
        var labels = sampleLabels()
        var metrics = WorkerMetrics(labels)
        let content = labels.upstreams[0]
        metrics.upstreamConnections(upstream: content, .idle, 2)
        metrics.upstreamState(upstream: content, ejected: 1, isPanicking: true, requests: 3)
        metrics.upstreamRetry(upstream: content, .stale)
        labels.declare(routes: ["passages"], upstreams: ["other"], tiers: ["free"], issuers: [])
        metrics.adopt(labels)
        let shown = samples([metrics.snapshot()]).filter { $0.contains(#"upstream="content""#) }
        #expect(shown.isEmpty)

        labels.declare(routes: ["passages"], upstreams: ["content"], tiers: ["free"], issuers: [])
        metrics.adopt(labels)
        let again = samples([metrics.snapshot()]).filter { $0.contains(#"upstream="content""#) }
        #expect(
            again.filter { !$0.hasSuffix(" 0") } == again.filter { $0.hasPrefix("tollgate_upstream_retries_total") && $0.hasSuffix(" 1") })
        #expect(again.contains { $0.hasSuffix(" 1") })
    }

    @Test func namesDoNotGrowWithoutBound() {
        var labels = sampleLabels()
        for round in 0..<30 {
            labels.declare(routes: (0..<300).map { "r\(round)_\($0)" }, upstreams: [], tiers: ["free"], issuers: [])
        }
        var metrics = WorkerMetrics(labels)
        count(&metrics, labels.routes[7], labels.tiers[0], times: 2)
        count(&metrics, labels.routes[8], labels.tiers[0], times: 1)
        #expect(
            samples([metrics.snapshot()]).contains(
                #"tollgate_http_requests_total{route="other",method="GET",code_class="2xx",tier="free"} 3"#))
    }

    @Test func filteredElementsAreAddedOverAllWorkersByRoute() {
        let labels = sampleLabels()
        var first = WorkerMetrics(labels)
        var second = WorkerMetrics(labels)
        first.filtered(route: labels.routes[0], kept: 1, dropped: 2, unlabelled: 3, droppedUnlabelled: 2, isShadow: false)
        second.filtered(route: labels.routes[0], kept: 10, dropped: 20, unlabelled: 15, droppedUnlabelled: 15, isShadow: true)
        let items = MetricsSnapshot.filteredItems([first.snapshot(), second.snapshot()])
        #expect(items["passages"] == FilteredItems(kept: 11, dropped: 22, unlabelled: 18, droppedUnlabelled: 17))
        #expect(items["export"] == FilteredItems())
        #expect(MetricsSnapshot.filteredItems([]) == [:])
        #expect(samples([first.snapshot()]).contains(#"tollgate_filter_items_total{route="passages",action="dropped_unlabelled"} 2"#))
    }

    @Test func aNameOutsideTheConfigurationCountsAsNone() {
        let labels = sampleLabels()
        #expect(labels.routes[2] == .none)
        #expect(labels.routes[-1] == .none)
        #expect(labels.routes[1] != .none)
    }

    private func count(_ metrics: inout WorkerMetrics, _ route: LabelID, _ tier: LabelID, times: Int) {
        for _ in 0..<times {
            metrics.requestStarted()
            metrics.requestFinished(
                route: route, method: 0, statusCode: 200, tier: tier, durationMicros: 1, bytesIn: 1, bytesOut: 1)
        }
    }
}
