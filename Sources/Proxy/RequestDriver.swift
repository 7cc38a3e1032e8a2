import Gate
import HTTP
import Transport
import Wire

/// Carries a request to its upstream: the head, then the body as it comes, held back by the slower side.
extension Worker {
    /// Of head and early body, what is kept for sending again.
    private static var mostKept: Int { 16 * 1_024 }

    // MARK: starting

    /// Starts the exchange for the request whose head and decision are in `scratch`; consumes its head and what of the
    /// body can be used at once.
    mutating func forward(_ client: Int, upstream target: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        guard let exchange = prepareForward(client, upstream: target, &input, &scratch) else {
            return refuse(client, .unavailable(.upstream, retryAfterSeconds: 1), &input, &scratch)
        }
        directory.pools[exchanges[exchange].pool].budget.requestSent()
        let handle = exchangeHandle(exchange)
        if exchanges[exchange].requestEnded { return dispatch(exchange, &scratch) }
        apply(clients[client].messages.bodyWanted(hasArrived: !input.isEmpty), client, &scratch)
        guard exchanges.isCurrent(handle) else { return }
        advance(client, &input, &scratch)
        if exchanges.isCurrent(handle) { dispatch(exchange, &scratch) }
    }

    /// Makes the exchange ready to go, and consumes the head; nil if no address of the upstream can take it.
    mutating func prepareForward(
        _ client: Int, upstream target: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) -> Int? {
        guard let pool = directory.place(of: target),
            case .endpoint(let endpoint) = directory.pools[pool].choose(avoiding: nil, at: now.monotonic)
        else { return nil }
        let exchange = openExchange(client)
        exchanges[exchange].pool = pool
        exchanges[exchange].endpoint = endpoint
        prepare(exchange, client, input.readable, &scratch)
        input.discard(scratch.request.length)
        return exchange
    }

    /// Starts an exchange that was ready and waited; what has come of its body lies with the client.
    mutating func beginHeldForward(_ exchange: Int, _ client: Int, _ scratch: inout Scratch) {
        directory.pools[exchanges[exchange].pool].budget.requestSent()
        let handle = exchangeHandle(exchange)
        if !exchanges[exchange].requestEnded {
            apply(clients[client].messages.bodyWanted(hasArrived: !clients[client].input.isEmpty), client, &scratch)
            guard exchanges.isCurrent(handle) else { return }
            continueReading(client, &scratch)
        }
        if exchanges.isCurrent(handle) { dispatch(exchange, &scratch) }
    }

    func exchangeHandle(_ exchange: Int) -> Handle {
        Handle(index: UInt32(exchange), generation: exchanges.generation(exchange))
    }

    mutating func openExchange(_ client: Int) -> Int {
        let handle = exchanges.take()
        exchanges[Int(handle.index)].reset(for: clientHandle(client))
        clients[client].parking = .none
        clients[client].refresh = nil
        clients[client].exchange = handle
        return Int(handle.index)
    }

    /// Fills the exchange from the parsed head and the decision.
    private mutating func prepare(_ exchange: Int, _ client: Int, _ bytes: RawSpan, _ scratch: inout Scratch) {
        let pool = exchanges[exchange].pool
        note(exchange, client, bytes, &scratch)
        exchanges[exchange].requestIsChunked = scratch.request.framing == .chunked
        exchanges[exchange].passesRequestTrailers = scratch.decision.passesTrailers
        exchanges[exchange].requestEnded = clients[client].body.isAtEnd
        exchanges[exchange].record.upstream = directory.label(pool, telemetry.labels)
        exchanges[exchange].bodyLimit = admission.bodyLimit(scratch.decision)
        exchanges[exchange].timeout = admission.timeoutMilliseconds(scratch.decision) ?? directory.pools[pool].settings.timeout
        exchanges[exchange].retriesLeft = admission.retries(scratch.decision) ?? directory.pools[pool].settings.retries
        exchanges[exchange].life = admission.streamLife(scratch.decision)
        exchanges[exchange].lines.append(scratch.decision.refreshLines)
        exchanges[exchange].lines.append(scratch.decision.limitLines)
        exchanges[exchange].saysLimits = scratch.decision.limitLines.byteCount > 0
        let filter = admission.filter(scratch.decision)
        let tier = scratch.decision.tier ?? .lowest
        if let filter { exchanges[exchange].filter.reset(filter, tier: tier) }
        let fields = filter.flatMap { $0.isShadow ? nil : FilteredFields(plan: $0, tier: tier) }
        var opening = ByteBuffer()
        swap(&opening, &exchanges[exchange].opening)
        exchanges[exchange].addressed = ForwardedRequest.write(
            scratch.request, bytes, scratch.decision, marks: exchanges[exchange].marks, from: clients[client].peer,
            to: directory.pools[pool].endpoints[exchanges[exchange].endpoint].place,
            sendsOwnHost: directory.pools[pool].settings.sendsOwnHost, filtered: fields, into: &opening)
        swap(&opening, &exchanges[exchange].opening)
    }

