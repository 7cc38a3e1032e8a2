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
        shared!.redis.timedOut(now.monotonic, loop)
        readResults()
        shared!.limitClient.expire(now.monotonic)
        shared!.lookAfterStore(now.monotonic)
        shared!.sendHeartbeat(now.monotonic)
        // A resumed request may be followed by a pipelined one, and a command that cannot be sent is decided at once.
        repeat {
            giveVerdicts(&scratch)
            let sent = shared!.sendCommands(now.monotonic)
            if sent > 0 { telemetry.metrics.redisBatch(sent) }
        } while giveVerdicts(&scratch)
        shared!.redis.flush(now.monotonic, loop)
        if let change = shared!.redis.takeChange() { services.redisChanged(id, change) }
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

    private mutating func readResults() {
        while let result = shared!.redis.next(now.monotonic) {
            if result.tag == SharedCounting.heartbeatTag {
                heartbeatEnded(result.outcome)
            } else if SharedCounting.isAsked(result.tag) {
                let name = shared!.askedEnded(result.tag, isAnswered: result.outcome.isAnswered)
                if let name { telemetry.metrics.redisCommand(name, result.outcome.metric, nanoseconds: nil) }
            } else {
                takeEnded(result)
            }
        }
    }

    private mutating func heartbeatEnded(_ outcome: RedisOutcome) {
        telemetry.metrics.redisCommand(.heartbeat, outcome.metric, nanoseconds: nil)
        if outcome.isAnswered { shared!.readCensus() }
    }

    private mutating func takeEnded(_ result: RedisResult) {
        let isAnswered = result.outcome.isAnswered
        let sentAt = shared!.limitClient.inFlight(result.tag)?.at
        telemetry.metrics.redisCommand(
            .take, result.outcome.metric,
            nanoseconds: isAnswered ? sentAt.map { now.monotonic.nanoseconds(since: $0) } : nil)
        guard isAnswered, var replies = shared!.chargeReplies() else { return shared!.takeFailed(result.tag, now.monotonic) }
        var next = Optional(result.tag)
        while let id = next, let asked = shared!.limitClient.inFlight(id) {
            guard var reply = shared!.nextReply(&replies, counts: asked.counts, isLast: asked.next == nil) else {
                return shared!.takeFailed(id, now.monotonic)
            }
            if reply.granted > asked.waiting { telemetry.metrics.rateLimitLeased(Int(reply.granted - asked.waiting)) }
            shared!.limitClient.answered(id, &reply, now: now.monotonic)
            next = asked.next
        }
    }
}

extension SharedCounting {
    /// Reads the reply to a heartbeat.
    fileprivate mutating func readCensus() {
        if let count = GatewayHeartbeat.gateways(redis.reader.reply.integer(0)) { gateways.value = count }
    }

    /// The replies to a call of charges; nil if the reply holds none.
    fileprivate mutating func chargeReplies() -> GCRAReplies? { GCRAReplies(redis.reader.reply.bytes(0)) }

    /// The next of them; nil if there is none.
    fileprivate mutating func nextReply(_ replies: inout GCRAReplies, counts: Int, isLast: Bool) -> GCRAReply? {
        guard let reply = replies.next(counts: counts, redis.reader.reply.bytes(0)), replies.isAtEnd == isLast else { return nil }
        return reply
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
