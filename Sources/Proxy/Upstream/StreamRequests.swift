import HTTP
import Gate
import Transport
import Wire

/// Requests on the streams of HTTP/2 connections: each finds a stream, or waits for a connection that is being established.
extension Worker {
    // MARK: a stream for an exchange

    /// Sends the request on a connection that has room, or makes it wait for one that is being established, or refuses it if too many
    /// wait; false if there is no such connection. `onNew`: only on one that has not been used.
    mutating func findStream(_ exchange: ExchangeIndex, onNew: Bool, _ scratch: inout Scratch) -> Bool {
        guard let connection = upstreams.connectionWithRoom(exchanges[exchange].attempt.endpoint, isNew: onNew) else { return false }
        let isEstablished = upstreams.connections[connection].phase == .multiplexed
        if !isEstablished, let loss = countPending(exchange) {
            failed(exchange, loss, wasUsed: false, &scratch)
            return true
        }
        guard addStream(exchange, on: connection) else { return false }
        if isEstablished {
            connected(exchanges[exchange].attempt.upstream.index, &scratch)
            pingIfSilent(connection)
        }
        return true
    }

    /// Attaches the exchange to the end of a new stream, which waits.
    @discardableResult
    mutating func addStream(_ exchange: ExchangeIndex, on connection: UpstreamIndex) -> Bool {
        guard let session = upstreams.connections[connection].session else { return false }
        attach(upstreams.addStream(connection, session), exchange)
        return true
    }

    /// The socket is connected, and TLS is established: HTTP/2 begins, where it is spoken.
    mutating func established(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        guard let session = upstreams.connections[upstream].session else { return connected(upstream, &scratch) }
        let connectsPlain = upstreams.connections[upstream].connection.isPlain
        guard connectsPlain || upstreams.connections[upstream].connection.speaksHTTP2 else { return fallBack(upstream, session, &scratch) }
        upstreams.directory[upstreams.connections[upstream].endpoint].choseHTTP1 = false
        upstreams.connections[upstream].phase = .greeting
        upstreams.sessions[session].heardAt = now.monotonic
        var output = ByteBuffer()
        upstreams.sessions[session].http2.start(into: &output)
        swap(&output, &upstreams.connections[upstream].output)
        upstreams.settleLater(upstream)
        // With TLS its SETTINGS may have come with the handshake, which the kernel does not report.
        if !connectsPlain { receiveFrames(upstream, &scratch) }
    }

    /// ALPN has chosen HTTP/1.1: the connection carries one of the requests that wait for it, the others look for another.
    private mutating func fallBack(_ upstream: UpstreamIndex, _ session: UpstreamSessionIndex, _ scratch: inout Scratch) {
        let endpoint = upstreams.connections[upstream].endpoint
        if !upstreams.directory[endpoint].choseHTTP1 {
            upstreams.directory[endpoint].choseHTTP1 = true
            services.choseHTTP1(upstreams.directory.pools[endpoint.pool].settings.name, upstreams.directory.address(endpoint))
        }
        let waiting = upstreams.detachWaiting(session)
        upstreams.releaseSession(upstream)
        guard !upstreams.connections[upstream].isProbe else { return sendProbe(upstream, &scratch) }
        guard let first = waiting.first else {
            upstreams.keep(upstream, at: now.monotonic, for: settings.upstreamIdleTimeout)
            return refreshUpstreamInterest(upstream)
        }
        let exchange = takeExchange(first.index)
        attach(upstream, exchange)
        upstreams.resumable.append(exchanges[exchange].client)
        connected(upstream, &scratch)
        lookElsewhere(waiting.dropFirst(), &scratch)
    }

    /// The upstream has said how many streams it takes: sends as many of the requests that wait, the others look elsewhere.
    mutating func sendWaiting(_ session: UpstreamSessionIndex, _ scratch: inout Scratch) {
        guard upstreams.takesStream(session) else {
            for end in upstreams.detachWaiting(session) where upstreams.connections.isCurrent(end) {
                upstreams.resumable.append(clientServed(by: end.index))
                lost(end.index, .refused, &scratch)
            }
            return
        }
        while let end = upstreams.sessions[session].waiting.first, upstreams.takesStream(session) {
            upstreams.resumable.append(clientServed(by: end))
            connected(end, &scratch)
        }
        lookElsewhere(upstreams.detachWaiting(session)[...], &scratch)
    }

    private mutating func lookElsewhere(_ waiting: ArraySlice<Handle<UpstreamConnection>>, _ scratch: inout Scratch) {
        for end in waiting where upstreams.connections.isCurrent(end) {
            let exchange = takeExchange(end.index)
            upstreams.resumable.append(exchanges[exchange].client)
            findConnection(exchange, mayWait: exchanges[exchange].rare?.copiedRoute == nil, &scratch)
        }
    }

    /// Takes the exchange from the end of a stream on which nothing was sent, and closes that.
    private mutating func takeExchange(_ end: UpstreamIndex) -> ExchangeIndex {
        let exchange = upstreams.connections[end].exchange.index
        exchanges[exchange].attempt.upstream = .none
        upstreams.connections[end].exchange = .none
        upstreams.close(end)
        return exchange
    }

    // MARK: the request

    /// There is room again for the request's content.
    mutating func continueRequest(_ end: UpstreamIndex, isTurn: Bool) -> Bool {
        guard upstreams.connections[end].phase == .busy else { return false }
        let exchange = upstreams.connections[end].exchange.index
        guard !exchanges[exchange].isFlushed else { return false }
        let before = exchanges[exchange].attempt.unsentCount
        flushRequest(exchange, isTurn: isTurn)
        guard exchanges[exchange].attempt.unsentCount < before else { return false }
        startAnswerClock(exchange, end)
        if exchanges[exchange].isFlushed {
            if !exchanges[exchange].state.hasWholeRequest {
                downstream.startBodyClock(exchanges[exchange].client.index, at: now.monotonic, settings)
            }
            upstreams.resumable.append(exchanges[exchange].client)
        }
        return true
    }

    /// Gives all streams turns, a frame each, until nothing waits, or the windows or the backlog end it.
    mutating func serveRequests(_ upstream: UpstreamIndex, _ session: UpstreamSessionIndex) {
        let count = upstreams.sessions[session].http2.streamCount
        var idle = 0
        while idle < count, upstreams.connections[upstream].output.count < UpstreamCarrier.maxBacklog {
            let turn = upstreams.sessions[session].turn
            let index = turn < count ? turn : 0
            upstreams.sessions[session].turn = index + 1
            let end = UpstreamIndex(number: upstreams.sessions[session].http2.owner(at: index))
            idle = continueRequest(end, isTurn: true) ? 0 : idle + 1
        }
    }
}