    // MARK: body

    /// Whether more of the body has a place to go.
    func takesBody(_ exchange: Int) -> Bool {
        if exchanges[exchange].isLocal || exchanges[exchange].isCut { return true }
        if exchanges[exchange].isConnected { return exchanges[exchange].isFlushed }
        return exchanges[exchange].opening.count < Self.mostKept
    }

    /// Moves content from `input` towards the upstream, as much as may go now.
    mutating func relayBody(_ exchange: Int, _ client: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let handle = exchangeHandle(exchange)
        // All chunks that were received together go on together.
        let gathers = exchanges[exchange].requestIsChunked && exchanges[exchange].isConnected && takesBody(exchange)
        // The end of a body takes no room: it is seen at once, not when the upstream or the client moves again.
        while exchanges.isCurrent(handle), !exchanges[exchange].requestEnded,
            clients[client].body.isAtEnd || gathers || takesBody(exchange)
        {
            switch clients[client].body.next(input.readable) {
            case .data(let skip, let count):
                guard admitContent(count, exchange, client, &input, &scratch) else { return }
                input.discard(skip)
                passContent(count, of: &input, exchange)
            case .needMore(let consumed):
                input.discard(consumed)
                if gathers { flushRequest(exchange, &scratch) }
                return
            case .trailers(let slice, let consumed):
                if let fault = parseTrailers(input.readable, slice, into: &scratch.trailers) {
                    input.removeAll()
                    return faulted(client, fault, &scratch)
                }
                endBody(exchange, client, hasTrailers: true, input.readable, &scratch)
                input.discard(consumed)
            case .end(let consumed):
                input.discard(consumed)
                endBody(exchange, client, hasTrailers: false, input.readable, &scratch)
            case .fault(let fault):
                input.removeAll()
                faulted(client, fault, &scratch)
                return
            }
        }
    }

    /// Counts content against the route's limit; past it the request is refused.
    private mutating func admitContent(
        _ count: Int, _ exchange: Int, _ client: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) -> Bool {
        exchanges[exchange].bodyCount += UInt64(count)
        guard exchanges[exchange].bodyCount > exchanges[exchange].bodyLimit else { return true }
        input.removeAll()
        faulted(client, HTTPFault(.contentTooLarge), &scratch)
        return false
    }

    /// Sends the first `count` bytes of `input`, which are content, or queues them: behind the head while there is no
    /// connection, behind other chunks, or behind what the socket did not take. Consumes them.
    private mutating func passContent(_ count: Int, of input: inout ByteBuffer, _ exchange: Int) {
        let isChunked = exchanges[exchange].requestIsChunked
        if !exchanges[exchange].isConnected {
            exchanges[exchange].opening.appendContent(input.readable.extracting(0..<count), chunked: isChunked)
            return input.discard(count)
        }
        exchanges[exchange].isReplayable = false
        if exchanges[exchange].isCut { return input.discard(count) }
        if isChunked {
            exchanges[exchange].pending.appendContent(input.readable.extracting(0..<count), chunked: true)
            return input.discard(count)
        }
        let upstream = Int(exchanges[exchange].upstream.index)
        var left = count
        while left > 0 {
            switch upstreams[upstream].channel.send(input.readable.extracting(0..<left), &workspace) {
            case .done(let sent):
                input.discard(sent)
                left -= sent
            case .wouldBlock:
                exchanges[exchange].pending.take(left, of: &input)
                return refreshUpstreamInterest(upstream)
            case .closed, .failed:
                input.discard(left)
                return cutRequest(exchange, upstream)
            }
        }
    }

