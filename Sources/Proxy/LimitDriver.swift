import Gate
import HTTP
import Redis
import Telemetry
import Transport
import Wire

/// What of a request waits for its limits' answer.
struct AwaitedLimits {
    let wait: LimitWait
    let pending: PendingLimit
}

/// Lets limits decide: in process at once, with other gateways as soon as Redis has answered.
extension Worker {
    // MARK: asking

    /// Charges the request that `scratch.decision` admits but for its limits. Answers whether they have decided; if not, the
    /// caller makes the request wait.
    mutating func charge(_ client: Int, _ scratch: inout Scratch) -> LimitWait? {
        guard shared != nil else {
            admission.count(&scratch.decision, at: now.monotonic)
            return nil
        }
        let wait = shared!.ledger.charge(
            &scratch.decision.charge, ticket: clientHandle(client).bits, now: now.monotonic, into: &scratch.decision.limitVerdict)
        if wait == nil { admission.charged(&scratch.decision) }
        return wait
    }

    /// Makes ready what is to be done with the request once its limits admit it, and lets it wait.
    mutating func hold(_ client: Int, _ wait: LimitWait, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let exchange: Int?
        switch scratch.decision.verdict {
        case .forward(let upstream): exchange = prepareForward(client, upstream: upstream, &input, &scratch)
        case .local(let service): exchange = prepareLocal(client, services.local[Int(service)], &input, &scratch)
        // Limits come last: what is refused for something else, or not decided yet, is not charged.
        case .refuse, .lookUp, .refresh: preconditionFailure("a request that may not go on was charged")
        }
        guard let exchange else {
            shared!.ledger.cancel(wait)
            return refuse(client, .unavailable(.upstream, retryAfterSeconds: 1), &input, &scratch)
        }
        exchanges[exchange].awaited = AwaitedLimits(wait: wait, pending: admission.pendingLimit(&scratch.decision))
    }

    /// The request that waits has gone.
    mutating func cancelLimits(_ exchange: Int) {
        guard let awaited = exchanges[exchange].awaited.take() else { return }
        shared!.ledger.cancel(awaited.wait)
    }

    // MARK: answers

    /// The limits of the client's request have answered: it goes on, or is refused.
    private mutating func limitsAnswered(_ client: Handle, _ verdict: inout LimitVerdict, _ scratch: inout Scratch) {
        guard clients.isCurrent(client), !clients[Int(client.index)].exchange.isNone else { return }
        let exchange = Int(clients[Int(client.index)].exchange.index)
        guard let awaited = exchanges[exchange].awaited.take() else { return }
        var lines = ByteBuffer()
        swap(&lines, &exchanges[exchange].lines)
        let before = lines.count
        let outcome = awaited.pending.settle(&verdict, into: &lines)
        exchanges[exchange].saysLimits = lines.count > before
        swap(&lines, &exchanges[exchange].lines)
        noteLimit(exchange, outcome)
        exchanges[exchange].note.limited(outcome, &verdict)
        if let refusal = outcome.refusal {
            answer(exchange, with: refusal, &scratch)
        } else if exchanges[exchange].isLocal {
            beginHeldLocal(exchange, Int(client.index), &scratch)
        } else {
            beginHeldForward(exchange, Int(client.index), &scratch)
        }
        guard clients.isCurrent(client), !isBusy(Int(client.index)) else { return }
        continueReading(Int(client.index), &scratch)
    }

    /// Whether the client's request has been read whole and its answer not begun: then there is nothing to read on, as before
    /// the verdict.
    private func isBusy(_ client: Int) -> Bool {
        clients[client].phase == .open && clients[client].reading == .nothing && !clients[client].hasUnsent
    }

    // MARK: each turn

