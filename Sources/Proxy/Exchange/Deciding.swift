import Gate
import HTTP
import Limits
import Telemetry
import Transport
import Wire

/// Asks Gate about a request and starts what it decided.
extension Worker {
    /// Decides about the request whose head is in `scratch.request`, parsed from `bytes`. The exchange may be over afterwards.
    /// `shedding`: the bound that leaves no room for it; then it is refused in its route's dialect, and its token is not looked at.
    mutating func decide(
        _ exchange: ExchangeIndex, _ bytes: RawSpan, isSampled: Bool, shedding: OverloadReason? = nil, _ scratch: inout Scratch
    ) {
        if shedding == nil, waitsForChanges(exchange) { return }
        let client = exchanges[exchange].client.index
        let start = isSampled ? EventLoop.now().monotonic : now.monotonic
        let isCharged = admission.admit(
            scratch.request, bytes, peer: downstream.clients[client].peer, at: now, refresh: exchanges[exchange].rare?.refresh?.answer,
            check: exchanges[exchange].request.check, isShedding: shedding != nil, &scratch.decision)
        if scratch.decision.handshake != nil { exchanges[exchange].counts.socket = admission.openSocket(&scratch.decision) }
        if scratch.decision.watchesUse { limits.watch(&scratch.decision, now: now.monotonic) }
        let wait = isCharged && scratch.decision.refusal == nil ? charge(exchange, &scratch) : nil
        if isSampled {
            telemetry.metrics.overhead(.auth, nanoseconds: EventLoop.now().monotonic.nanoseconds(since: start))
        }
        if let timeout = scratch.decision.grpcTimeout { setDeadline(exchange, after: timeout) }
        if let token = scratch.decision.effects.deliveredToken { services.sawToken(token) }
        if let key = scratch.decision.effects.usedKey { services.sawKey(key) }
        if let issuer = scratch.decision.effects.keysWanted {
            if scratch.decision.refusal != nil, waitsForKeys(exchange, of: issuer) { return }
            services.unknownKey(issuer)
        }
        switch scratch.decision.verdict {
        case .lookUp: return waitForEntitlement(exchange, &scratch)
        case .refresh: return waitForRefresh(exchange, bytes, &scratch)
        case .forward where exchanges[exchange].request.check != nil:
            identify(exchange, bytes, &scratch)
            stageAllowAnswer(exchange, bytes, &scratch)
            guard wait != nil else {
                log(exchange, bytes, &scratch)
                return letPass(exchange, &scratch)
            }
        case .forward(let upstream):
            identify(exchange, bytes, &scratch)
            guard prepareTarget(exchange, upstream: upstream, bytes, &scratch) else {
                uncharge(wait, &scratch)
                log(exchange, bytes, &scratch)
                return answer(exchange, with: .unavailable(.upstream, retryAfterSeconds: 1), &scratch)
            }
        case .local(let service):
            identify(exchange, bytes, &scratch)
            let kind = services.kind(ofLocal: Int(service))
            if exchanges[exchange].counts.share != nil, isFull(kind) {
                uncharge(wait, &scratch)
                noteShed(exchange, .local)
                log(exchange, bytes, &scratch)
                return answer(exchange, with: .unavailable(.overload, retryAfterSeconds: 1), &scratch)
            }
            prepareLocal(
                exchange, services.local[Int(service)], kind, on: services.localExecutors[Int(service)], bytes, &scratch)
        case .refuse(let refusal):
            identify(exchange, bytes, &scratch)
            if let shedding, case .unavailable(.overload, _) = refusal { noteShed(exchange, shedding) }
            log(exchange, bytes, &scratch)
            return answer(exchange, with: refusal, &scratch)
        case .answer(let status):
            identify(exchange, bytes, &scratch)
            log(exchange, bytes, &scratch)
            return answer(exchange, status: Int(status), contentType: "", RawSpan(), &scratch)
        }
        if let wait { waitForLimits(exchange, wait, &scratch) }
        log(exchange, bytes, &scratch)
    }

    /// Sets the exchange's ids, method, version, dialect and the decision's answer fields, which every answer needs. Once for
    /// each request, when it waits for no further decision.
    mutating func identify(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        if exchanges[exchange].request.check == nil {
            exchanges[exchange].request.method = scratch.request.method
            exchanges[exchange].request.version = scratch.request.version
        }
        exchanges[exchange].request.dialect = scratch.decision.dialect
        telemetry.identify(
            scratch.request, bytes, trusted: scratch.decision.client.peerIsTrusted, at: now.wall, &exchanges[exchange].buffers.requestID,
            &scratch.traceparent)
        if scratch.decision.appGate != nil { admission.count(scratch.decision, in: &apps, at: now.wall) }
        if scratch.decision.changesFields {
            admission.changeFields(requestID: exchanges[exchange].buffers.requestID.readable, &scratch.decision)
        }
        exchanges[exchange].buffers.answerEdits.append(scratch.decision.answerEdits)
        addStrictTransport(exchange)
        if let sampler = settings.sampler { beginTrace(exchange, bytes, sampler, &scratch) }
    }

