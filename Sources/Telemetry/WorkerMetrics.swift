package import Wire

/// Counters and histograms of one worker: owned by its thread, without locks, and without allocation except when the
/// configuration changes.
///
/// One method per event; label values are passed as numbers. Other threads ask the worker for a `snapshot()`.
package struct WorkerMetrics: ~Copyable {
    private let pin = AddressPin()
    private var labels: MetricLabels
    private var layout: MetricLayout
    private var cells: UniqueArray<UInt64>
    private var exemplars = Exemplars()

    package init(_ labels: MetricLabels) {
        self.labels = labels
        layout = MetricLayout(labels)
        cells = UniqueArray(Self.zeros(layout))
    }

    /// Switches to the labels of a new configuration, which continue the current ones. Totals and `LabelID`s stay valid, so
    /// a request of the old configuration may still end under its own name.
    package mutating func adopt(_ newer: MetricLabels) {
        labels = newer
        let newLayout = MetricLayout(newer)
        // Without new names every cell stays where it is.
        if newLayout != layout {
            var newCells = Self.zeros(newLayout)
            newLayout.add(counted, from: layout, to: &newCells)
            layout = newLayout
            cells = UniqueArray(newCells)
        }
        clearGaugesOfRemovedUpstreams()
    }

    /// The connections that a removed upstream still has count under no name, so nothing would set its gauges again.
    private mutating func clearGaugesOfRemovedUpstreams() {
        for family in [MetricFamily.upstreamConnections, .upstreamEjected, .upstreamPanic, .upstreamInFlight] {
            let shape = layout[family]
            for series in 0..<shape.seriesCount where !labels.upstreams.isCurrent(shape.values(ofSeries: series).0) {
                cells[shape.base + series] = 0
            }
        }
    }

    /// Copies all numbers for another thread.
    package func snapshot() -> MetricsSnapshot {
        MetricsSnapshot(labels: labels, layout: layout, cells: counted, exemplars: exemplars)
    }

    /// A copy of all cells.
    private var counted: [UInt64] { (0..<cells.count).map { cells[$0] } }

    /// Initial cells; the maximum for a lowest gauge, which means unset.
    static func zeros(_ layout: MetricLayout) -> [UInt64] {
        var cells = [UInt64](repeating: 0, count: layout.cellCount)
        let shape = layout[.upstreamHealthy]
        for series in 0..<shape.seriesCount { cells[shape.base + series] = .max }
        return cells
    }

    @inline(__always)
    private mutating func add(_ amount: UInt64, _ family: MetricFamily, _ a: Int = 0, _ b: Int = 0, _ c: Int = 0, _ d: Int = 0) {
        cells[layout[family].cell(a, b, c, d)] &+= amount
    }

    @inline(__always)
    private mutating func observe(_ value: UInt64, _ family: MetricFamily, _ bounds: [UInt64], _ a: Int) {
        let cell = layout[family].cell(a)
        var bucket = 0
        while bucket < bounds.count && value > bounds[bucket] { bucket &+= 1 }
        cells[cell &+ bucket] &+= 1
        cells[cell &+ bounds.count &+ 1] &+= value
    }
}

// MARK: Requests and connections of clients

extension WorkerMetrics {
    /// The first byte of a request arrived.
    package mutating func requestStarted() { add(1, .requestsInFlight) }

    /// The last byte of an answer was sent, or the exchange was aborted. `method` is an index into the methods given to the
    /// labels, nil without a valid head; `statusCode` is 0 if no answer began; sizes in bytes include heads.
    package mutating func requestFinished(
        route: LabelID, method: Int?, statusCode: Int, tier: LabelID, durationMicros: UInt64, bytesIn: UInt64,
        bytesOut: UInt64
    ) {
        add(.max, .requestsInFlight)
        add(1, .requests, route.index, (method ?? -1) + 1, Self.codeClass(statusCode), tier.index)
        observe(durationMicros, .requestDuration, HistogramScale.latencyBounds, route.index)
        observe(bytesIn, .requestSize, HistogramScale.byteBounds, route.index)
        observe(bytesOut, .responseSize, HistogramScale.byteBounds, route.index)
    }

