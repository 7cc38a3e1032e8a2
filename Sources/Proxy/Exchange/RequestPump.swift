import Gate
import HTTP
import Transport
import Wire

/// Carries a request to its upstream or handler: the head, then the body as it arrives, with backpressure.
extension Worker {
    // MARK: starting

    /// Fills the exchange from the parsed head and the decision, and writes the head for the upstream.
    ///
    /// - Returns: whether any address of the upstream may be used now.
    mutating func prepareForward(
        _ exchange: ExchangeIndex, upstream number: Int, _ bytes: RawSpan, _ scratch: inout Scratch
    ) -> Bool {
        guard let pool = upstreams.directory.pool(of: number),
            let endpoint = upstreams.directory.choose(pool, avoiding: nil, at: now.monotonic)
        else { return false }
        exchanges[exchange].endpoint = endpoint
        exchanges[exchange].requestIsChunked = scratch.request.framing == .chunked
        exchanges[exchange].passesTrailers = scratch.decision.passesTrailers
        exchanges[exchange].record.upstream = upstreams.directory.label(pool, telemetry.labels)
        exchanges[exchange].bodyLimit = admission.bodyLimit(scratch.decision)
        exchanges[exchange].timeout = admission.timeoutMilliseconds(scratch.decision) ?? upstreams.directory.pools[pool].settings.timeout
        exchanges[exchange].retriesLeft = admission.retries(scratch.decision) ?? upstreams.directory.pools[pool].settings.retries
        exchanges[exchange].life = admission.streamLife(scratch.decision)
        exchanges[exchange].answerEdits.append(scratch.decision.answerEdits)
        let filter = admission.filter(scratch.decision)
        let tier = scratch.decision.tier ?? .lowest
        if let filter { exchanges[exchange].filter.reset(filter, tier: tier) }
        let fields = filter.flatMap { $0.isShadow ? nil : FilteredFields(plan: $0, tier: tier) }
        var head = ByteBuffer()
        swap(&head, &exchanges[exchange].replayBuffer)
        exchanges[exchange].endpointSlices = ForwardedRequest.write(
            scratch.request, bytes, scratch.decision, ids: exchanges[exchange].ids,
            from: downstream.clients[exchanges[exchange].client.index].peer, to: upstreams.directory.address(endpoint),
            sendsOwnHost: upstreams.directory.pools[pool].settings.sendsOwnHost, filtered: fields, into: &head)
        swap(&head, &exchanges[exchange].replayBuffer)
        exchanges[exchange].state.forward(isWhole: !scratch.request.framing.hasContent)
        return true
    }

    // MARK: body

    /// Moves the first `count` bytes of `input`, which are content of the request, along their route.
    mutating func pumpRequest(
        _ count: Int, of input: inout ByteBuffer, _ exchange: ExchangeIndex, _ client: ClientIndex, _ scratch: inout Scratch
    ) {
        exchanges[exchange].record.bytesIn += UInt64(count)
        guard exchanges[exchange].record.bytesIn <= exchanges[exchange].bodyLimit else {
            input.removeAll()
            return faulted(client, HTTPFault(.contentTooLarge), &scratch)
        }
        switch BodyRoute(request: exchanges[exchange].state) {
        case .copy: copyRequest(count, of: &input, exchange)
        case .collect:
            exchanges[exchange].replayBuffer.append(input.readable.extracting(0..<count))
            input.discard(count)
        case .discard:
            exchanges[exchange].state.streamed()
            input.discard(count)
        case .splice, .filter: preconditionFailure("spliced content is not read, and no request is filtered")
        }
    }

    /// Sends content to the upstream, or queues it: in the replay buffer while there is no connection, else behind other chunks or
    /// behind what the socket has not taken.
    private mutating func copyRequest(_ count: Int, of input: inout ByteBuffer, _ exchange: ExchangeIndex) {
        let isChunked = exchanges[exchange].requestIsChunked
        guard exchanges[exchange].state.phase == .relaying else {
            exchanges[exchange].replayBuffer.appendContent(input.readable.extracting(0..<count), chunked: isChunked)
            return input.discard(count)
        }
        exchanges[exchange].state.streamed()
        if isChunked {
            exchanges[exchange].pending.appendContent(input.readable.extracting(0..<count), chunked: true)
            return input.discard(count)
        }
        let upstream = exchanges[exchange].upstream.index
        switch upstreams.connections[upstream].connection.send(count, of: &input, queueing: &exchanges[exchange].pending) {
        case .sent: break
        case .queued: refreshUpstreamInterest(upstream)
        case .lost: upstreamStoppedReading(exchange, upstream)
        }
    }

    /// Sending to the upstream failed. It may have answered before that, so its answer is still read: the loop reports the lost
    /// connection as readable.
    mutating func upstreamStoppedReading(_ exchange: ExchangeIndex, _ upstream: UpstreamIndex) {
        exchanges[exchange].state.stoppedReading()
        if exchanges[exchange].hasPiped(.request) { dropPipe(exchange) }
        exchanges[exchange].pending.reuse()
        refreshUpstreamInterest(upstream)
    }

    /// Passes on the trailer fields in `scratch.trailers`, slices of `bytes`, which end the request's content.
    mutating func pumpTrailers(_ client: ClientIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange
        // A body that is dropped, or collected for a handler, has no use for trailers.
        guard !exchange.isNone, exchanges[exchange.index].requestIsChunked, exchanges[exchange.index].passesTrailers else { return }
        var end = scratch.takeOutput()
        Trailers.writeEnd(scratch.trailers, bytes, into: &end)
        exchanges[exchange.index].appendEnd(end.readable)
        scratch.putBackOutput(end)
        exchanges[exchange.index].requestIsChunked = false
    }

    /// The request's last byte was received.
    mutating func requestReceived(_ exchange: ExchangeIndex) {
        if exchanges[exchange].requestIsChunked { exchanges[exchange].appendEnd(ChunkWriter.lastChunk.rawBytes) }
        exchanges[exchange].state.requestReceived()
        switch exchanges[exchange].state.phase {
        case .collecting: startHandler(exchange)
        case .relaying: flushRequest(exchange)
        case .deciding, .waiting, .connecting, .answered: break
        }
    }

    /// Sends what waits of the request, whose connection is established.
    mutating func flushRequest(_ exchange: ExchangeIndex) {
        let upstream = exchanges[exchange].upstream.index
        while !exchanges[exchange].isFlushed {
            switch exchanges[exchange].sendWaiting(on: &upstreams.connections[upstream].connection) {
            case .done: break
            case .wouldBlock: return refreshUpstreamInterest(upstream)
            case .closed, .failed: return upstreamStoppedReading(exchange, upstream)
            }
        }
        refreshUpstreamInterest(upstream)
    }
}
