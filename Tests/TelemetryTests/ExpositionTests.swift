import Telemetry
import Testing
import Wire

@Suite struct ExpositionTests {
    @Test func everyFamilyComesOnceWithItsHelpAndType() {
        let workers = [WorkerMetrics(sampleLabels()).snapshot(), WorkerMetrics(sampleLabels()).snapshot()]
        var seen: Set<String> = []
        var current = ""
        for line in lines(workers) {
            if line.hasPrefix("# HELP ") {
                current = String(line.split(separator: " ")[2])
                #expect(seen.insert(current).inserted, "\(current) comes twice")
                #expect(line.split(separator: " ").count > 3, "\(current) says nothing of itself")
            } else if line.hasPrefix("# TYPE ") {
                let words = line.split(separator: " ")
                #expect(words[2] == current[...])
                #expect(["counter", "gauge", "histogram"].contains(words[3]))
                #expect((words[3] == "counter") == current.hasSuffix("_total"), "\(current)")
            } else {
                #expect(line.hasPrefix(current), "\(line) stands outside its family")
                #expect(line.hasPrefix("tollgate_"))
            }
        }
        #expect(seen.count >= 28)
    }

    @Test func labelValuesAreEscaped() {
        let nasty = "a\"b\\c\nd"
        let labels = sampleLabels(upstreams: [nasty])
        var metrics = WorkerMetrics(labels)
        metrics.upstreamEjected(upstream: labels.upstreams[0], .latency)
        #expect(samples([metrics.snapshot()]).contains(#"tollgate_upstream_ejections_total{upstream="a\"b\\c\nd",reason="latency"} 1"#))
    }

    @Test func theBucketsOfAHistogramNeverFall() {
        let labels = sampleLabels()
        var metrics = WorkerMetrics(labels)
        var random = SplitMix64(seed: 1)
        for _ in 0..<1_000 {
            metrics.upstreamFinished(
                upstream: labels.upstreams[0], statusCode: 200, durationMicros: .random(in: 0...20_000_000, using: &random))
        }
        let counts = samples([metrics.snapshot()]).filter { $0.hasPrefix("tollgate_upstream_duration_seconds_bucket") }
            .map { Int($0.split(separator: " ")[1])! }
        #expect(counts.count == 15)
        #expect(counts == counts.sorted())
        #expect(counts.last == 1_000)
    }