    /// The request that finished last is recorded as this span.
    package mutating func requestRecorded(route: LabelID, durationMicros: UInt64, as context: TraceContext, at now: WallTime) {
        exemplars.note(Exemplar(context: context, micros: durationMicros, at: now), route: route.index)
    }

    /// A request of the route was refused; `code` is an index into the codes given to the labels.
    package mutating func refused(route: LabelID, code: Int) { add(1, .refusals, route.index, code) }

    /// The gateway's own time for one phase of a request. Sampled, because reading clocks costs time too.
    package mutating func overhead(_ phase: OverheadPhase, nanoseconds: UInt64) {
        observe(nanoseconds, .overhead, HistogramScale.latencyBounds, phase.rawValue)
    }

    /// A request that a proxy had checked was answered.
    package mutating func checked(_ kind: CheckKind, statusCode: Int) { add(1, .checks, kind.rawValue, Self.codeClass(statusCode)) }

    package mutating func connectionAccepted() { add(1, .connectionsAccepted) }

    /// Number of client connections in this state.
    package mutating func connections(_ state: ConnectionState, _ count: Int) {
        cells[layout[.connections].cell(state.rawValue)] = UInt64(clamping: count)
    }

    /// Number of streams of HTTP/2 clients.
    package mutating func http2Streams(_ count: Int) { cells[layout[.http2Streams].cell(0)] = UInt64(clamping: count) }

    package mutating func tlsHandshake(_ result: HandshakeResult, _ version: HandshakeVersion) {
        add(1, .tlsHandshakes, result.rawValue, version.rawValue)
    }

    /// The gateway ended an HTTP/2 connection.
    package mutating func http2Ended(_ reason: HTTP2EndReason) { add(1, .http2Ends, reason.rawValue) }

    /// A copy of a request of this route is over, or was not made.
    package mutating func mirrored(route: LabelID, _ outcome: MirrorOutcome) { add(1, .mirrored, route.index, outcome.rawValue) }

    /// A request was refused because of a bound, or accepting paused.
    package mutating func shed(_ reason: OverloadReason) { add(1, .overloadSheds, reason.rawValue) }

    /// 1 to 5 for a status, 0 for none.
    private static func codeClass(_ statusCode: Int) -> Int {
        statusCode >= 100 && statusCode < 600 ? statusCode / 100 : 0
    }
}

// MARK: Upstreams

extension WorkerMetrics {
    /// An attempt ended; `statusCode` is 0 without a valid answer.
    package mutating func upstreamFinished(upstream: LabelID, statusCode: Int, durationMicros: UInt64) {
        add(1, .upstreamRequests, upstream.index, Self.codeClass(statusCode))
        observe(durationMicros, .upstreamDuration, HistogramScale.latencyBounds, upstream.index)
    }

    /// An attempt was given up before an answer began.
    package mutating func upstreamCancelled(upstream: LabelID, durationMicros: UInt64) {
        add(1, .upstreamRequests, upstream.index, MetricDimension.cancelledAttempt)
        observe(durationMicros, .upstreamDuration, HistogramScale.latencyBounds, upstream.index)
    }

    /// Number of connections to the upstream in this state.
    package mutating func upstreamConnections(upstream: LabelID, _ state: UpstreamConnectionState, _ count: Int) {
        cells[layout[.upstreamConnections].cell(upstream.index, state.rawValue)] = UInt64(clamping: count)
    }

    package mutating func upstreamRetry(upstream: LabelID, _ reason: RetryReason) {
        add(1, .upstreamRetries, upstream.index, reason.rawValue)
    }

