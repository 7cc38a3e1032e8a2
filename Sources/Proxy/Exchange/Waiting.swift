import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Requests that wait for an answer from elsewhere: the caller's entitlement, a refresh, limits in Redis, a handler, a
/// connection.
///
/// All wait in the same way. The exchange's state says for what, its handle comes back with the answer, and an answer that
/// finds another state is dropped. Of the body no more is read meanwhile than came with the head.
extension Worker {
    // MARK: for whom

    /// Each user is looked up once, however many of their requests wait.
    mutating func waitForEntitlement(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        countToken(scratch.decision)
        exchanges[exchange].state.wait(for: .entitlement)
        let user = scratch.decision.userID.text
        if waitingForUser[user] == nil { services.lookUpUser(user) }
        waitingForUser[user, default: []].append(exchanges.handle(exchange))
    }

    /// Requests of one worker that may wait for a refresh at a time.
    private static var mostRefreshes: Int { 4_096 }

    mutating func waitForRefresh(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        guard refreshesUnderWay < Self.mostRefreshes else {
            identify(exchange, bytes, &scratch)
            log(exchange, bytes, &scratch)
            return answer(exchange, with: .unavailable(.overload, retryAfterSeconds: 1), &scratch)
        }
        countToken(scratch.decision)
        exchanges[exchange].state.wait(for: .refresh)
        refreshesUnderWay += 1
        setWaitDeadline(exchange, settings.refreshTimeout)
        let (handle, mailbox) = (exchanges.handle(exchange), mailbox)
        services.refresh(admission.refreshOrder(scratch.decision, bytes)) { mailbox.post(.refreshed(handle, $0)) }
    }

    mutating func waitForLimits(_ exchange: ExchangeIndex, _ wait: LimitWait, _ scratch: inout Scratch) {
        exchanges[exchange].state.wait(for: .limits)
        exchanges[exchange].limits = AwaitedLimits(wait: wait, pending: admission.pendingLimit(&scratch.decision))
    }

    mutating func waitForHandler(_ exchange: ExchangeIndex) {
        exchanges[exchange].state.wait(for: .handler)
        setWaitDeadline(exchange, settings.localTimeout)
    }

    private mutating func setWaitDeadline(_ exchange: ExchangeIndex, _ milliseconds: UInt64) {
        let deadline = now.monotonic.advanced(milliseconds: milliseconds)
        exchanges[exchange].waitsUntil = deadline
        downstream.timers.set(exchanges[exchange].client.index.id, deadline: deadline)
    }

    /// Keeps the head of a request that will be decided about again.
    mutating func hold(_ exchange: ExchangeIndex, _ head: RawSpan) {
        switch exchanges[exchange].state.phase {
        case .waiting(.entitlement), .waiting(.refresh): exchanges[exchange].heldHead.append(head)
        case .deciding, .waiting(.limits), .waiting(.handler), .waiting(.room), .collecting, .connecting, .relaying, .answered: break
        }
    }

    // MARK: answers

    /// The accounts have answered, or tell of a change: requests of these users are decided about again.
    mutating func learned(_ users: [UserTier], _ scratch: inout Scratch) {
        admission.learn(users)
        guard !waitingForUser.isEmpty else { return }
        for user in users {
            for exchange in waitingForUser.removeValue(forKey: user.user) ?? [] where isResumed(exchange, .entitlement) {
                decideAgain(exchange.index, &scratch)
            }
        }
    }

    /// The refresh is over.
    mutating func refreshed(_ exchange: Handle<Exchange>, _ answer: RefreshAnswer, _ scratch: inout Scratch) {
        guard isResumed(exchange, .refresh) else { return }
        refreshesUnderWay -= 1
        telemetry.metrics.refreshed(RefreshResult(answer.outcome), RefreshSource(answer.role))
        exchanges[exchange.index].waitsUntil = nil
        exchanges[exchange.index].refresh = answer
        decideAgain(exchange.index, &scratch)
    }

    /// The limits have decided: the request goes on, or is refused.
    mutating func limited(_ exchange: Handle<Exchange>, _ verdict: inout LimitVerdict, _ scratch: inout Scratch) {
        guard isResumed(exchange, .limits), let awaited = exchanges[exchange.index].limits.take() else { return }
        let index = exchange.index
        let client = exchanges[index].client
        let outcome = awaited.pending.settle(&verdict, into: &exchanges[index].answerEdits)
        if let refusal = outcome.refusal {
            noteLimit(index, outcome, &verdict)
            answer(index, with: refusal, &scratch)
        } else {
            resumeTarget(index)
            noteLimit(index, outcome, &verdict)
            start(exchange, bodyHasArrived: downstream.clients.isCurrent(client) && !downstream.clients[client.index].input.isEmpty, &scratch)
            if downstream.clients.isCurrent(client) { _ = sendOffIfWhole(client.index, &scratch) }
        }
        resumeClient(client, &scratch)
    }