    @Test func theProcessShowsItsBuildItsReloadsAndItsKeySets() {
        var process = ProcessMetrics(build: BuildInfo(version: "1.2", commit: "0af", swift: "6.3.1"))
        process.configurationLoaded(succeeded: true, at: WallTime(microseconds: 1_700_000_000_250_000))
        process.configurationLoaded(succeeded: false, at: WallTime(seconds: 1_700_000_100))
        process.keySetFetched(issuer: "aunt", .ok, keys: 3, at: WallTime(seconds: 1_700_000_000))
        process.keySetFetched(issuer: "aunt", .unreachable, keys: 3, at: WallTime(seconds: 1_700_000_050))
        process.keySetFetched(issuer: "gone", .invalid, keys: 0, at: WallTime(seconds: 1_700_000_050))
        var shown = Set(samples([], process, at: WallTime(microseconds: 1_700_000_060_500_000)))
        for line in [
            #"tollgate_build_info{version="1.2",commit="0af",swift="6.3.1"} 1"#,
            #"tollgate_config_reloads_total{result="ok"} 1"#, #"tollgate_config_reloads_total{result="failed"} 1"#,
            "tollgate_config_last_reload_success_timestamp_seconds 1700000000.25",
            #"tollgate_jwks_fetches_total{issuer="aunt",result="ok"} 1"#,
            #"tollgate_jwks_fetches_total{issuer="aunt",result="unreachable"} 1"#,
            #"tollgate_jwks_age_seconds{issuer="aunt"} 60.5"#, #"tollgate_jwks_keys{issuer="aunt"} 3"#,
            #"tollgate_jwks_fetches_total{issuer="gone",result="invalid"} 1"#, #"tollgate_jwks_keys{issuer="gone"} 0"#,
        ] { #expect(shown.contains(line), "\(line)") }
        #expect(!shown.contains { $0.hasPrefix(#"tollgate_jwks_age_seconds{issuer="gone""#) })
        process.keepIssuers(["aunt"])
        shown = Set(samples([], process))
        #expect(!shown.contains { $0.contains("gone") })
    }

    @Test func clockSkewIsReportedOnceAndShown() throws {
        var process = ProcessMetrics(build: BuildInfo(version: "1.2", commit: "0af", swift: "6.3.1"))
        let now = WallTime(seconds: 1_700_000_010)
        // The other clock, and whether the warning changes.
        let readings: [(seconds: Int64, change: ClockSkews.Change)] = [
            (1_700_000_010, .none), (1_700_000_005, .none), (1_700_000_003, .differs), (1_600_000_000, .none),
            (1_700_000_016, .none), (1_700_000_010, .agrees), (1_700_000_016, .differs), (1_700_000_013, .agrees),
        ]
        for (seconds, change) in readings {
            let skew = try #require(ClockSkews.skew(of: WallTime(seconds: seconds), at: now))
            #expect(process.clocks.read("jwks:aunt", skew: skew) == change, "\(seconds)")
        }
        _ = process.clocks.read("upstream:u", skew: 9_500_000)
        let shown = samples([], process)
        #expect(shown.contains(#"tollgate_clock_skew_seconds{source="jwks:aunt"} -3.5"#))
        #expect(shown.contains(#"tollgate_clock_skew_seconds{source="upstream:u"} 9.5"#))
        process.clocks.keep(["upstream:u"])
        #expect(!samples([], process).contains { $0.contains("aunt") })
    }

    @Test func whatIsClosedAndTheKeysAreShown() {
        var process = ProcessMetrics(build: BuildInfo(version: "1.2", commit: "0af", swift: "6.3.1"))
        #expect(!samples([], process).contains { $0.hasPrefix("tollgate_maintenance") || $0.hasPrefix("tollgate_api_keys") })
        (process.closed, process.apiKeys) = (["contracts", "route/feed"], 0)
        let shown = samples([], process)
        for line in [
            #"tollgate_maintenance{scope="contracts"} 1"#, #"tollgate_maintenance{scope="route/feed"} 1"#, "tollgate_api_keys 0",
        ] { #expect(shown.contains(line), "\(line)") }
    }

    @Test func evictedCountsAreShown() {
        var process = ProcessMetrics(build: BuildInfo(version: "1.2", commit: "0af", swift: "6.3.1"))
        #expect(samples([], process).contains("tollgate_ratelimit_evictions_total 0"))
        process.limitEvictions = 12
        #expect(samples([], process).contains("tollgate_ratelimit_evictions_total 12"))
    }

    @Test func theLagOfChangesIsShown() {
        var process = ProcessMetrics(build: BuildInfo(version: "1.2", commit: "0af", swift: "6.3.1"))
        #expect(!samples([], process).contains { $0.hasPrefix("tollgate_bus_connected") })
        process.bus.carrier = "redis"
        for lag: Int64 in [-5, 400, 900_000, 99_000_000] { process.bus.applied(lag: lag) }
        process.bus.messages = 7
        let shown = samples([], process)
        let expected = [
            #"tollgate_bus_lag_seconds_bucket{le="0.0005"} 2"#, #"tollgate_bus_lag_seconds_bucket{le="0.5"} 2"#,
            #"tollgate_bus_lag_seconds_bucket{le="1"} 3"#, #"tollgate_bus_lag_seconds_bucket{le="10"} 3"#,
            #"tollgate_bus_lag_seconds_bucket{le="+Inf"} 4"#, "tollgate_bus_lag_seconds_sum 99.9004", "tollgate_bus_lag_seconds_count 4",
            #"tollgate_bus_connected{carrier="redis"} 0"#, #"tollgate_bus_messages_total{result="heard"} 7"#,
        ]
        for line in expected { #expect(shown.contains(line), "\(line)") }
    }

    @Test func purchasesAndStoreEventsAreCounted() {
        var process = sampleProcess
        process.purchases.claimed(source: "apple", verdict: "bound")
        process.purchases.claimed(source: "apple", verdict: "bound")
        process.purchases.notified(source: "apple", type: "DID_RENEW/BILLING_RECOVERY", verdict: "applied")
        process.purchases.notified(source: "google", type: nil, verdict: "not-authentic")
        for type in ["", "a b", String(repeating: "a", count: 65), "é"] {
            process.purchases.notified(source: "stripe", type: type, verdict: "kept")
        }
        // Types without number do not make series without number.
        for number in 0..<100 { process.purchases.notified(source: "revenuecat", type: "T\(number)", verdict: "kept") }
        process.purchases.kept(lagMilliseconds: -5)
        process.purchases.kept(lagMilliseconds: 20_000)
        process.purchases.kept(source: "apple", at: WallTime(seconds: 20))
        process.purchases.kept(source: "apple", at: WallTime(seconds: 10))
        process.purchases.fenced(milliseconds: 40, isEverywhere: true)
        process.purchases.fenced(milliseconds: 1_000, isEverywhere: false)
        process.merges[MergeCount.untaken.rawValue] += 1
        process.events.settled("apple_tokens", result: "revoked", 2)
        process.events.waiting("apple_tokens", 3, since: WallTime(seconds: 7))
        process.events.waiting("notices", 0, since: nil)
        let text = samples([], process)
        let expected = [
            #"tollgate_account_merges_total{outcome="made"} 0"#, #"tollgate_account_merges_total{outcome="untaken"} 1"#,
            #"tollgate_purchases_total{source="apple",verdict="bound"} 2"#,
            #"tollgate_store_events_total{source="apple",type="DID_RENEW",verdict="applied"} 1"#,
            #"tollgate_store_events_total{source="google",type="unread",verdict="not-authentic"} 1"#,
            #"tollgate_store_events_total{source="stripe",type="other",verdict="kept"} 4"#,
            #"tollgate_store_events_total{source="revenuecat",type="other",verdict="kept"} 36"#,
            #"tollgate_store_event_lag_seconds_bucket{le="0.1"} 1"#, #"tollgate_store_event_lag_seconds_bucket{le="30"} 2"#,
            "tollgate_store_event_lag_seconds_sum 20", #"tollgate_store_event_newest_timestamp_seconds{source="apple"} 20"#,
            #"tollgate_purchase_fence_seconds_bucket{le="0.05"} 1"#, #"tollgate_purchase_fence_seconds_bucket{le="1"} 2"#,
            "tollgate_purchase_fence_incomplete_total 1", #"tollgate_outgoing_total{queue="apple_tokens",result="revoked"} 2"#,
            #"tollgate_outgoing_total{queue="apple_tokens",result="given_up"} 0"#,
            #"tollgate_outgoing_waiting{queue="apple_tokens"} 3"#, #"tollgate_outgoing_waiting{queue="notices"} 0"#,
            #"tollgate_outgoing_oldest_timestamp_seconds{queue="apple_tokens"} 7"#,
        ]
        for line in expected { #expect(text.contains(line), "\(line)") }
        #expect(text.count { $0.contains(#"source="revenuecat""#) } == 65)
    }

    @Test func aRouteWithoutRequestsHasNoHistogram() {
        let labels = sampleLabels()
        var metrics = WorkerMetrics(labels)
        metrics.requestStarted()
        metrics.requestFinished(
            route: labels.routes[1], method: 0, statusCode: 200, tier: .none, durationMicros: 0, bytesIn: 0, bytesOut: 0)
        metrics.upstreamHealthy(upstream: labels.upstreams[0], addresses: 1)
        let shown = samples([metrics.snapshot()])
        for name in ["http_request_duration_seconds", "http_request_size_bytes", "http_response_size_bytes"] {
            #expect(
                shown.contains { $0.hasPrefix("tollgate_\(name)_bucket{route=\"export\"") },
                "one that took no time is a request all the same")
            #expect(!shown.contains { $0.hasPrefix("tollgate_\(name)") && $0.contains("passages") })
        }
        #expect(!shown.contains { $0.hasPrefix("tollgate_upstream_duration_seconds") })
        #expect(shown.contains { $0.hasPrefix("tollgate_redis_command_seconds_count") }, "those without labels stay")
        #expect(shown.contains { $0.hasPrefix(#"tollgate_upstream_healthy{upstream="content"}"#) })
    }
}
