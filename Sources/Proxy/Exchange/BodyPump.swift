import Gate
import HTTP
import Transport
import Wire

/// One of the two bodies of an exchange.
enum BodyDirection: Sendable {
    /// From the client to the upstream, or to a handler of the gateway.
    case request
    /// From the upstream to the client.
    case answer
}

/// The destination of content that was read. Spliced content is not read and takes none of these; see `Worker.splice`.
enum BodyRoute: Equatable, Sendable {
    /// Sent to the other side, or queued behind what waits for it.
    case copy
    /// Through the JSON filter of the route.
    case filter
    /// Into the body of a request that the gateway answers itself.
    case collect
    /// Dropped: the upstream takes no more.
    case discard

    init(_ direction: BodyDirection, _ state: ExchangeState, isFiltering: Bool) {
        switch (direction, state.phase) {
        case (.request, .collecting): self = .collect
        case (.request, .connecting), (.request, .relaying): self = state.upstreamStoppedReading ? .discard : .copy
        case (.request, .finishing): self = .discard
        case (.answer, .relaying): self = isFiltering ? .filter : .copy
        case (.answer, .collecting), (.answer, .connecting), (.answer, .finishing), (_, .deciding), (_, .waiting), (_, .producing), (_, .tunnel), (_, .answered):
            preconditionFailure("content was read that has nowhere to go")
        }
    }
}

/// Relays both bodies of an exchange, with backpressure. `ClientDriver` and `AnswerDriver` receive them.
extension Worker {
    /// Up to this many bytes are gathered behind the head of an answer and sent with it; more are sent from where they were received.
    private static var mostGathered: Int { 32 * 1_024 }

    /// Backpressure: whether the receiver of this body takes more content. Without room, the body is not read.
    func hasRoom(_ direction: BodyDirection, _ exchange: ExchangeIndex) -> Bool {
        switch direction {
        case .request: exchanges[exchange].takesBody
        case .answer: downstream.hasRoom(exchanges[exchange].client.index)
        }
    }

    // MARK: content

    /// Moves the first `count` bytes of `input`, which are content of this body, along their route. The exchange may be over
    /// afterwards.
    mutating func pump(
        _ direction: BodyDirection, _ exchange: ExchangeIndex, _ count: Int, of input: inout ByteBuffer, _ scratch: inout Scratch
    ) {
        let route = BodyRoute(direction, exchanges[exchange].state, isFiltering: exchanges[exchange].filter.isFiltering)
        // Instead of filtered content the client gets the filter's output, which is counted there.
        if route != .filter { exchanges[exchange].passed(count, direction) }
        guard direction == .answer || exchanges[exchange].record.bytesIn <= exchanges[exchange].request.bodyLimit else {
            input.removeAll()
            return faulted(exchanges[exchange].client.index, HTTPFault(.contentTooLarge), &scratch)
        }
        switch route {
        case .copy where direction == .answer: return copyAnswer(exchange, count, of: &input, &scratch)
        case .copy, .collect:
            guard exchanges[exchange].queue(input.readable.extracting(0..<count)) else {
                return sendToUpstream(exchange, count, of: &input)
            }
        case .filter:
            do throws(FilterFailure) {
                try exchanges[exchange].filter.feed(input.readable.extracting(0..<count))
            } catch {
                return refuseAnswer(exchange, error, &scratch)
            }
        case .discard: exchanges[exchange].state.streamed()
        }
        input.discard(count)
    }

    /// Gathers content of an answer, or sends it after what was gathered.
    private mutating func copyAnswer(
        _ exchange: ExchangeIndex, _ count: Int, of input: inout ByteBuffer, _ scratch: inout Scratch
    ) {
        var count = count
        if !exchanges[exchange].answer.frames.isNone {
            guard let left = followFrames(exchange, count, of: &input, &scratch), left > 0 else { return }
            count = left
        }
        let client = exchanges[exchange].client.index
        if exchanges[exchange].filter.isJudging { watch(exchange, input.readable.extracting(0..<count)) }
        if downstream.clients[client].http.framesContent || scratch.output.count + count <= Self.mostGathered {
            downstream.clients[client].http.sendContent(
                input.readable.extracting(0..<count), into: &scratch.output)
            return input.discard(count)
        }
        if sendGathered(exchanges.handle(exchange), &scratch) { sendToClient(client, count, of: &input, &scratch) }
    }

