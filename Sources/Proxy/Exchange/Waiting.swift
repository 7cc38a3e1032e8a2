import Gate
import HTTP
import Limits
import Telemetry
import Transport
import Wire

/// Requests that wait for an asynchronous answer: the caller's entitlement, a refresh, limits in Redis, a handler, a connection.
///
/// All wait in the same way: the exchange's state says for what, its handle comes back with the answer, and an answer that meets
/// another state is dropped. Meanwhile no more of the body is read.
extension Worker {
    // MARK: waiting

    /// Single flight: each user and each outside subject is looked up once, however many requests wait.
    mutating func waitForEntitlement(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        telemetry.countToken(scratch.decision, since: now.monotonic)
        exchanges[exchange].wait(for: .entitlement)
        let user = admission.tokenUser(scratch.decision)
        if waitingForUser[user] == nil {
            if admission.asksSubject(scratch.decision) { services.lookUpSubject(user) } else { services.lookUpUser(user) }
        }
        waitingForUser[user, default: []].append(exchanges.handle(exchange))
    }

    mutating func waitForRefresh(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        guard countRefresh(exchange) else {
            identify(exchange, bytes, &scratch)
            log(exchange, bytes, &scratch)
            return answer(exchange, with: .unavailable(.overload, retryAfterSeconds: 1), &scratch)
        }
        telemetry.countToken(scratch.decision, since: now.monotonic)
        exchanges[exchange].wait(for: .refresh(since: now.monotonic, until: setWaitDeadline(exchange, settings.refreshTimeout)))
        let (handle, mailbox) = (exchanges.handle(exchange), mailbox)
        services.refresh(admission.refreshOrder(scratch.decision, bytes)) { mailbox.post(.refreshed(handle, $0)) }
    }

    /// Counts a request that waits for a refresh. False if too many do, or its client's share of them.
    private mutating func countRefresh(_ exchange: ExchangeIndex) -> Bool {
        guard refreshesUnderWay < settings.maxRefreshes else { return false }
        if let share = exchanges[exchange].counts.share {
            let held = downstream.shares[share].refreshes
            guard settings.clientShare.allows(held: held, taken: refreshesUnderWay, limit: settings.maxRefreshes) else {
                noteShed(exchange, .share)
                return false
            }
            downstream.shares[share].refreshes += 1
        }
        refreshesUnderWay += 1
        return true
    }

    private mutating func refreshEnded(_ exchange: ExchangeIndex) {
        refreshesUnderWay -= 1
        if let share = exchanges[exchange].counts.share { downstream.shares[share].refreshes -= 1 }
    }

    mutating func waitForLimits(_ exchange: ExchangeIndex, _ wait: LimitWait, _ scratch: inout Scratch) {
        exchanges[exchange].wait(for: .limits(AwaitedLimits(wait: wait, pending: admission.pendingLimit(&scratch.decision))))
        if exchanges[exchange].request.isTraced { exchanges[exchange].trace.beginWait(.limits, at: now.monotonic) }
    }

    mutating func waitForHandler(_ exchange: ExchangeIndex) {
        exchanges[exchange].wait(for: .handler(until: setWaitDeadline(exchange, settings.localTimeout)))
        if exchanges[exchange].request.isTraced { exchanges[exchange].trace.beginWait(.handler, at: now.monotonic) }
    }

    /// Sets the client's timer for a wait that begins now; returns the deadline.
    private mutating func setWaitDeadline(_ exchange: ExchangeIndex, _ milliseconds: UInt64) -> MonotonicTime {
        let deadline = now.monotonic.advanced(milliseconds: milliseconds)
        downstream.timers.set(exchanges[exchange].client.index.id, deadline: deadline)
        return deadline
    }

    // MARK: answers

    /// Entitlements have come: requests that wait for these users are decided about again.
    mutating func learned(_ users: [UserTier], _ scratch: inout Scratch) {
        admission.learn(users)
        if streams.awaitsLookUps || users.contains(where: { $0.source == .pushed }) { streams.sweepSoon(at: now.monotonic) }
        guard !waitingForUser.isEmpty else { return }
        for user in users { resume(waitingFor: user.user, &scratch) }
    }

