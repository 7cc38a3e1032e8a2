/// Metrics that workers count. A new one is a case, its row in `description`, and the method that feeds it.
enum MetricFamily: Int, CaseIterable {
    case requests, refusals, requestDuration, requestsInFlight, requestSize, responseSize, overhead
    case connections, connectionsAccepted, tlsHandshakes, http2Streams, http2Ends, overloadSheds
    case upstreamRequests, upstreamDuration, upstreamConnections, upstreamRetries, upstreamHealthy, upstreamEjections
    case upstreamEjected, upstreamPanic, upstreamRefusals, upstreamInFlight
    case checks, mirrored
    case authDecisions, tokenVerifications, tokenVerificationDuration
    case tokenCacheHits, tokenCacheMisses, tokenCacheEvictions, tokenCacheEntries, unknownKeyIDs, attestations
    case filterItems, filterFailures
    case compressedAnswers, compressedBytesIn, compressedBytesOut, compressionSkips
    case cacheRequests, cacheEntries, cacheBytes, cacheEvictions, cachePurges
    case streamsOpen, streamsEnded
    case refreshes, refreshSources
    case rateLimitDecisions, rateLimitLeased, rateLimitFallback
    case redisCommands, redisDuration, redisBatchSize, redisBreaker, redisNodes, redisRedirects
}

/// Name, kind and labels of a family.
struct FamilyDescription {
    var name: String
    var kind: Kind
    /// At most four.
    var dimensions: [MetricDimension]
    var help: String

    enum Kind: Equatable {
        /// Counts, 1 to 1,024.
        case counter
        /// Summed over the workers.
        case gauge
        /// Minimum over the workers.
        case lowestGauge
        /// Maximum over the workers.
        case highestGauge
        case histogram(HistogramScale)
    }

    init(_ name: String, _ kind: Kind, _ dimensions: [MetricDimension], _ help: String) {
        self.name = "tollgate_" + name
        self.kind = kind
        self.dimensions = dimensions
        self.help = help
    }

    /// Cells per series.
    var width: Int {
        switch kind {
        case .counter, .gauge, .lowestGauge, .highestGauge: 1
        case .histogram(let scale): scale.width
        }
    }
}

