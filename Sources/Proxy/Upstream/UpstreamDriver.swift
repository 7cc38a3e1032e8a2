import HTTP
import System
import Telemetry
import Transport
import Wire

/// Drives upstream connections: connecting, reuse, retries after a loss, and release.
extension Worker {
    // MARK: a connection for an exchange

    /// Starts an attempt: finds the exchange a connection to its endpoint.
    mutating func dispatch(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        let endpoint = exchanges[exchange].attempt.endpoint
        upstreams.directory[endpoint].outstanding += 1
        exchanges[exchange].record.attempts += 1
        exchanges[exchange].record.attemptIsOpen = true
        exchanges[exchange].record.sentAt = now.monotonic
        if exchanges[exchange].request.isTraced { beginAttempt(exchange) }
        if let loss = countUnderWay(exchange) { return failed(exchange, loss, wasUsed: false, &scratch) }
        findConnection(exchange, mayWait: exchanges[exchange].rare?.copiedRoute == nil, &scratch)
        sendCopyIfDue(exchange, &scratch)
    }

    /// Connects for the exchange, within a reservation that was made.
    mutating func connect(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        let endpoint = exchanges[exchange].attempt.endpoint
        if let loss = countPending(exchange) {
            upstreams.directory.pools[endpoint.pool].connections.release()
            return failed(exchange, loss, wasUsed: false, &scratch)
        }
        do throws(SystemFault) {
            let upstream = try upstreams.open(endpoint, at: now.monotonic, in: loop)
            upstreams.connections[upstream].holdsRoom = true
            guard upstreams.directory.address(endpoint).speaksHTTP2 else { return attach(upstream, exchange) }
            upstreams.addSession(upstream, takesRequests: true)
            addStream(exchange, on: upstream)
        } catch {
            upstreams.directory.pools[endpoint.pool].connections.release()
            failed(exchange, cannotBegin(error), wasUsed: false, &scratch)
        }
    }

    /// The loss when a connection could not even be started. Reports a shortage of the process.
    func cannotBegin(_ fault: SystemFault) -> UpstreamLoss {
        let loss = UpstreamLoss(beginning: fault)
        if loss == .shortage { services.shortage(fault) }
        return loss
    }

    mutating func attach(_ upstream: UpstreamIndex, _ exchange: ExchangeIndex) {
        upstreams.connections[upstream].exchange = exchanges.handle(exchange)
        exchanges[exchange].attempt.upstream = upstreams.connections.handle(upstream)
    }

    // MARK: events

    mutating func upstreamReady(_ upstream: UpstreamIndex, _ ready: Ready, _ scratch: inout Scratch) {
        let client = clientServed(by: upstream)
        switch upstreams.connections[upstream].phase {
        case .free: return
        case .connecting: finishConnecting(upstream, &scratch)
        case .handshaking: continueUpstreamHandshake(upstream, &scratch)
        case .greeting, .multiplexed: sessionReady(upstream, ready, &scratch)
        case .busy:
            let handle = upstreams.connections.handle(upstream)
            if ready.writable { requestWritable(upstream) }
            if ready.readable || ready.error || ready.hangup, upstreams.connections.isCurrent(handle) {
                receiveAnswer(upstream, &scratch)
            }
        case .tunnel: tunnelReady(upstream, ready, &scratch)
        case .ending: upstreamEnding(upstream, ready)
        // No request is under way, so any event ends the connection.
        case .idle: upstreams.close(upstream)
        case .probing where upstreams.connections[upstream].session != nil: sessionReady(upstream, ready, &scratch)
        case .probing: receiveProbe(upstream, &scratch)
        }
        resumeClient(client, &scratch)
    }

    func clientServed(by upstream: UpstreamIndex) -> Handle<Client> {
        let exchange = upstreams.connections[upstream].exchange
        return exchange.isNone ? .none : exchanges[exchange.index].client
    }

    private mutating func finishConnecting(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let number = upstreams.connections[upstream].connection.socket.takeError()
        guard number == 0 else { return lost(upstream, .notReached, &scratch) }
        let address = upstreams.directory.address(upstreams.connections[upstream].endpoint)
        guard let tls = address.tls else { return established(upstream, &scratch) }
        do {
            try upstreams.connections[upstream].connection.startTLS(tls, serverName: address.serverName)
        } catch {
            return lost(upstream, .handshakeFailed, &scratch)
        }
        upstreams.connections[upstream].phase = .handshaking
        continueUpstreamHandshake(upstream, &scratch)
    }

    private mutating func continueUpstreamHandshake(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let token = Token(.upstream, upstreams.connections.handle(upstream)).bits
        switch upstreams.connections[upstream].connection.handshake(token: token, in: loop) {
        case .done: established(upstream, &scratch)
        case .pending: break
        case .closed, .failed: lost(upstream, .handshakeFailed, &scratch)
        }
    }

