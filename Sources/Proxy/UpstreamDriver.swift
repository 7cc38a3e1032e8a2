import Glibc
import HTTP
import Telemetry
import Transport
import Wire

/// Why an upstream did not answer, or not to the end.
enum UpstreamLoss: Error, Equatable {
    case notReached(String)
    /// The gateway itself has no descriptor, port or memory left for a connection.
    case shortage
    case connectTimeout
    case handshakeFailed(String)
    case brokenWhileSending
    /// Closed before a byte of the answer.
    case closedUnanswered
    /// What came is no head of an answer.
    case badAnswer(HTTPFault)
    /// An answer, or an interim one, began and did not end.
    case brokenAnswer
    case timeout
    case tooManyConnections

    /// Whether nothing of the request can have been worked on.
    var reachedNobody: Bool {
        switch self {
        case .notReached, .shortage, .connectTimeout, .handshakeFailed, .tooManyConnections: true
        case .brokenWhileSending, .closedUnanswered, .badAnswer, .brokenAnswer, .timeout: false
        }
    }

    /// Whether the address is to blame.
    var countsAgainstAddress: Bool { self != .tooManyConnections && self != .shortage }

    /// Whether another try may fare better. Not once a byte of an answer has come: the work was done, or the upstream speaks
    /// nonsense. After a timeout it may be under way, what the gateway itself lacks it lacks everywhere, and connections are
    /// counted over all addresses.
    var mayPass: Bool {
        switch self {
        case .notReached, .connectTimeout, .handshakeFailed, .brokenWhileSending, .closedUnanswered: true
        case .badAnswer, .brokenAnswer, .timeout, .shortage, .tooManyConnections: false
        }
    }

    /// Why a connection could not even be begun.
    init(beginning fault: SystemFault) {
        switch fault.errno {
        case EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC, EADDRNOTAVAIL: self = .shortage
        default: self = .notReached(fault.reason)
        }
    }
}

/// Drives the upstream's side: getting a connection, using it, giving it back, and what to do when it is lost.
extension Worker {
    // MARK: a connection for an exchange

    /// Puts the exchange on a connection to its endpoint: the most recently used idle one, or a new one.
    mutating func dispatch(_ exchange: Int, _ scratch: inout Scratch) {
        let pool = exchanges[exchange].pool
        let endpoint = exchanges[exchange].endpoint
        directory.pools[pool].endpoints[endpoint].outstanding += 1
        noteAttempt(exchange)
        resume(exchange, mayWait: true, &scratch)
    }

    /// Takes the most recently used idle connection out of its list; closes those on which something came unasked.
    mutating func takeIdle(_ pool: Int, _ endpoint: Int) -> Int? {
        while true {
            let idle = Int(directory.pools[pool].endpoints[endpoint].idleHead)
            guard idle >= 0 else { return nil }
            let rested = now.monotonic.nanoseconds(since: upstreams[idle].idleSince)
            guard rested > settings.upstreamTrust * 1_000_000, upstreams[idle].channel.socket.isReadable else {
                directory.pools[pool].endpoints[endpoint].idleHead = upstreams[idle].nextIdle
                restEnded(idle)
                return idle
            }
            closeUpstream(idle)
        }
    }

    mutating func connect(_ exchange: Int, _ scratch: inout Scratch) {
        let pool = exchanges[exchange].pool
        let endpoint = exchanges[exchange].endpoint
        do throws(UpstreamLoss) {
            let upstream = try openUpstream(pool, endpoint)
            upstreams[upstream].holdsRoom = true
            attach(upstream, exchange)
        } catch {
            directory.pools[pool].connections.give()
            failed(exchange, error, wasUsed: false, &scratch)
        }
    }

    /// Starts a connection, for an exchange or a probe.
    mutating func openUpstream(_ pool: Int, _ endpoint: Int) throws(UpstreamLoss) -> Int {
        let socket: Socket
        switch Socket.connect(to: directory.pools[pool].endpoints[endpoint].place.address) {
        case .connected(let made), .inProgress(let made): socket = made
        case .failed(let fault): throw cannotBegin(fault)
        }
        let handle = upstreams.take()
        let upstream = Int(handle.index)
        upstreams[upstream].channel = Channel(socket: socket)
        upstreams[upstream].pool = pool
        upstreams[upstream].endpoint = endpoint
        upstreams[upstream].phase = .connecting
        upstreams[upstream].wasUsed = false
        upstreams[upstream].interest = .write
        directory.pools[pool].endpoints[endpoint].connections += 1
        upstreamTimers.set(
            upstream, deadline: now.monotonic.advanced(milliseconds: directory.pools[pool].settings.connectTimeout))
        do throws(SystemFault) {
            try loop.add(socket, token: Token(.upstream, handle).bits, .write)
        } catch {
            closeUpstream(upstream)
            throw cannotBegin(error)
        }
        return upstream
    }