extension MetricFamily {
    var description: FamilyDescription {
        switch self {
        case .requests:
            .init("http_requests_total", .counter, [.route, .method, .codeClass, .tier], "Requests answered.")
        case .refusals:
            .init(
                "refusals_total", .counter, [.route, .refusalCode],
                "Requests that the gateway refused or could not have answered, by the code of the refusal.")
        case .requestDuration:
            .init(
                "http_request_duration_seconds", .histogram(.latency), [.route],
                "Time from the first byte of a request to the last of its answer.")
        case .requestsInFlight:
            .init("http_requests_in_flight", .gauge, [], "Requests begun and not yet answered in full.")
        case .requestSize:
            .init("http_request_size_bytes", .histogram(.bytes), [.route], "Size of request heads and bodies.")
        case .responseSize:
            .init("http_response_size_bytes", .histogram(.bytes), [.route], "Size of answer heads and bodies.")
        case .overhead:
            .init("overhead_seconds", .histogram(.work), [.phase], "Time the gateway itself spent on a request.")
        case .connections:
            .init("connections", .gauge, [.connectionState], "Client connections open now.")
        case .connectionsAccepted:
            .init("connections_accepted_total", .counter, [], "Client connections accepted.")
        case .tlsHandshakes:
            .init("tls_handshakes_total", .counter, [.handshake, .tlsVersion], "TLS handshakes with clients.")
        case .http2Streams:
            .init("http2_streams", .gauge, [], "Streams of clients' HTTP/2 connections open now.")
        case .http2Ends:
            .init(
                "http2_connections_ended_total", .counter, [.http2End],
                "HTTP/2 connections that the gateway ended because the client broke a rule or a bound, by which.")
        case .overloadSheds:
            .init(
                "overload_sheds_total", .counter, [.overload],
                "Requests refused at once because a bound of the gateway was reached, by which; for connections, pauses of accepting.")
        case .upstreamRequests:
            .init(
                "upstream_requests_total", .counter, [.upstream, .upstreamCodeClass],
                "Attempts to have a request answered by an upstream, by its status; error without one, cancelled if the client left or the gateway answered before."
            )
        case .upstreamDuration:
            .init(
                "upstream_duration_seconds", .histogram(.latency), [.upstream],
                "Time from an attempt's begin to the head of the upstream's answer, or to its end without one.")
        case .upstreamConnections:
            .init("upstream_connections", .gauge, [.upstream, .upstreamState], "Connections to upstreams open now.")
        case .upstreamRetries:
            .init("upstream_retries_total", .counter, [.upstream, .retryReason], "Requests sent to an upstream again.")
        case .upstreamHealthy:
            .init(
                "upstream_healthy", .lowestGauge, [.upstream],
                "Addresses of an upstream that get requests, as the worker that sees the fewest has it.")
        case .upstreamEjections:
            .init("upstream_ejections_total", .counter, [.upstream, .ejectionReason], "Addresses ejected, and why.")
        case .upstreamEjected:
            .init("upstream_ejected", .highestGauge, [.upstream], "Addresses of an upstream that are ejected now.")
        case .upstreamPanic:
            .init(
                "upstream_panic", .highestGauge, [.upstream],
                "1 while so few addresses of an upstream are available that all are used.")
        case .upstreamRefusals:
            .init(
                "upstream_refused_total", .counter, [.upstream, .upstreamBound],
                "Requests that were refused, or not retried, because of a bound of the upstream, and which.")
        case .upstreamInFlight:
            .init("upstream_requests_in_flight", .gauge, [.upstream], "Requests to an upstream under way.")
        case .checks:
            .init(
                "forward_auth_checks_total", .counter, [.checkKind, .codeClass],
                "Requests that a proxy had checked, by the endpoint and the verdict. They are among the requests, too.")
        case .mirrored:
            .init(
                "mirrored_requests_total", .counter, [.route, .mirrorOutcome],
                "Copies of requests for another upstream (mirror=): answered, failed, or dropped because there was no room or the content was too large."
            )
        case .authDecisions:
            .init("auth_decisions_total", .counter, [.route, .authOutcome, .authReason], "Who may pass, and why not.")
        case .tokenVerifications:
            .init(
                "token_verifications_total", .counter, [.algorithm, .result],
                "Tokens verified, or refused again for the same bad signature; cache hits are none.")
        case .tokenVerificationDuration:
            .init("token_verification_seconds", .histogram(.work), [.algorithm], "Time to verify one token.")
        case .tokenCacheHits:
            .init("token_cache_hits_total", .counter, [], "Tokens found verified.")
        case .tokenCacheMisses:
            .init("token_cache_misses_total", .counter, [], "Tokens not found verified.")
        case .tokenCacheEvictions:
            .init("token_cache_evictions_total", .counter, [], "Verified tokens dropped to make room.")
        case .tokenCacheEntries:
            .init("token_cache_entries", .gauge, [], "Verified tokens kept.")
        case .unknownKeyIDs:
            .init("jwks_unknown_kid_total", .counter, [.issuer], "Tokens that name a key which their issuer's set lacks.")
        case .attestations:
            .init(
                "attestations_total", .counter, [.route, .authReason],
                "Requests of routes that ask for an attestation of the app, by what it came to: ok where it holds.")
        case .filterItems:
            .init(
                "filter_items_total", .counter, [.route, .filterAction],
                "Elements that the tier filter judged: kept and dropped, or shadow_dropped where it only watches; and how many of both had no tier, and left for that."
            )
        case .filterFailures:
            .init("filter_failures_total", .counter, [.filterFailure], "Answers that the tier filter refused or cut.")
        case .compressedAnswers:
            .init("compress_answers_total", .counter, [.route, .contentCoding], "Answers that the gateway has compressed.")
        case .compressedBytesIn:
            .init("compress_bytes_in_total", .counter, [.contentCoding], "Content of these answers before they were compressed.")
        case .compressedBytesOut:
            .init("compress_bytes_out_total", .counter, [.contentCoding], "Content of these answers as it was sent.")
        case .compressionSkips:
            .init(
                "compress_skipped_total", .counter, [.route, .compressionSkip],
                "Answers of routes with compression that went out as they were, by the reason.")
        case .cacheRequests:
            .init("cache_requests_total", .counter, [.route, .cacheResult], "Requests on cached routes, by how they were answered.")
        case .cacheEntries:
            .init("cache_entries", .gauge, [], "Answers that are stored.")
        case .cacheBytes:
            .init("cache_bytes", .gauge, [], "Bytes that stored answers take, with their heads and keys.")
        case .cacheEvictions:
            .init("cache_evictions_total", .counter, [], "Stored answers dropped to make room.")
        case .cachePurges:
            .init("cache_purged_total", .counter, [], "Stored answers that operators have removed.")
        case .streamsOpen:
            .init(
                "streams_open", .gauge, [.route, .streamKind],
                "Streams open now: WebSockets, event streams, gRPC calls of more than a second, other answers of more than a minute.")
        case .streamsEnded:
            .init("streams_ended_total", .counter, [.route, .streamKind, .streamEnd], "Streams that ended, and why.")
        case .refreshes:
            .init("refresh_total", .counter, [.refreshResult], "Expired tokens of internal callers, and what came of refreshing them.")
        case .refreshSources:
            .init("refresh_singleflight_total", .counter, [.refreshSource], "Whose work those refreshes were.")
        case .rateLimitDecisions:
            .init("ratelimit_decisions_total", .counter, [.policy, .limitOutcome, .limitSource], "Verdicts of rate limits.")
        case .rateLimitLeased:
            .init("ratelimit_leased_tokens_total", .counter, [], "Grants taken from Redis in advance, for limits with +lease.")
        case .rateLimitFallback:
            .init("ratelimit_fallback_active", .highestGauge, [], "1 while limits are judged without Redis.")
        case .redisCommands:
            .init("redis_commands_total", .counter, [.redisCommand, .redisResult], "Commands to Redis.")
        case .redisDuration:
            .init("redis_command_seconds", .histogram(.work), [], "Time from a command to its answer.")
        case .redisBatchSize:
            .init("redis_batch_size", .histogram(.count), [], "Charges of requests that went to Redis in one write.")
        case .redisBreaker:
            .init("redis_breaker_state", .highestGauge, [], "0 closed, 1 half open, 2 open: Redis, or a node of it, is not asked.")
        case .redisNodes:
            .init("redis_nodes", .highestGauge, [.redisNode], "Primaries of Redis: one, or those of a cluster.")
        case .redisRedirects:
            .init(
                "redis_redirects_total", .counter, [.redisRedirect],
                "Calls that a node of a cluster did not serve, and that were sent again.")
        }
    }
}

/// Bucket bounds of a histogram, in the unit of its observations.
enum HistogramScale: Equatable {
    /// Microseconds, 0.5 ms to 10 s.
    case latency
    /// Nanoseconds, 0.5 µs to 10 ms.
    case work
    /// Bytes, 256 to 64 MiB.
    case bytes
    /// Things, 1 to 1,024.
    case count

    static let latencyBounds: [UInt64] = [
        500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
        10_000_000,
    ]
    static let byteBounds: [UInt64] = [
        1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26,
    ]
    static let countBounds: [UInt64] = (0...10).map { 1 << $0 }

    /// Upper bound of each bucket, inclusive; one more bucket has none.
    var bounds: [UInt64] {
        switch self {
        case .latency, .work: Self.latencyBounds
        case .bytes: Self.byteBounds
        case .count: Self.countBounds
        }
    }

    /// One cell per bucket, one for values above all bounds, and one for the sum.
    var width: Int { bounds.count + 2 }

    /// Decimal places of a value in seconds or bytes.
    var decimals: Int {
        switch self {
        case .latency: 6
        case .work: 9
        case .bytes, .count: 0
        }
    }
}
