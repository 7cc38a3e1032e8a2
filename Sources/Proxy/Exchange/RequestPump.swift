import Gate
import HTTP
import Transport
import Wire

/// Carries a request to where it goes: the head, then the body as it comes, held back by the slower side.
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
            from: downstream.clients[exchanges[exchange].client.index].peer, to: upstreams.directory[endpoint].address,
            sendsOwnHost: upstreams.directory.pools[pool].settings.sendsOwnHost, filtered: fields, into: &head)
        swap(&head, &exchanges[exchange].replayBuffer)
        exchanges[exchange].state.forward(isWhole: !scratch.request.framing.hasContent)
        return true
    }

    // MARK: body

    /// Whether chunks that the client has sent together go on together.
    func gathersChunks(_ client: ClientIndex) -> Bool {
        let exchange = downstream.clients[client].exchange
        return !exchange.isNone && exchanges[exchange.index].gathersChunks
    }

    /// Moves the first `count` bytes of `input`, which are content of the client's request, to where they go.
    mutating func pass(_ count: Int, of input: inout ByteBuffer, _ client: ClientIndex, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange.index
        exchanges[exchange].bodyCount += UInt64(count)
        guard exchanges[exchange].bodyCount <= exchanges[exchange].bodyLimit else {
            input.removeAll()
            return faulted(client, HTTPFault(.contentTooLarge), &scratch)
        }
        switch BodyRoute(request: exchanges[exchange].state) {
        case .copy: copyContent(count, of: &input, exchange)
        case .collect:
            exchanges[exchange].replayBuffer.append(input.readable.extracting(0..<count))
            input.discard(count)
        case .discard:
            exchanges[exchange].state.streamed()
            input.discard(count)
        case .splice, .filter: preconditionFailure("content of a request that is spliced is not read, and none is filtered")
        }
    }

    /// Sends content to the upstream, or queues it: behind the head while there is no connection, behind other chunks, or
    /// behind what the socket did not take.
    private mutating func copyContent(_ count: Int, of input: inout ByteBuffer, _ exchange: ExchangeIndex) {
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
        var left = count
        while left > 0 {
            switch upstreams.connections[upstream].connection.send(input.readable.extracting(0..<left)) {
            case .done(let sent):
                input.discard(sent)
                left -= sent
            case .wouldBlock:
                exchanges[exchange].pending.take(left, of: &input)
                return refreshUpstreamInterest(upstream)
            case .closed, .failed:
                input.discard(left)
                return upstreamStoppedReading(exchange, upstream)
            }
        }
    }

    /// The upstream may have answered before it stopped reading, so its answer is looked for all the same: the loop reports
    /// the lost connection as readable.
    mutating func upstreamStoppedReading(_ exchange: ExchangeIndex, _ upstream: UpstreamIndex) {
        exchanges[exchange].state.stoppedReading()
        if exchanges[exchange].pipedRequest > 0 { dropPipe(exchange) }
        exchanges[exchange].pending.reuse()
        refreshUpstreamInterest(upstream)
    }

    /// The body ends with the trailer fields in `scratch.trailers`, slices of `bytes`; its end follows.
    mutating func endContent(_ client: ClientIndex, trailers bytes: RawSpan, _ scratch: inout Scratch) {
        let handle = downstream.clients[client].exchange
        // Trailers of a body that is dropped, or collected for a handler, are of no use.
        guard !handle.isNone, exchanges[handle.index].requestIsChunked, exchanges[handle.index].passesTrailers else { return }
        var end = ByteBuffer()
        swap(&end, &scratch.output)
        end.removeAll()
        Trailers.writeEnd(scratch.trailers, bytes, into: &end)
        appendEnd(handle.index, end.readable)
        end.removeAll()
        swap(&end, &scratch.output)
        exchanges[handle.index].requestIsChunked = false
    }

    /// The request's last byte was received.
    mutating func endContent(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        if exchanges[exchange].requestIsChunked { appendEnd(exchange, ChunkWriter.lastChunk.rawBytes) }
        exchanges[exchange].state.requestReceived()
        switch exchanges[exchange].state.phase {
        case .collecting: startHandler(exchange)
        case .relaying: flushRequest(exchange)
        case .deciding, .waiting, .connecting, .answered: break
        }
    }

    /// As long as the replay buffer is all that there is, it stays whole, to be sent again.
    private mutating func appendEnd(_ exchange: ExchangeIndex, _ end: RawSpan) {
        switch exchanges[exchange].state.delivery {
        case .nothing, .replayable: exchanges[exchange].replayBuffer.append(end)
        case .streamed: exchanges[exchange].pending.append(end)
        }
    }

    /// Sends chunks that were put behind each other.
    mutating func flushGathered(_ client: ClientIndex, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone, exchanges[exchange.index].state.phase == .relaying else { return }
        flushRequest(exchange.index)
    }

    /// Sends what waits of the request, whose connection stands.
    mutating func flushRequest(_ exchange: ExchangeIndex) {
        let upstream = exchanges[exchange].upstream.index
        if exchanges[exchange].pipedRequest > 0, !drainRequest(exchange) { return }
        while !exchanges[exchange].isFlushed {
            switch sendOnce(exchange, on: upstream) {
            case .done: break
            case .wouldBlock: return refreshUpstreamInterest(upstream)
            case .closed, .failed: return upstreamStoppedReading(exchange, upstream)
            }
        }
        refreshUpstreamInterest(upstream)
    }

    private mutating func sendOnce(_ exchange: ExchangeIndex, on upstream: UpstreamIndex) -> IOOutcome {
        let isReplay = exchanges[exchange].replaySent < exchanges[exchange].replayBuffer.count
        // Two tables are not borrowed at once: the buffer is moved out of its exchange while it is sent.
        var bytes = exchanges[exchange].takeWaiting(isReplay)
        let outcome = upstreams.connections[upstream].connection.send(bytes, from: isReplay ? exchanges[exchange].replaySent : 0)
        // Of what is sealed for TLS, a part may have gone out although the whole has not.
        if !upstreams.connections[upstream].connection.isPlain { exchanges[exchange].state.sent() }
        if case .done(let count) = outcome {
            exchanges[exchange].state.sent()
            if isReplay {
                exchanges[exchange].replaySent += count
            } else {
                bytes.discard(count)
            }
        }
        exchanges[exchange].putBack(bytes, isReplay)
        return outcome
    }
}

extension ByteBuffer {
    /// Less is copied: the buffers that change places are large ones.
    private static var leastSwapped: Int { 16 * 1_024 }

    /// Moves the first `count` bytes of `input` behind what waits here. Where nothing waits and they are all that there is,
    /// the buffers change places and nothing is copied.
    mutating func take(_ count: Int, of input: inout ByteBuffer) {
        if isEmpty, count == input.count, count >= Self.leastSwapped { return swap(&self, &input) }
        append(input.readable.extracting(0..<count))
        input.discard(count)
    }
}