    private func cannotBegin(_ fault: SystemFault) -> UpstreamLoss {
        let loss = UpstreamLoss(beginning: fault)
        if loss == .shortage { services.shortage(fault) }
        return loss
    }

    mutating func attach(_ upstream: Int, _ exchange: Int) {
        upstreams[upstream].exchange = exchangeHandle(exchange)
        exchanges[exchange].upstream = upstreamHandle(upstream)
    }

    func upstreamHandle(_ upstream: Int) -> Handle {
        Handle(index: UInt32(upstream), generation: upstreams.generation(upstream))
    }

    // MARK: events

    mutating func upstreamReady(_ upstream: Int, _ ready: Ready, _ scratch: inout Scratch) {
        let client = clientServed(by: upstream)
        switch upstreams[upstream].phase {
        case .free: return
        case .connecting: finishConnecting(upstream, &scratch)
        case .handshaking: continueUpstreamHandshake(upstream, &scratch)
        case .busy:
            let handle = upstreamHandle(upstream)
            if ready.writable { requestWritable(upstream, &scratch) }
            if ready.readable || ready.error || ready.hangup, upstreams.isCurrent(handle) {
                receiveAnswer(upstream, &scratch)
            }
        // Nothing was asked, so whatever comes ends the connection.
        case .idle: closeUpstream(upstream)
        case .probing: receiveProbe(upstream, &scratch)
        }
        goOn(client, &scratch)
    }

    private func clientServed(by upstream: Int) -> Handle {
        let exchange = upstreams[upstream].exchange
        return exchange.isNone ? .none : exchanges[Int(exchange.index)].client
    }

    /// After an event of its upstream, the client's connection may have more to do: a body to read on, the next request.
    private mutating func goOn(_ client: Handle, _ scratch: inout Scratch) {
        guard !client.isNone, clients.isCurrent(client) else { return }
        continueReading(Int(client.index), &scratch)
    }

    private mutating func finishConnecting(_ upstream: Int, _ scratch: inout Scratch) {
        let number = upstreams[upstream].channel.socket.takeError()
        guard number == 0 else { return lost(upstream, .notReached(systemErrorText(number)), &scratch) }
        let place = directory.pools[upstreams[upstream].pool].endpoints[upstreams[upstream].endpoint].place
        guard let tls = place.tls else { return connected(upstream, &scratch) }
        do {
            upstreams[upstream].channel.session = try TLSSession(
                tls, upstreams[upstream].channel.socket, serverName: place.serverName)
            upstreams[upstream].phase = .handshaking
        } catch {
            return lost(upstream, .handshakeFailed("\(error)"), &scratch)
        }
        continueUpstreamHandshake(upstream, &scratch)
    }

    private mutating func continueUpstreamHandshake(_ upstream: Int, _ scratch: inout Scratch) {
        switch upstreams[upstream].channel.handshake(&workspace) {
        case .done: connected(upstream, &scratch)
        case .wantRead: setUpstreamInterest(upstream, .read)
        case .wantWrite: setUpstreamInterest(upstream, .write)
        case .closed: lost(upstream, .handshakeFailed("closed"), &scratch)
        case .failed(let text): lost(upstream, .handshakeFailed(text), &scratch)
        }
    }

    /// The connection stands and carries its exchange, or its probe.
    mutating func connected(_ upstream: Int, _ scratch: inout Scratch) {
        guard !upstreams[upstream].exchange.isNone else { return sendProbe(upstream, &scratch) }
        let exchange = Int(upstreams[upstream].exchange.index)
        upstreams[upstream].phase = .busy
        exchanges[exchange].isConnected = true
        requestWritable(upstream, &scratch)
    }

    /// Sends what waits; then the body goes on where the upstream's slowness had stopped it. The client's clock starts
    /// anew, for it was not to blame.
    private mutating func requestWritable(_ upstream: Int, _ scratch: inout Scratch) {
        let exchange = Int(upstreams[upstream].exchange.index)
        let handle = upstreamHandle(upstream)
        upstreamTimers.set(upstream, deadline: now.monotonic.advanced(milliseconds: exchanges[exchange].timeout))
        flushRequest(exchange, &scratch)
        guard upstreams.isCurrent(handle), !exchanges[exchange].requestEnded, exchanges[exchange].isFlushed else { return }
        let client = Int(exchanges[exchange].client.index)
        startBodyClock(client)
    }