    /// The handler has answered.
    mutating func answered(_ exchange: Handle<Exchange>, _ response: LocalResponse, _ scratch: inout Scratch) {
        guard isResumed(exchange, .handler) else { return }
        let client = exchanges[exchange.index].client
        answer(exchange.index, with: response, &scratch)
        resumeClient(client, &scratch)
    }

    /// Other workers have closed what they could: the request goes on, or is refused.
    mutating func roomFound(_ exchange: Handle<Exchange>, mayWait: Bool, _ scratch: inout Scratch) {
        guard isResumed(exchange, .room) else { return }
        let client = exchanges[exchange.index].client
        resumeTarget(exchange.index)
        findConnection(exchange.index, mayWait: mayWait, &scratch)
        resumeClient(client, &scratch)
    }

    private mutating func isResumed(_ exchange: Handle<Exchange>, _ wait: ExchangeState.Wait) -> Bool {
        exchanges.isCurrent(exchange) && exchanges[exchange.index].state.resumed(from: wait)
    }

    /// The request goes where it was to go before it waited.
    private mutating func resumeTarget(_ exchange: ExchangeIndex) {
        let isWhole = exchanges[exchange].state.hasWholeRequest
        if exchanges[exchange].local != nil {
            exchanges[exchange].state.collect(isWhole: isWhole)
        } else {
            exchanges[exchange].state.forward(isWhole: isWhole)
        }
    }

    /// Puts a request without a body to come on a connection; any other goes with the first of its body.
    private mutating func sendOffIfWhole(_ client: ClientIndex, _ scratch: inout Scratch) -> Bool {
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone, exchanges[exchange.index].state.hasWholeRequest || downstream.clients[client].input.isEmpty else { return false }
        return sendOff(client, &scratch)
    }

    /// Decides anew about a request that waited, by its head, which was kept.
    private mutating func decideAgain(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        let handle = exchanges.handle(exchange)
        let client = exchanges[exchange].client
        var head = ByteBuffer()
        swap(&head, &exchanges[exchange].heldHead)
        // It was complete before; a reload may have lowered the limits since.
        guard scratch.request.parse(head.readable, limits: settings.headLimits) == .complete else {
            return abandon(client.index, &scratch)
        }
        decide(exchange, head.readable, isSampled: telemetry.samples(), &scratch)
        if exchanges.isCurrent(handle) { hold(exchange, head.readable) }
        start(handle, bodyHasArrived: downstream.clients.isCurrent(client) && !downstream.clients[client.index].input.isEmpty, &scratch)
        if downstream.clients.isCurrent(client) { _ = sendOffIfWhole(client.index, &scratch) }
        guard downstream.clients.isCurrent(client) else { return }
        continueReading(client.index, &scratch)
    }

    // MARK: no answer

    /// The client's clock has run out while its exchange waits: whether the wait is over without an answer.
    mutating func waitTimedOut(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        switch exchanges[exchange].state.phase {
        case .waiting(.refresh):
            refreshed(exchanges.handle(exchange), RefreshAnswer(.unavailable(retryAfterSeconds: 1), .leader), &scratch)
        case .waiting(.handler):
            let client = exchanges[exchange].client
            _ = exchanges[exchange].state.resumed(from: .handler)
            exchanges[exchange].record.error = "handler_late"
            answer(exchange, with: .timeout, &scratch)
            resumeClient(client, &scratch)
        case .deciding, .waiting(.entitlement), .waiting(.limits), .waiting(.room), .collecting, .connecting, .relaying, .answered: break
        }
    }

    /// The exchange ends while it waits.
    mutating func cancelWait(_ exchange: ExchangeIndex) {
        switch exchanges[exchange].state.phase {
        case .waiting(.refresh): refreshesUnderWay -= 1
        case .waiting(.room): upstreams.directory[exchanges[exchange].endpoint].outstanding -= 1
        case .deciding, .waiting(.entitlement), .waiting(.limits), .waiting(.handler), .collecting, .connecting, .relaying,
            .answered:
            break
        }
        if let awaited = exchanges[exchange].limits.take() { shared!.limitClient.cancel(awaited.wait) }
    }
}

/// How the answer of a request's limits is told.
struct AwaitedLimits {
    let wait: LimitWait
    let pending: PendingLimit
}

extension RefreshResult {
    /// The word for the metric.
    init(_ outcome: TokenRefreshOutcome) {
        switch outcome {
        case .refreshed(let tokens): self = tokens.refresh == nil ? .kept : .rotated
        case .refused: self = .refused
        case .unavailable: self = .unavailable
        }
    }
}

extension RefreshSource {
    /// The word for the metric.
    init(_ role: RefreshRole) {
        switch role {
        case .none, .leader: self = .leader
        case .follower: self = .follower
        case .remote: self = .remote
        }
    }
}