    /// The connection is established, or the stream can be opened: sends its exchange's request, or its probe.
    mutating func connected(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        guard !upstreams.connections[upstream].exchange.isNone else { return sendProbe(upstream, &scratch) }
        let exchange = upstreams.connections[upstream].exchange.index
        upstreams.connections[upstream].phase = .busy
        upstreams.connections[upstream].http.requestSent(
            exchanges[exchange].request.method, mayUpgrade: exchanges[exchange].attempt.asksForTunnel)
        exchanges[exchange].state.connected()
        if exchanges[exchange].counts.holdings.contains(.pending) { release(.pending, exchange) }
        if exchanges[exchange].attempt.isForHTTP2 != upstreams.connections[upstream].isStream {
            let isWhole = exchanges[exchange].state.hasWholeRequest
            exchanges[exchange].attempt.reframe(isWhole: isWhole)
        }
        exchanges[exchange].renewTimeout(at: now.monotonic)
        requestWritable(upstream)
    }

    /// Sends what waits. If a slow upstream had stopped the body, the client's body timeout starts anew: the delay was not the
    /// client's.
    private mutating func requestWritable(_ upstream: UpstreamIndex) {
        let exchange = upstreams.connections[upstream].exchange.index
        startAnswerClock(exchange, upstream)
        flushRequest(exchange)
        guard !exchanges[exchange].state.hasWholeRequest, exchanges[exchange].isFlushed else { return }
        downstream.startBodyClock(exchanges[exchange].client.index, at: now.monotonic, settings)
    }

    mutating func upstreamTimedOut(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let client = clientServed(by: upstream)
        switch upstreams.connections[upstream].phase {
        case .free: return
        case .connecting, .handshaking, .greeting: lost(upstream, .connectTimeout, &scratch)
        case .multiplexed:
            if let session = upstreams.connections[upstream].session { sessionTimedOut(upstream, session, &scratch) }
        case .idle, .probing: lost(upstream, .timeout, &scratch)
        case .tunnel: tunnelGraceEnded(upstream, &scratch)
        case .ending: return upstreams.close(upstream)
        case .busy:
            let exchange = upstreams.connections[upstream].exchange.index
            // Only the upstream's own silence counts, not time that the client takes to send or read.
            let hasAll = exchanges[exchange].state.hasWholeRequest || exchanges[exchange].state.upstreamStoppedReading
            let mayBeSilent = exchanges[exchange].rare?.live?.heartbeat != nil
            guard hasRoom(.answer, exchange), hasAll || !exchanges[exchange].isFlushed, !mayBeSilent else {
                return startAnswerClock(exchange, upstream)
            }
            lost(upstream, .timeout, &scratch)
        }
        resumeClient(client, &scratch)
    }

    // MARK: the end of a connection

    /// The connection has failed: closes it, and retries or answers what it carried.
    mutating func lost(_ upstream: UpstreamIndex, _ loss: UpstreamLoss, _ scratch: inout Scratch) {
        if upstreams.connections[upstream].session != nil { return sessionLost(upstream, loss, &scratch) }
        let exchange = upstreams.connections[upstream].exchange
        let wasUsed = upstreams.connections[upstream].wasUsed
        let isProbe = upstreams.connections[upstream].isProbe
        let endpoint = upstreams.connections[upstream].endpoint
        guard !exchange.isNone else {
            upstreams.close(upstream)
            if isProbe { probeEnded(endpoint, good: false) }
            return
        }
        leave(upstream, exchange.index)
        failed(exchange.index, loss, wasUsed: wasUsed, &scratch)
    }