    mutating func upstreamTimedOut(_ upstream: Int, _ scratch: inout Scratch) {
        let served = clientServed(by: upstream)
        switch upstreams[upstream].phase {
        case .free: return
        case .connecting, .handshaking: lost(upstream, .connectTimeout, &scratch)
        case .idle, .probing: lost(upstream, .timeout, &scratch)
        case .busy:
            let exchange = Int(upstreams[upstream].exchange.index)
            let client = Int(exchanges[exchange].client.index)
            // Only the upstream's own silence counts, not the time that the client takes to send or to read.
            let hasAll = exchanges[exchange].requestEnded || exchanges[exchange].isCut
            guard !clients[client].hasUnsent, hasAll || !exchanges[exchange].isFlushed else {
                upstreamTimers.set(upstream, deadline: now.monotonic.advanced(milliseconds: exchanges[exchange].timeout))
                return
            }
            lost(upstream, .timeout, &scratch)
        }
        goOn(served, &scratch)
    }

    // MARK: the end of a connection

    /// The connection is of no more use: closes it, and sees to what it carried.
    mutating func lost(_ upstream: Int, _ loss: UpstreamLoss, _ scratch: inout Scratch) {
        let exchange = upstreams[upstream].exchange
        let wasUsed = upstreams[upstream].wasUsed
        let isProbe = upstreams[upstream].isProbe
        let pool = upstreams[upstream].pool
        let endpoint = upstreams[upstream].endpoint
        closeUpstream(upstream)
        if isProbe { return probeEnded(pool, endpoint, good: false) }
        guard !exchange.isNone else { return }
        failed(Int(exchange.index), loss, wasUsed: wasUsed, &scratch)
    }

    /// The exchange has lost its upstream: once more elsewhere if that is safe, else the client is told.
    mutating func failed(_ exchange: Int, _ loss: UpstreamLoss, wasUsed: Bool, _ scratch: inout Scratch) {
        let pool = exchanges[exchange].pool
        let endpoint = exchanges[exchange].endpoint
        directory.pools[pool].endpoints[endpoint].outstanding -= 1
        exchanges[exchange].upstream = .none
        exchanges[exchange].isConnected = false
        if !exchanges[exchange].answerStarted { noteAttemptEnded(exchange, status: 0) }
        // A kept connection that was closed meanwhile says nothing of the address.
        let isStale = wasUsed && (loss == .closedUnanswered || loss == .brokenWhileSending)
        if !isStale, loss.countsAgainstAddress {
            noteFailure(pool, endpoint, isBrokenAnswer: exchanges[exchange].answerStarted)
        }
        if mayRepeat(exchange, loss, isStale: isStale) {
            telemetry.metrics.upstreamRetry(
                upstream: exchanges[exchange].record.upstream, isStale ? .stale : loss.retryReason)
            exchanges[exchange].openingSent = 0
            exchanges[exchange].isCut = false
            exchanges[exchange].wasSent = false
            if case .endpoint(let next) = directory.pools[pool].choose(
                avoiding: isStale ? nil : endpoint, at: now.monotonic)
            {
                if next != endpoint { readdress(exchange, to: next) }
                return dispatch(exchange, &scratch)
            }
        }
        answerLost(exchange, loss, &scratch)
    }

    /// Turns the exchange to another address, whose base path and name its head must carry.
    private mutating func readdress(_ exchange: Int, to endpoint: Int) {
        exchanges[exchange].endpoint = endpoint
        var opening = ByteBuffer()
        swap(&opening, &exchanges[exchange].opening)
        ForwardedRequest.readdress(
            &opening, &exchanges[exchange].addressed, to: directory.pools[exchanges[exchange].pool].endpoints[endpoint].place)
        swap(&opening, &exchanges[exchange].opening)
    }

    private mutating func mayRepeat(_ exchange: Int, _ loss: UpstreamLoss, isStale: Bool) -> Bool {
        guard !exchanges[exchange].answerStarted, exchanges[exchange].isReplayable, loss.mayPass else { return false }
        let isUnseen = loss.reachedNobody || !exchanges[exchange].wasSent
        guard isUnseen || exchanges[exchange].method.isIdempotent else { return false }
        // Each stale connection is used up by this, so it ends by itself.
        if isStale { return true }
        guard exchanges[exchange].retriesLeft > 0, directory.pools[exchanges[exchange].pool].budget.spend() else {
            return false
        }
        exchanges[exchange].retriesLeft -= 1
        return true
    }