    /// Subjects have been looked up.
    mutating func learned(_ subjects: [KnownSubject], _ scratch: inout Scratch) {
        admission.learn(subjects)
        if streams.awaitsLookUps { streams.sweepSoon(at: now.monotonic) }
        for known in subjects { resume(waitingFor: known.user, &scratch) }
    }

    private mutating func resume(waitingFor user: TokenUser, _ scratch: inout Scratch) {
        for exchange in waitingForUser.removeValue(forKey: user) ?? [] where exchanges.resume(exchange, from: .entitlement) != nil {
            decideAgain(exchange.index, &scratch)
        }
    }

    /// The refresh is over.
    mutating func refreshed(_ exchange: Handle<Exchange>, _ answer: RefreshAnswer, _ scratch: inout Scratch) {
        guard case .refresh(let began, _) = exchanges.resume(exchange, from: .refresh) else { return }
        refreshEnded(exchange.index)
        telemetry.metrics.refreshed(RefreshResult(answer.outcome), RefreshSource(answer.role))
        exchanges[exchange.index].makeRare().refresh = CompletedRefresh(answer: answer, began: began, ended: now.monotonic)
        decideAgain(exchange.index, &scratch)
    }

    /// Resumes a request after Redis has decided its limits: it is forwarded or refused.
    mutating func limited(_ exchange: Handle<Exchange>, _ verdict: inout LimitVerdict, _ scratch: inout Scratch) {
        guard case .limits(let awaited) = exchanges.resume(exchange, from: .limits) else { return }
        let index = exchange.index
        let client = exchanges[index].client
        let outcome = awaited.pending.settle(&verdict, into: &exchanges[index].buffers.answerEdits)
        if exchanges[index].request.isTraced { recordLimits(index, outcome) }
        if let refusal = outcome.refusal {
            noteLimit(index, outcome, &verdict)
            answer(index, with: refusal, &scratch)
        } else if exchanges[index].request.check != nil {
            noteLimit(index, outcome, &verdict)
            letPass(index, &scratch)
        } else {
            exchanges[index].resumeTarget()
            noteLimit(index, outcome, &verdict)
            startAfterWait(exchange, client, &scratch)
        }
        resumeClient(client, &scratch)
    }

    /// The handler has answered.
    mutating func answered(_ exchange: Handle<Exchange>, _ response: LocalResponse, _ scratch: inout Scratch) {
        guard exchanges.resume(exchange, from: .handler) != nil else {
            response.stream?.ended()
            return
        }
        let client = exchanges[exchange.index].client
        answer(exchange.index, with: response, &scratch)
        resumeClient(client, &scratch)
    }

    /// The other workers have answered: the request gets a connection, waits again if `mayWait`, or is refused.
    mutating func connectionFreed(_ exchange: Handle<Exchange>, mayWait: Bool, _ scratch: inout Scratch) {
        guard exchanges.resume(exchange, from: .room) != nil else { return }
        let client = exchanges[exchange.index].client
        exchanges[exchange.index].resumeTarget()
        findConnection(exchange.index, mayWait: mayWait, &scratch)
        resumeClient(client, &scratch)
    }

    /// Starts a request, and sends it if its body has arrived or not begun; any other is sent with the first of its body.
    private mutating func startAfterWait(_ exchange: Handle<Exchange>, _ client: Handle<Client>, _ scratch: inout Scratch) {
        let bodyHasArrived = downstream.clients.isCurrent(client) && !downstream.clients[client.index].input.isEmpty
        start(exchange, bodyHasArrived: bodyHasArrived, &scratch)
        guard downstream.clients.isCurrent(client) else { return }
        let current = downstream.clients[client.index].exchange
        guard !current.isNone, exchanges[current.index].state.hasWholeRequest || !bodyHasArrived else { return }
        _ = sendOff(client.index, &scratch)
    }

    /// Decides again about a request that waited, from its kept head.
    mutating func decideAgain(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        let handle = exchanges.handle(exchange)
        let client = exchanges[exchange].client
        var head = ByteBuffer()
        guard takeHeldHead(exchange, into: &head, &scratch) else { return abandon(client.index, &scratch) }
        decide(exchange, head.readable, isSampled: telemetry.samples(), &scratch)
        if exchanges.isCurrent(handle) { exchanges[exchange].hold(head.readable) }
        startAfterWait(handle, client, &scratch)
        if downstream.clients.isCurrent(client) { continueReading(client.index, &scratch) }
    }

