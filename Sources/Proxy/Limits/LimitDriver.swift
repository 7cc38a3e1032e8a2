import Gate
import HTTP
import Redis
import Telemetry
import Transport
import Wire

/// Applies rate limits: in process at once, or with other gateways when Redis has answered.
extension Worker {
    /// Charges the request that `scratch.decision` admits but for its limits.
    ///
    /// - Returns: nil if the limits have decided; otherwise the request must wait for Redis.
    mutating func charge(_ exchange: ExchangeIndex, _ scratch: inout Scratch) -> LimitWait? {
        guard shared != nil else {
            admission.count(&scratch.decision, at: now.monotonic)
            return nil
        }
        let wait = shared!.limitClient.charge(
            &scratch.decision.charge, ticket: exchanges.handle(exchange).bits, now: now.monotonic,
            into: &scratch.decision.limitVerdict)
        if wait == nil { admission.charged(&scratch.decision) }
        return wait
    }

    // MARK: each turn

    /// The shared limits' part of a turn: reads Redis's replies, resumes requests, and sends the commands of new ones.
    mutating func shareCounts(_ scratch: inout Scratch) {
        guard shared != nil else { return }
        shared!.nodes.timedOut(now.monotonic, loop)
        shared!.readResults(now.monotonic, &telemetry.metrics)
        shared!.limitClient.expire(now.monotonic)
        shared!.lookAfterStore(now.monotonic)
        shared!.sendHeartbeat(now.monotonic)
        shared!.sendParked(now.monotonic)
        // A resumed request may be followed by a pipelined one, and a command that cannot be sent is decided at once.
        repeat {
            giveVerdicts(&scratch)
            let sent = shared!.sendCommands(now.monotonic)
            if sent > 0 { telemetry.metrics.redisBatch(sent) }
        } while giveVerdicts(&scratch)
        shared!.nodes.flush(now.monotonic, loop)
        while let change = shared!.nodes.takeChange() { services.redisChanged(id, change) }
        if shared!.nodes.takeMapWanted(now.monotonic) { services.redisMapWanted() }
    }

    /// - Returns: whether there were any.
    @discardableResult
    private mutating func giveVerdicts(_ scratch: inout Scratch) -> Bool {
        guard shared!.limitClient.hasVerdicts else { return false }
        var verdict = LimitVerdict()
        var gave = false
        while let ticket = shared!.limitClient.nextVerdict(into: &verdict) {
            gave = true
            limited(Handle(bits: ticket), &verdict, &scratch)
        }
        return gave
    }
}

extension SharedCounting {
    /// Reads Redis's replies.
    fileprivate mutating func readResults(_ now: MonotonicTime, _ metrics: inout WorkerMetrics) {
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