    /// An address of the upstream was ejected.
    package mutating func upstreamEjected(upstream: LabelID, _ reason: EjectionReason) {
        add(1, .upstreamEjections, upstream.index, reason.rawValue)
    }

    /// A request was refused, or not retried.
    package mutating func upstreamRefused(upstream: LabelID, _ bound: UpstreamBound) {
        add(1, .upstreamRefusals, upstream.index, bound.rawValue)
    }

    /// The upstream as this worker has it: its ejected addresses, whether it panics, and the requests under way.
    package mutating func upstreamState(upstream: LabelID, ejected: Int, isPanicking: Bool, requests: Int) {
        cells[layout[.upstreamEjected].cell(upstream.index)] = UInt64(clamping: ejected)
        cells[layout[.upstreamPanic].cell(upstream.index)] = isPanicking ? 1 : 0
        cells[layout[.upstreamInFlight].cell(upstream.index)] = UInt64(clamping: requests)
    }

    /// Number of the upstream's addresses that get requests from this worker.
    package mutating func upstreamHealthy(upstream: LabelID, addresses: Int) {
        cells[layout[.upstreamHealthy].cell(upstream.index)] = UInt64(clamping: addresses)
    }
}

// MARK: Decisions

extension WorkerMetrics {
    /// A request was authenticated. `outcome` and `reason` are indices into the lists given to the labels.
    package mutating func authDecision(route: LabelID, outcome: Int, reason: Int) {
        add(1, .authDecisions, route.index, outcome, reason)
    }

    /// A token was verified, without a cache hit. `algorithm` is an index into the algorithms given to the labels, nil if
    /// the token has no valid one; `reason` one into the reasons.
    package mutating func tokenVerified(algorithm: Int?, reason: Int, nanoseconds: UInt64) {
        let algorithm = (algorithm ?? -1) + 1
        add(1, .tokenVerifications, algorithm, reason)
        observe(nanoseconds, .tokenVerificationDuration, HistogramScale.latencyBounds, algorithm)
    }

    package mutating func tokenCacheHit() { add(1, .tokenCacheHits) }
    package mutating func tokenCacheMiss() { add(1, .tokenCacheMisses) }
    /// Tokens evicted from this worker's cache so far.
    package mutating func tokenCacheEvictions(_ count: UInt64) { cells[layout[.tokenCacheEvictions].cell(0)] = count }

    /// Tokens in this worker's cache.
    package mutating func tokenCacheHolds(_ entries: Int) {
        cells[layout[.tokenCacheEntries].cell(0)] = UInt64(clamping: entries)
    }

    /// A token names a key that its issuer's set lacks.
    package mutating func unknownKeyID(issuer: LabelID) { add(1, .unknownKeyIDs, issuer.index) }

    /// An attestation was judged, for this reason.
    package mutating func attested(route: LabelID, reason: Int) { add(1, .attestations, route.index, reason) }

    /// A tier filter judged an answer; `unlabelled` and `droppedUnlabelled` elements are included in the other counts.
    package mutating func filtered(
        route: LabelID, kept: UInt64, dropped: UInt64, unlabelled: UInt64, droppedUnlabelled: UInt64, isShadow: Bool
    ) {
        add(kept, .filterItems, route.index, FilterAction.kept.rawValue)
        let left: FilterAction = isShadow ? .shadowDropped : .dropped
        add(dropped, .filterItems, route.index, left.rawValue)
        add(unlabelled, .filterItems, route.index, FilterAction.unlabelled.rawValue)
        add(droppedUnlabelled, .filterItems, route.index, FilterAction.droppedUnlabelled.rawValue)
    }

    /// A tier filter refused or cut an answer.
    package mutating func filterFailed(_ reason: FilterFailureReason) { add(1, .filterFailures, reason.rawValue) }