    /// Parses the kept head again. False if a reload has lowered the limits so far that it is too large.
    private mutating func takeHeldHead(_ exchange: ExchangeIndex, into head: inout ByteBuffer, _ scratch: inout Scratch) -> Bool {
        swap(&head, &exchanges[exchange].buffers.heldHead)
        guard scratch.request.parse(head.readable, limits: settings.headLimits) == .complete else { return false }
        scratch.request.isHTTP2 = downstream.clients[exchanges[exchange].client.index].isStream && exchanges[exchange].request.check == nil
        return true
    }

    // MARK: no answer

    /// Refuses a request that waits to be decided about again, with what is known of it now.
    mutating func refuseHeld(_ exchange: ExchangeIndex, _ refusal: Refusal, _ scratch: inout Scratch) {
        let client = exchanges[exchange].client.index
        var head = ByteBuffer()
        guard takeHeldHead(exchange, into: &head, &scratch) else { return abandon(client, &scratch) }
        describeHeld(exchange, head.readable, &scratch)
        answer(exchange, with: refusal, &scratch)
    }

    /// A request that waits to be decided about ends without an answer: counts it and begins its line, with what is known of it now.
    mutating func noteHeld(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        guard exchanges[exchange].state.waitsForDecision else { return }
        var head = ByteBuffer()
        guard takeHeldHead(exchange, into: &head, &scratch) else { return }
        describeHeld(exchange, head.readable, &scratch)
    }

    /// Identifies a request that waits to be decided about, and begins its line. Nothing is charged: the limits come behind what it
    /// waits for.
    private mutating func describeHeld(_ exchange: ExchangeIndex, _ head: RawSpan, _ scratch: inout Scratch) {
        _ = admission.admit(
            scratch.request, head, peer: downstream.clients[exchanges[exchange].client.index].peer, at: now,
            check: exchanges[exchange].request.check, &scratch.decision)
        identify(exchange, head, &scratch)
        log(exchange, head, &scratch)
    }

    /// The deadline of the wait has passed.
    mutating func waitTimedOut(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        switch exchanges[exchange].state.phase {
        case .waiting(.refresh):
            refreshed(exchanges.handle(exchange), RefreshAnswer(.unavailable(retryAfterSeconds: 1), .leader), &scratch)
        case .waiting(.handler):
            let client = exchanges[exchange].client
            _ = exchanges[exchange].resume(from: .handler)
            exchanges[exchange].record.error = "handler_late"
            answer(exchange, with: .timeout, &scratch)
            resumeClient(client, &scratch)
        case .deciding, .waiting(.entitlement), .waiting(.limits), .waiting(.room), .waiting(.fetch), .collecting, .producing, .connecting,
            .relaying,
            .tunnel,
            .finishing, .answered:
            break
        }
    }

    /// The exchange ends while it waits.
    mutating func cancelWait(_ exchange: ExchangeIndex) {
        switch exchanges[exchange].wait {
        case .none, .entitlement, .handler, .fetch: break
        case .refresh: refreshEnded(exchange)
        case .limits(let awaited): limits.cancel(awaited.wait)
        case .room: upstreams.directory[exchanges[exchange].attempt.endpoint].outstanding -= 1
        }
    }
}

extension Slab where Element == Exchange {
    /// An answer has come; returns the wait that it ends, or nil if the exchange does not wait for it any more.
    mutating func resume(_ exchange: Handle<Exchange>, from kind: ExchangeState.Wait) -> Wait? {
        isCurrent(exchange) ? self[exchange.index].resume(from: kind) : nil
    }
}

/// A request's charge in Redis, and how its verdict is applied.
struct AwaitedLimits {
    let wait: LimitWait
    let pending: PendingLimit
}

extension RefreshResult {
    /// The metrics' label value.
    init(_ outcome: TokenRefreshOutcome) {
        switch outcome {
        case .refreshed(let tokens): self = tokens.refresh == nil ? .kept : .rotated
        case .refused: self = .refused
        case .unavailable: self = .unavailable
        }
    }
}

extension RefreshSource {
    /// The metrics' label value.
    init(_ role: RefreshRole) {
        switch role {
        case .none, .leader: self = .leader
        case .follower: self = .follower
        case .remote: self = .remote
        }
    }
}