    /// Sends the client what was gathered of its answer; returns whether the exchange still exists.
    mutating func sendGathered(_ exchange: Handle<Exchange>, _ scratch: inout Scratch) -> Bool {
        guard !scratch.output.isEmpty else { return true }
        var out = ByteBuffer()
        swap(&out, &scratch.output)
        sendToClient(exchanges[exchange.index].client.index, out.count, of: &out, &scratch)
        scratch.putBackOutput(out)
        return exchanges.isCurrent(exchange)
    }

    // MARK: to the upstream

    /// Sends the first `count` bytes of `input`, or queues what the socket does not take, and consumes them.
    mutating func sendToUpstream(_ exchange: ExchangeIndex, _ count: Int, of input: inout ByteBuffer) {
        let upstream = exchanges[exchange].attempt.upstream.index
        if upstreams.connections[upstream].isStream { return sendOnStream(exchange, upstream, count, of: &input) }
        switch upstreams.connections[upstream].connection.send(count, of: &input, queueing: &exchanges[exchange].buffers.pending) {
        case .sent: break
        case .queued: refreshUpstreamInterest(upstream)
        case .lost: upstreamStoppedReading(exchange, upstream)
        }
    }

    /// Sends what waits of the request, whose connection is established.
    mutating func flushRequest(_ exchange: ExchangeIndex) {
        let upstream = exchanges[exchange].attempt.upstream.index
        if upstreams.connections[upstream].isStream { return writeRequest(exchange, upstream, isTurn: false) }
        while !exchanges[exchange].isFlushed {
            switch exchanges[exchange].sendWaiting(on: &upstreams.connections[upstream].connection) {
            case .done: break
            case .wouldBlock: return refreshUpstreamInterest(upstream)
            case .closed, .failed: return upstreamStoppedReading(exchange, upstream)
            }
        }
        refreshUpstreamInterest(upstream)
    }

    /// Sending to the upstream failed. It may have answered before that, so its answer is still read: the loop reports the lost
    /// connection as readable.
    private mutating func upstreamStoppedReading(_ exchange: ExchangeIndex, _ upstream: UpstreamIndex) {
        exchanges[exchange].state.stoppedReading()
        if exchanges[exchange].hasPiped(.request) { dropPipe(exchange) }
        exchanges[exchange].buffers.pending.reuse()
        refreshUpstreamInterest(upstream)
    }

    // MARK: ends

    /// Passes on the trailer fields in `scratch.trailers`, the first `length` bytes of `input`, if their receiver gets them; returns
    /// whether: then they have ended the content.
    @discardableResult
    mutating func pumpTrailers(
        _ direction: BodyDirection, _ exchange: ExchangeIndex, _ length: Int, of input: inout ByteBuffer, _ scratch: inout Scratch
    ) -> Bool {
        if direction == .answer, exchanges[exchange].request.dialect == .grpc { noteGRPCStatus(exchange, scratch.trailers, input.readable) }
        let passes =
            switch direction {
            // A body that is dropped, or collected for a handler, has no use for them.
            case .request:
                (exchanges[exchange].attempt.isChunked || exchanges[exchange].attempt.isForHTTP2) && exchanges[exchange].request.passesTrailers
            // Those of a filtered answer describe the upstream's content, not the client's.
            case .answer:
                downstream.clients[exchanges[exchange].client.index].http.mayHaveTrailers && !exchanges[exchange].filter.isFiltering
            }
        if passes, direction == .answer, downstream.clients[exchanges[exchange].client.index].isStream {
            Trailers.writeLines(scratch.trailers, input.readable, into: &downstream.clients[exchanges[exchange].client.index].trailers)
        } else if passes, direction == .request, exchanges[exchange].attempt.isForHTTP2 {
            Trailers.writeLines(scratch.trailers, input.readable, into: &exchanges[exchange].buffers.trailers)
        } else if passes {
            Trailers.writeEnd(scratch.trailers, input.readable, into: &scratch.output)
            if direction == .request {
                exchanges[exchange].appendEnd(scratch.output.readable)
                scratch.output.removeAll()
            }
        }
        input.discard(length)
        return passes
    }