    /// What a turn of the loop has to do for shared counts: hears what Redis answered, lets requests go on, asks for those
    /// that came.
    mutating func shareCounts(_ scratch: inout Scratch) {
        guard shared != nil else { return }
        shared!.redis.timedOut(now.monotonic, loop)
        hearRedis()
        shared!.ledger.expire(now.monotonic)
        shared!.lookAfterStore(now.monotonic)
        shared!.sendCensus(now.monotonic)
        // A request that goes on may be followed by the next of its connection, and what cannot be asked is answered at once.
        repeat {
            giveVerdicts(&scratch)
            let sent = shared!.sendCommands(now.monotonic)
            if sent > 0 { telemetry.metrics.redisBatch(sent) }
        } while giveVerdicts(&scratch)
        shared!.redis.flush(now.monotonic, loop, &workspace)
        if let change = shared!.redis.takeChange() { services.redisChanged(id, change) }
    }

    /// - Returns: whether there were any.
    @discardableResult
    private mutating func giveVerdicts(_ scratch: inout Scratch) -> Bool {
        guard shared!.ledger.hasVerdicts else { return false }
        var verdict = LimitVerdict()
        var gave = false
        while let ticket = shared!.ledger.nextVerdict(into: &verdict) {
            gave = true
            limitsAnswered(Handle(bits: ticket), &verdict, &scratch)
        }
        return gave
    }

    private mutating func hearRedis() {
        while let result = shared!.redis.next(now.monotonic, &workspace) {
            if result.tag == SharedCounting.censusTag {
                censusEnded(result.outcome)
            } else if SharedCounting.isAsked(result.tag) {
                let name = shared!.askedEnded(result.tag, isAnswered: result.outcome.isAnswered)
                if let name { telemetry.metrics.redisCommand(name, result.outcome.metric, nanoseconds: nil) }
            } else {
                takeEnded(result)
            }
        }
    }

    private mutating func censusEnded(_ outcome: RedisOutcome) {
        telemetry.metrics.redisCommand(.census, outcome.metric, nanoseconds: nil)
        if outcome.isAnswered { shared!.hearCensus() }
    }

    private mutating func takeEnded(_ result: RedisResult) {
        let isAnswered = result.outcome.isAnswered
        let sentAt = shared!.ledger.asked(result.tag)?.at
        telemetry.metrics.redisCommand(
            .take, result.outcome.metric,
            nanoseconds: isAnswered ? sentAt.map { now.monotonic.nanoseconds(since: $0) } : nil)
        guard isAnswered, var replies = shared!.takeReplies() else { return shared!.takeFailed(result.tag, now.monotonic) }
        var next = Optional(result.tag)
        while let id = next, let asked = shared!.ledger.asked(id) {
            guard var reply = shared!.takeReply(counts: asked.counts, isLast: asked.next == nil, from: &replies) else {
                return shared!.takeFailed(id, now.monotonic)
            }
            if reply.granted > asked.waiting { telemetry.metrics.rateLimitLeased(Int(reply.granted - asked.waiting)) }
            shared!.ledger.answered(id, &reply, now: now.monotonic)
            next = asked.next
        }
    }
}

extension SharedCounting {
    /// Takes over what a census was answered with.
    mutating func hearCensus() {
        if let count = GatewayCensus.gateways(redis.reader.reply.integer(0)) { gateways.value = count }
    }

    /// The replies to a call of takes; nil if the answer holds none.
    mutating func takeReplies() -> GCRAReplies? { GCRAReplies(redis.reader.reply.bytes(0)) }

    /// The next reply of the answer; nil if there is none.
    mutating func takeReply(counts: Int, isLast: Bool, from replies: inout GCRAReplies) -> GCRAReply? {
        guard let reply = replies.next(counts: counts, redis.reader.reply.bytes(0)), replies.isAtEnd == isLast else { return nil }
        return reply
    }
}

extension RedisOutcome {
    /// The word for the metric.
    var metric: RedisCommandResult {
        switch self {
        case .answered: .ok
        case .refused: .error
        case .late, .lost: .noAnswer
        }
    }
}

extension Handle {
    /// As a number that comes back with an answer.
    var bits: UInt64 { UInt64(generation) << 32 | UInt64(index) }

    init(bits: UInt64) {
        self.init(index: UInt32(truncatingIfNeeded: bits), generation: UInt32(truncatingIfNeeded: bits >> 32))
    }
}