    /// Fills the exchange from the parsed head and the decision, and writes the head for the upstream.
    ///
    /// - Returns: whether any address of the upstream may be used now.
    mutating func prepareForward(
        _ exchange: ExchangeIndex, upstream number: Int, _ bytes: RawSpan, _ scratch: inout Scratch
    ) -> Bool {
        guard let pool = upstreams.directory.pool(of: number),
            let endpoint = upstreams.directory.choose(pool, avoiding: nil, at: now.monotonic)
        else { return false }
        let address = upstreams.directory.address(endpoint)
        exchanges[exchange].attempt.begin(
            at: endpoint, isForHTTP2: address.speaksHTTP2 && !upstreams.directory.choseHTTP1(endpoint),
            isHeadAlone: exchanges[exchange].request.isHeadAlone, hasUnknownLength: scratch.request.framing == .chunked,
            timeout: admission.timeoutMilliseconds(scratch.decision) ?? upstreams.directory.pools[pool].settings.timeout,
            retries: admission.retries(scratch.decision) ?? upstreams.directory.pools[pool].settings.retries)
        exchanges[exchange].request.passesTrailers = scratch.decision.passesTrailers
        exchanges[exchange].request.announced = admission.announced(scratch.decision)
        exchanges[exchange].request.bodyLimit = admission.bodyLimit(scratch.decision)
        exchanges[exchange].record.upstream = upstreams.directory.label(pool, telemetry.labels)
        let fields = exchanges[exchange].answer.stages == nil ? nil : filteredFields(scratch.decision)
        let handshake = scratch.decision.handshake
        exchanges[exchange].request.offersBearer = handshake?.token != nil
        var socketKey = ByteBuffer()
        if handshake != nil, scratch.request.isHTTP2 {
            WebSocketKey.write(telemetry.random.next(), telemetry.random.next(), into: &socketKey)
        }
        var replay = ByteBuffer()
        swap(&replay, &exchanges[exchange].attempt.replay)
        let room = replay.capacity
        exchanges[exchange].attempt.head = ForwardedRequest.write(
            scratch.request, bytes, scratch.decision, requestID: exchanges[exchange].buffers.requestID.readable,
            traceparent: scratch.traceparent.readable, isTraced: exchanges[exchange].request.isTraced,
            from: downstream.clients[exchanges[exchange].client.index].peer, to: address,
            sendsOwnHost: upstreams.directory.pools[pool].settings.sendsOwnHost,
            wantsPlainContent: exchanges[exchange].request.streamRule.writesEvents, socketKey: socketKey.readable, filtered: fields,
            restoresTags: exchanges[exchange].answer.stages?.compression.hasTags == true, cached: admission.cachedFields(scratch.decision),
            isForHTTP2: exchanges[exchange].attempt.isForHTTP2, into: &replay)
        if replay.capacity > room { replay.trim() }
        swap(&replay, &exchanges[exchange].attempt.replay)
        if admission.mirror(scratch.decision) != nil { beginCopy(exchange, bytes, &scratch) }
        return true
    }

    /// Prepares the stages of the answer, and what it depends on should it last.
    mutating func prepareAnswer(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        if scratch.decision.identity != nil { admission.setLife(&exchanges[exchange].life, of: scratch.decision) }
        exchanges[exchange].request.streamRule = admission.streamRule(scratch.decision)
        if admission.hasStages(scratch.decision) { prepareStages(exchange, bytes, &scratch) }
    }

    private func filteredFields(_ decision: borrowing Decision) -> FilteredFields? {
        guard let plan = admission.filter(decision), !plan.isShadow else { return nil }
        return FilteredFields(plan: plan, tier: decision.tier ?? .lowest)
    }

    @inline(never)
    private mutating func prepareStages(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        if let filter = admission.filter(scratch.decision) {
            exchanges[exchange].openStages().filter.begin(filter, scratch.decision.tier ?? .lowest)
        }
        guard let plan = admission.compression(scratch.decision), scratch.decision.handshake == nil, scratch.decision.dialect != .grpc,
            // The answer carries the new tokens.
            exchanges[exchange].rare?.refresh == nil
        else { return }
        let padding = UInt8(truncatingIfNeeded: telemetry.random.next() % 100)
        let request = CompressionRequest(scratch.request.fields, bytes, plan, padding: padding)
        let client = exchanges[exchange].counts.share.map { downstream.shares[$0].hash } ?? 0
        exchanges[exchange].openStages().compression.begin(plan, request, encoders, client: client)
    }

    /// Starts what was decided, at once or after a wait. `bodyHasArrived`: bytes of the body have been received.
    mutating func start(_ handle: Handle<Exchange>, bodyHasArrived: Bool, _ scratch: inout Scratch) {
        guard exchanges.isCurrent(handle) else { return }
        let exchange = handle.index
        switch exchanges[exchange].state.phase {
        case .deciding, .waiting, .producing, .relaying, .tunnel, .finishing, .answered: return
        case .connecting where exchanges[exchange].rare?.order != nil: break
        case .connecting: upstreams.directory.pools[exchanges[exchange].attempt.endpoint.pool].budget.requestSent()
        case .collecting: break
        }
        guard exchanges[exchange].state.hasWholeRequest else {
            let client = exchanges[exchange].client.index
            return apply(downstream.clients[client].http.bodyWanted(hasArrived: bodyHasArrived), client, &scratch)
        }
        guard exchanges[exchange].state.phase == .collecting else { return }
        if case .stored = exchanges[exchange].answer.source { beginStored(handle, &scratch) } else { startHandler(exchange, &scratch) }
    }

    /// Sends a request that is ready to its upstream.
    ///
    /// - Returns: whether more may be read at once: the rest of the body, or the next request if this one is over.
    mutating func sendOff(_ client: ClientIndex, _ scratch: inout Scratch) -> Bool {
        let handle = downstream.clients[client].exchange
        guard !handle.isNone, exchanges[handle.index].state.phase == .connecting, exchanges[handle.index].attempt.upstream.isNone,
            !downstream.clients[client].http.message.awaitsEndOfEmpty
        else { return false }
        if asksHome(handle.index) { return false }
        dispatch(handle.index, &scratch)
        return !exchanges.isCurrent(handle) || !exchanges[handle.index].state.hasWholeRequest
    }
}