    /// The request's last byte was received.
    mutating func requestReceived(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        if exchanges[exchange].attempt.isChunked { exchanges[exchange].appendEnd(ChunkWriter.lastChunk.rawBytes) }
        exchanges[exchange].state.requestReceived()
        exchanges[exchange].record.wholeAt = now.monotonic
        switch exchanges[exchange].state.phase {
        case .collecting: startHandler(exchange, &scratch)
        case .relaying: flushRequest(exchange)
        case .deciding, .waiting, .producing, .connecting, .tunnel, .finishing, .answered: break
        }
    }

    /// The answer's last byte was received: keeps the connection if nothing is left on it, then sends the answer's end. The first `last`
    /// bytes of `input` are content that was not passed on yet.
    mutating func answerReceived(
        _ exchange: ExchangeIndex, _ upstream: UpstreamIndex, hasTrailers: Bool, last: Int, of input: inout ByteBuffer,
        _ scratch: inout Scratch
    ) throws(FilterFailure) {
        let handle = exchanges.handle(exchange)
        let client = exchanges[exchange].client.index
        if exchanges[exchange].filter.isFiltering {
            try exchanges[exchange].endFiltered(to: &downstream, into: &scratch.output)
        }
        let isReusable =
            upstreams.connections[upstream].http.isReusable && input.count == last
            && !upstreams.connections[upstream].connection.hasPending && exchanges[exchange].isSent
        upstreams.directory.answerEnded(exchanges[exchange].attempt.endpoint)
        releaseBeforeLastBytes(exchange, reusable: isReusable)
        if last > 0 {
            exchanges[exchange].passed(last, .answer)
            copyAnswer(exchange, last, of: &input, &scratch)
            guard exchanges.isCurrent(handle) else { return }
        }
        if !hasTrailers { downstream.clients[client].http.sendEnd(into: &scratch.output) }
        guard sendGathered(handle, &scratch) else { return }
        finishAnswer(exchange, reusable: isReusable, &scratch)
    }
}

/// How sending ended.
enum SendOutcome: Equatable {
    case sent
    /// The socket has not taken all; the rest waits.
    case queued
    /// The connection has gone, and the bytes are dropped.
    case lost
}

extension Connection {
    /// Sends the first `count` bytes of `input` and consumes them; what the socket does not take now is queued in `waiting`.
    mutating func send(_ count: Int, of input: inout ByteBuffer, queueing waiting: inout ByteBuffer) -> SendOutcome {
        var left = count
        while left > 0 {
            switch waiting.isEmpty ? send(input.readable.extracting(0..<left)) : .wouldBlock {
            case .done(let sent):
                input.discard(sent)
                left -= sent
            case .wouldBlock:
                waiting.move(left, from: &input)
                return .queued
            case .closed, .failed:
                input.discard(left)
                return .lost
            }
        }
        return .sent
    }
}

extension ByteBuffer {
    /// Below this, bytes are copied rather than buffers swapped.
    private static var leastSwapped: Int { 16 * 1_024 }

    /// Moves the first `count` bytes of `input` behind what waits here. Swaps the buffers, without a copy, where nothing waits and
    /// these are all of `input`.
    mutating func move(_ count: Int, from input: inout ByteBuffer) {
        if isEmpty, count == input.count, count >= Self.leastSwapped { return swap(&self, &input) }
        append(input.readable.extracting(0..<count))
        input.discard(count)
    }
}