    /// The upstream takes no more of the request. It may have answered before it stopped reading, so the answer is looked
    /// for all the same: the loop reports the lost connection as readable.
    mutating func cutRequest(_ exchange: Int, _ upstream: Int) {
        exchanges[exchange].isCut = true
        if exchanges[exchange].pipedRequest > 0 { dropPipe(exchange) }
        exchanges[exchange].pending.reuse()
        refreshUpstreamInterest(upstream)
    }

    private mutating func endBody(
        _ exchange: Int, _ client: Int, hasTrailers: Bool, _ bytes: RawSpan, _ scratch: inout Scratch
    ) {
        exchanges[exchange].requestEnded = true
        if exchanges[exchange].requestIsChunked {
            var end = ByteBuffer()
            swap(&end, &scratch.output)
            end.removeAll()
            if hasTrailers && exchanges[exchange].passesRequestTrailers {
                Trailers.writeEnd(scratch.trailers, bytes, into: &end)
            } else {
                end.append(ChunkWriter.lastChunk)
            }
            // As long as the opening is all that there is, it stays whole, to be sent again.
            if exchanges[exchange].isReplayable {
                exchanges[exchange].opening.append(end.readable)
            } else {
                exchanges[exchange].pending.append(end.readable)
            }
            end.removeAll()
            swap(&end, &scratch.output)
        }
        apply(clients[client].messages.bodyReceived(), client, &scratch)
        // Also where the answer is under way already: what comes now is the next request's.
        if clients[client].reading == .body { clients[client].reading = .nothing }
        flushRequest(exchange, &scratch)
    }

    /// Sends what waits of the request; does nothing while its connection is not there.
    mutating func flushRequest(_ exchange: Int, _ scratch: inout Scratch) {
        guard exchanges[exchange].isConnected else { return }
        let upstream = Int(exchanges[exchange].upstream.index)
        if exchanges[exchange].pipedRequest > 0, !drainRequest(exchange) { return }
        while !exchanges[exchange].isFlushed {
            switch sendOnce(exchange, on: upstream) {
            case .done: break
            case .wouldBlock: return refreshUpstreamInterest(upstream)
            case .closed, .failed: return cutRequest(exchange, upstream)
            }
        }
        refreshUpstreamInterest(upstream)
    }

    private mutating func sendOnce(_ exchange: Int, on upstream: Int) -> IOOutcome {
        let isOpening = exchanges[exchange].openingSent < exchanges[exchange].opening.count
        // Two tables are not borrowed at once: the buffer is moved out of its exchange while it is sent.
        var bytes = exchanges[exchange].takeWaiting(isOpening)
        let outcome = upstreams[upstream].channel.send(
            bytes, from: isOpening ? exchanges[exchange].openingSent : 0, &workspace)
        // Of what is sealed for TLS, a part may have gone out although the whole has not.
        if upstreams[upstream].channel.session != nil { exchanges[exchange].wasSent = true }
        if case .done(let count) = outcome {
            exchanges[exchange].wasSent = true
            if isOpening {
                exchanges[exchange].openingSent += count
            } else {
                bytes.discard(count)
            }
        }
        exchanges[exchange].putBack(bytes, isOpening)
        return outcome
    }
}

extension ByteBuffer {
    /// Less is copied: the buffers that change places are large ones.
    private static var leastSwapped: Int { 16 * 1_024 }

    /// Moves the first `count` bytes of `input` behind what waits here. Where nothing waits and they are all that there is, the
    /// buffers change places and nothing is copied.
    mutating func take(_ count: Int, of input: inout ByteBuffer) {
        if isEmpty, count == input.count, count >= Self.leastSwapped { return swap(&self, &input) }
        append(input.readable.extracting(0..<count))
        input.discard(count)
    }

    /// Appends content in the coding that the message has.
    mutating func appendContent(_ content: RawSpan, chunked: Bool) {
        guard chunked else { return append(content) }
        ChunkWriter.appendSize(content.byteCount, to: &self)
        append(content)
        append(ChunkWriter.chunkEnd)
    }
}