    /// The exchange has lost its upstream: it is retried if that is safe, otherwise answered.
    mutating func failed(_ exchange: ExchangeIndex, _ loss: UpstreamLoss, wasUsed: Bool, _ scratch: inout Scratch) {
        let endpoint = exchanges[exchange].attempt.endpoint
        upstreams.directory[endpoint].outstanding -= 1
        // The upstream's patience with the client may have ended, so the loss tells nothing of the address.
        let row = loss.row
        let awaitsClient =
            row.traits.contains(.endsPatience) && exchanges[exchange].isClientAwaited && isSilent(exchanges[exchange].client.index)
        exchanges[exchange].attempt.upstream = .none
        exchanges[exchange].state.disconnected()
        if exchanges[exchange].state.answer == .none {
            telemetry.attemptEnded(&exchanges[exchange].record, status: 0, at: now.monotonic)
        }
        if exchanges[exchange].request.isTraced { endAttempt(exchange, error: row.text) }
        // A reused connection that turned out closed says nothing about the health of the address; a second one may.
        let isClosed = loss == .closedUnanswered || loss == .brokenWhileSending
        let isStale = wasUsed && (loss == .unprocessed || isClosed && !exchanges[exchange].attempt.needsNewConnection)
        let isBehindHead = exchanges[exchange].state.answer != .none
        if !isStale, !awaitsClient, row.countsAgainstAddress(isBehindHead: isBehindHead) {
            noteFailure(endpoint, isBrokenAnswer: isBehindHead)
        }
        exchanges[exchange].record.isBeyondBound = row.bound != nil || loss == .shortage
        if let bound = row.bound { telemetry.metrics.upstreamRefused(upstream: exchanges[exchange].record.upstream, bound) }
        guard mayRetry(exchange, loss, isStale: isStale) else {
            return answerLost(exchange, loss, awaitsClient: awaitsClient, &scratch)
        }
        telemetry.metrics.upstreamRetry(
            upstream: exchanges[exchange].record.upstream, isStale ? .stale : row.retryReason)
        if isStale, isClosed { exchanges[exchange].attempt.needsNewConnection = true }
        exchanges[exchange].attempt.restart()
        exchanges[exchange].state.retried()
        guard let next = upstreams.directory.choose(endpoint.pool, avoiding: isStale ? nil : endpoint, at: now.monotonic) else {
            return answerLost(exchange, loss, &scratch)
        }
        if next != endpoint { exchanges[exchange].attempt.readdress(to: next, at: upstreams.directory.address(next)) }
        dispatch(exchange, &scratch)
    }

    /// Milliseconds of the shortest patience of an upstream with a client. A loss that comes sooner has another reason, such as a crash.
    private static var minPatience: UInt64 { 1_000 }

    /// Whether a client whose content is awaited has sent none for so long.
    private func isSilent(_ client: ClientIndex) -> Bool {
        now.monotonic >= downstream.clients[client].contentAt.advanced(milliseconds: Self.minPatience)
    }

    private mutating func mayRetry(_ exchange: ExchangeIndex, _ loss: UpstreamLoss, isStale: Bool) -> Bool {
        let isIdempotent = exchanges[exchange].request.method.isIdempotent
        guard exchanges[exchange].state.isRetryable(after: loss, isIdempotent: isIdempotent) else { return false }
        // Not counted as a retry: it happens once, as the next connection is a new one; or the upstream has not begun the request.
        if isStale { return true }
        guard exchanges[exchange].attempt.retriesLeft > 0, takesRetry(exchange) else { return false }
        exchanges[exchange].attempt.retriesLeft -= 1
        return true
    }

    /// Detaches the exchange's connection: keeps it for the next one, or closes it.
    mutating func releaseUpstream(_ exchange: ExchangeIndex, reusable: Bool) {
        guard !exchanges[exchange].attempt.upstream.isNone else { return }
        let upstream = exchanges[exchange].attempt.upstream.index
        let endpoint = upstreams.connections[upstream].endpoint
        exchanges[exchange].attempt.upstream = .none
        let wasTunnel = exchanges[exchange].state.phase == .tunnel
        exchanges[exchange].state.released()
        upstreams.directory[endpoint].outstanding -= 1
        upstreams.connections[upstream].exchange = .none
        if wasTunnel, !exchanges[exchange].state.upstreamStoppedReading {
            swap(&upstreams.connections[upstream].output, &exchanges[exchange].attempt.pending)
            return endUpstream(upstream, isSilent: exchanges[exchange].rare?.tunnel?.hasServersClose ?? false)
        }
        let idleTime = upstreams.connections[upstream].http.idleTime(longest: settings.upstreamIdleTimeout)
        let isWanted = !upstreams.directory[endpoint].isRetired && !upstreams.directory.pools[endpoint.pool].isOverBound
        guard reusable, isWanted, idleTime > 0 else { return leave(upstream, exchange) }
        upstreams.keep(upstream, at: now.monotonic, for: idleTime)
        refreshUpstreamInterest(upstream)
    }

    // MARK: interest

    mutating func refreshUpstreamInterest(_ upstream: UpstreamIndex) {
        guard !upstreams.connections[upstream].isStream else {
            let isPaused = !hasRoom(.answer, upstreams.connections[upstream].exchange.index)
            upstreams.connections[upstream].stream?.isPaused = isPaused
            return
        }
        var interest = Interest.read
        if upstreams.connections[upstream].phase == .busy || upstreams.connections[upstream].phase == .tunnel {
            let exchange = upstreams.connections[upstream].exchange.index
            if !exchanges[exchange].isFlushed { interest.insert(.write) }
            // Backpressure: what the client does not take stays with the upstream.
            if !hasRoom(.answer, exchange) { interest.remove(.read) }
        }
        guard upstreams.connections[upstream].connection.interest != interest else { return }
        let token = Token(.upstream, upstreams.connections.handle(upstream)).bits
        upstreams.connections[upstream].connection.watch(interest, token: token, in: loop)
    }
}