    private mutating func noteFailure(_ pool: Int, _ endpoint: Int, isBrokenAnswer: Bool) {
        let change = directory.pools[pool].endpoints[endpoint].health.requestFailed(
            at: now.monotonic, isBrokenAnswer: isBrokenAnswer)
        if change == .ejected { telemetry.metrics.upstreamEjected(upstream: directory.label(pool, telemetry.labels)) }
    }

    /// The exchange needs its connection no more: keeps it for the next one, or closes it.
    mutating func releaseUpstream(_ exchange: Int, reusable: Bool) {
        if exchanges[exchange].awaitsRoom {
            exchanges[exchange].awaitsRoom = false
            directory.pools[exchanges[exchange].pool].endpoints[exchanges[exchange].endpoint].outstanding -= 1
        }
        guard !exchanges[exchange].upstream.isNone else { return }
        let upstream = Int(exchanges[exchange].upstream.index)
        let pool = upstreams[upstream].pool
        let endpoint = upstreams[upstream].endpoint
        exchanges[exchange].upstream = .none
        exchanges[exchange].isConnected = false
        directory.pools[pool].endpoints[endpoint].outstanding -= 1
        upstreams[upstream].exchange = .none
        guard reusable, !directory.pools[pool].endpoints[endpoint].isRetired else { return closeUpstream(upstream) }
        upstreams[upstream].phase = .idle
        upstreams[upstream].wasUsed = true
        upstreams[upstream].idleSince = now.monotonic
        restBegan(upstream)
        upstreams[upstream].nextIdle = directory.pools[pool].endpoints[endpoint].idleHead
        directory.pools[pool].endpoints[endpoint].idleHead = Int32(upstream)
        upstreamTimers.set(upstream, deadline: now.monotonic.advanced(milliseconds: settings.upstreamIdleTimeout))
        refreshUpstreamInterest(upstream)
    }

    /// Gives the place back. What it carried must have been seen to.
    mutating func closeUpstream(_ upstream: Int) {
        let pool = upstreams[upstream].pool
        let endpoint = upstreams[upstream].endpoint
        if upstreams[upstream].phase == .idle { unlinkIdle(upstream, pool, endpoint) }
        if upstreams[upstream].holdsRoom { directory.pools[pool].connections.give() }
        upstreams[upstream].holdsRoom = false
        restEnded(upstream)
        upstreamTimers.clear(upstream)
        upstreams[upstream].channel.close()
        upstreams[upstream].phase = .free
        upstreams[upstream].exchange = .none
        upstreams[upstream].isProbe = false
        upstreams[upstream].headBegun = false
        upstreams[upstream].input = ByteBuffer()
        upstreams.release(upstream)
        directory.pools[pool].endpoints[endpoint].connections -= 1
    }

    /// Closes idle connections to addresses that are gone, and counts the others if their number is bounded now; a busy one
    /// ends with its answer.
    mutating func closeRetired() {
        for upstream in upstreams.indices where upstreams[upstream].phase == .idle {
            let isRetired = directory.pools[upstreams[upstream].pool].endpoints[upstreams[upstream].endpoint].isRetired
            if isRetired { closeUpstream(upstream) } else { restBegan(upstream) }
        }
    }

    private mutating func unlinkIdle(_ upstream: Int, _ pool: Int, _ endpoint: Int) {
        let next = upstreams[upstream].nextIdle
        guard directory.pools[pool].endpoints[endpoint].idleHead != Int32(upstream) else {
            directory.pools[pool].endpoints[endpoint].idleHead = next
            return
        }
        var at = Int(directory.pools[pool].endpoints[endpoint].idleHead)
        while at >= 0 {
            if upstreams[at].nextIdle == Int32(upstream) {
                upstreams[at].nextIdle = next
                return
            }
            at = Int(upstreams[at].nextIdle)
        }
    }

    // MARK: interest

    mutating func refreshUpstreamInterest(_ upstream: Int) {
        var interest = Interest.read
        if upstreams[upstream].phase == .busy {
            let exchange = Int(upstreams[upstream].exchange.index)
            if !exchanges[exchange].isFlushed { interest.insert(.write) }
            // What the client does not take is left with the upstream.
            if clients[Int(exchanges[exchange].client.index)].hasUnsent { interest.remove(.read) }
        }
        setUpstreamInterest(upstream, interest)
    }

    mutating func setUpstreamInterest(_ upstream: Int, _ interest: Interest) {
        guard upstreams[upstream].interest != interest else { return }
        upstreams[upstream].interest = interest
        watch(upstreams[upstream].channel.socket, Token(.upstream, upstreamHandle(upstream)), interest)
    }
}
