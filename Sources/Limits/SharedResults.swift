import Gate
import Redis
import Telemetry
import Wire

extension SharedCounting {
    /// Reads Redis's replies.
    mutating func readResults(_ now: MonotonicTime, _ metrics: inout WorkerMetrics) {
        while let result = nodes.next(now) {
            if result.isLate {
                if Self.isTake(result.tag) { readTakes(result, now, &metrics) }
            } else if result.tag == Self.probeTag {
                nodes.saw(result.outcome)
            } else if result.tag == Self.surplusTag {
                metrics.redisCommand(.refund, result.outcome.metric, nanoseconds: nil)
            } else if result.tag == Self.heartbeatTag {
                metrics.redisCommand(.heartbeat, result.outcome.metric, nanoseconds: nil)
                if result.outcome.isAnswered { readCensus() } else if isCluster { nodes.saw(result.outcome) }
            } else if Self.isAsked(result.tag) {
                let name = askedEnded(result, now)
                if let name { metrics.redisCommand(name, result.outcome.metric, nanoseconds: nil) }
            } else if isCluster {
                callEnded(result, now, &metrics)
            } else {
                takeEnded(result, now, &metrics)
            }
        }
    }

    /// Reads the reply to a heartbeat.
    private mutating func readCensus() {
        if let count = GatewayHeartbeat.gateways(nodes.integer(0)) { gateways.value = count }
    }

    private mutating func takeEnded(_ result: RedisResult, _ now: MonotonicTime, _ metrics: inout WorkerMetrics) {
        let isAnswered = result.outcome.isAnswered
        let sentAt = limitClient.inFlight(result.tag)?.at
        metrics.redisCommand(
            .take, result.outcome.metric, nanoseconds: isAnswered ? sentAt.map { now.nanoseconds(since: $0) } : nil)
        // It stays in flight: its late reply says what Redis has counted. Its requests reach their own deadlines.
        if result.outcome != .late { readTakes(result, now, &metrics) }
    }

    /// The end of a call of charges, in time or late.
    private mutating func readTakes(_ result: RedisResult, _ now: MonotonicTime, _ metrics: inout WorkerMetrics) {
        guard result.outcome.isAnswered, var replies = GCRAReplies(nodes.bytes(0)) else { return takeFailed(result.tag, now) }
        var next = Optional(result.tag)
        while let id = next, let asked = limitClient.inFlight(id) {
            guard var reply = replies.next(counts: asked.counts, nodes.bytes(0)), replies.isAtEnd == (asked.next == nil)
            else { return takeFailed(id, now) }
            metrics.rateLimitLeased(Int(limitClient.answered(id, &reply, now: now)))
            next = asked.next
        }
    }
}

extension RedisOutcome {
    /// The metrics' label value.
    var metric: RedisCommandResult {
        switch self {
        case .answered: .ok
        case .refused: .error
        case .late, .lost: .noAnswer
        }
    }
}