    /// An answer was compressed, from so many bytes to so many.
    package mutating func compressed(route: LabelID, _ coding: CompressionCoding, from taken: Int, to handedOn: Int) {
        add(1, .compressedAnswers, route.index, coding.rawValue)
        add(UInt64(taken), .compressedBytesIn, coding.rawValue)
        add(UInt64(handedOn), .compressedBytesOut, coding.rawValue)
    }

    /// An answer of a route with compression was not compressed.
    package mutating func compressionSkipped(route: LabelID, _ reason: CompressionSkip) {
        add(1, .compressionSkips, route.index, reason.rawValue)
    }

    /// A request on a cached route was answered.
    package mutating func cached(route: LabelID, _ result: CacheResult) { add(1, .cacheRequests, route.index, result.rawValue) }

    /// The answers that this worker keeps, and how many it has dropped and was told to remove so far.
    package mutating func cacheHolds(entries: Int, bytes: Int, evicted: UInt64, purged: UInt64) {
        cells[layout[.cacheEntries].cell(0)] = UInt64(clamping: entries)
        cells[layout[.cacheBytes].cell(0)] = UInt64(clamping: bytes)
        cells[layout[.cacheEvictions].cell(0)] = evicted
        cells[layout[.cachePurges].cell(0)] = purged
    }

    /// The refresh of an expired token ended.
    package mutating func refreshed(_ result: RefreshResult, _ source: RefreshSource) {
        add(1, .refreshes, result.rawValue)
        add(1, .refreshSources, source.rawValue)
    }

    /// A limit of the route decided. `outcome` and `source` are indices into the lists given to the labels.
    package mutating func rateLimitDecision(route: LabelID, outcome: Int, source: Int) {
        add(1, .rateLimitDecisions, route.index, outcome, source)
    }

    /// Grants leased from Redis.
    package mutating func rateLimitLeased(_ count: Int) { add(UInt64(clamping: count), .rateLimitLeased) }

    /// Whether limits are decided without Redis.
    package mutating func rateLimitFallback(_ isActive: Bool) {
        cells[layout[.rateLimitFallback].cell(0)] = isActive ? 1 : 0
    }
}

// MARK: Streams

extension WorkerMetrics {
    /// A stream of the route has begun, or an answer has become one.
    package mutating func streamOpened(route: LabelID, _ kind: StreamKind) { add(1, .streamsOpen, route.index, kind.rawValue) }

    package mutating func streamEnded(route: LabelID, _ kind: StreamKind, _ reason: StreamEndReason) {
        add(.max, .streamsOpen, route.index, kind.rawValue)
        add(1, .streamsEnded, route.index, kind.rawValue, reason.rawValue)
    }
}

// MARK: Redis

extension WorkerMetrics {
    /// A command ended; without a reply it has no duration.
    package mutating func redisCommand(_ kind: RedisCommandKind, _ result: RedisCommandResult, nanoseconds: UInt64?) {
        add(1, .redisCommands, kind.rawValue, result.rawValue)
        if let nanoseconds { observe(nanoseconds, .redisDuration, HistogramScale.latencyBounds, 0) }
    }

    /// Number of charges in one write.
    package mutating func redisBatch(_ count: Int) {
        observe(UInt64(clamping: count), .redisBatchSize, HistogramScale.countBounds, 0)
    }

    /// A call is sent again.
    package mutating func redisRedirect(_ kind: RedisRedirectKind) { add(1, .redisRedirects, kind.rawValue) }

    package mutating func redisNodes(ready: Int, away: Int) {
        cells[layout[.redisNodes].cell(RedisNodeState.ready.rawValue)] = UInt64(clamping: ready)
        cells[layout[.redisNodes].cell(RedisNodeState.away.rawValue)] = UInt64(clamping: away)
    }

    /// 0 closed, 1 half open, 2 open.
    package mutating func redisBreaker(_ state: Int) {
        cells[layout[.redisBreaker].cell(0)] = UInt64(clamping: state)
    }
}
