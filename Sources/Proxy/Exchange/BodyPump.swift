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

/// The destination of a request's content that was read. Spliced content is not read and takes none of these; see `Worker.splice`.
enum BodyRoute: Equatable, Sendable {
    /// Sent to the upstream, or queued behind what waits for it.
    case copy
    /// Into the body of a request that the gateway answers itself.
    case collect
    /// Dropped: the upstream takes no more.
    case discard

    init(_ state: ExchangeState) {
        switch state.phase {
        case .collecting: self = .collect
        case .connecting, .relaying: self = state.upstreamStoppedReading ? .discard : .copy
        case .finishing: self = .discard
        case .deciding, .waiting, .producing, .tunnel, .answered: preconditionFailure("content was read that has nowhere to go")
        }
    }
}

/// Relays the body of a request, with backpressure. `ClientDriver` receives it.
extension Worker {
    /// Backpressure: whether the receiver of this body takes more content. Without room, the body is not read.
    @inline(__always)
    func hasRoom(_ direction: BodyDirection, _ exchange: ExchangeIndex) -> Bool {
        switch direction {
        case .request: exchanges[exchange].takesBody
        case .answer where exchanges[exchange].rare?.copiedRoute != nil: true
        case .answer where exchanges[exchange].rare?.fetch != nil: fetchHasRoom(exchange)
        case .answer: downstream.hasRoom(exchanges[exchange].client.index)
        }
    }

    @inline(never)
    private func fetchHasRoom(_ exchange: ExchangeIndex) -> Bool {
        exchanges[exchange].rare?.fetch?.isPaused != true && downstream.hasRoom(exchanges[exchange].client.index)
    }

    // MARK: content

    /// Moves the first `count` bytes of `input`, which are content of the request, along their route. The exchange may be over
    /// afterwards.
    mutating func pump(_ exchange: ExchangeIndex, _ count: Int, of input: inout ByteBuffer, _ scratch: inout Scratch) {
        exchanges[exchange].passed(count, .request)
        guard exchanges[exchange].record.bytesIn <= exchanges[exchange].request.bodyLimit else {
            input.removeAll()
            return faulted(exchanges[exchange].client.index, HTTPFault(.contentTooLarge), &scratch)
        }
        if exchanges[exchange].rare?.copy != nil { copyContent(exchange, input.readable.extracting(0..<count)) }
        switch BodyRoute(exchanges[exchange].state) {
        case .copy, .collect:
            guard exchanges[exchange].queue(input.readable.extracting(0..<count)) else {
                return sendToUpstream(exchange, count, of: &input)
            }
        case .discard: exchanges[exchange].state.streamed()
        }
        input.discard(count)
    }

    // MARK: to the upstream

    /// Sends the first `count` bytes of `input`, or queues what the connection does not take, and consumes them.
    mutating func sendToUpstream(_ exchange: ExchangeIndex, _ count: Int, of input: inout ByteBuffer) {
        switch upstreams.send(count, of: &input, for: &exchanges[exchange].attempt) {
        case .sent: break
        case .queued:
            // The session of a stream sends on by itself, and whether its answer is paused is another matter.
            let upstream = exchanges[exchange].attempt.upstream.index
            if !upstreams.connections[upstream].isStream { refreshUpstreamInterest(upstream) }
        case .lost: upstreamStoppedReading(exchange)
        }
    }

    /// Sends what waits of the request, whose connection is established. `isTurn`: one frame of HTTP/2 at most.
    mutating func flushRequest(_ exchange: ExchangeIndex, isTurn: Bool = false) {
        let upstream = exchanges[exchange].attempt.upstream.index
        if !exchanges[exchange].state.upstreamStoppedReading {
            let isWhole = exchanges[exchange].state.hasWholeRequest
            var outcome = drainRequest(exchange, upstream)
            if outcome == .sent { outcome = upstreams.flush(&exchanges[exchange].attempt, isWhole: isWhole, isTurn: isTurn) }
            if exchanges[exchange].attempt.hasBegun { exchanges[exchange].state.sent() }
            if outcome == .lost { return upstreamStoppedReading(exchange) }
        }
        if !upstreams.connections[upstream].isStream { refreshUpstreamInterest(upstream) }
    }

    /// Sends what the pipe holds of the request.
    @inline(__always)
    private mutating func drainRequest(_ exchange: ExchangeIndex, _ upstream: UpstreamIndex) -> SendOutcome {
        while exchanges[exchange].hasPiped(.request) {
            switch exchanges[exchange].pipe!.drain(into: upstreams.connections[upstream].connection.socket) {
            case .done: break
            case .wouldBlock: return .queued
            case .closed, .failed: return .lost
            }
        }
        return .sent
    }

    /// Sending to the upstream failed. It may have answered before that, so its answer is still read: the loop reports the lost
    /// connection as readable.
    private mutating func upstreamStoppedReading(_ exchange: ExchangeIndex) {
        exchanges[exchange].state.stoppedReading()
        if exchanges[exchange].hasPiped(.request) { dropPipe(exchange) }
        exchanges[exchange].attempt.pending.reuse()
        refreshUpstreamInterest(exchanges[exchange].attempt.upstream.index)
    }

    // MARK: ends

    /// Passes on the trailer fields in `scratch.trailers`, the first `length` bytes of `input`, if the upstream gets them. A body that is
    /// dropped, or collected for a handler, has no use for them.
    mutating func pumpTrailers(_ exchange: ExchangeIndex, _ length: Int, of input: inout ByteBuffer, _ scratch: inout Scratch) {
        if exchanges[exchange].request.passesTrailers {
            if exchanges[exchange].attempt.isForHTTP2 {
                Trailers.writeLines(scratch.trailers, input.readable, into: &exchanges[exchange].attempt.trailers)
            } else if exchanges[exchange].attempt.isChunked {
                Trailers.writeEnd(scratch.trailers, input.readable, into: &scratch.output)
                exchanges[exchange].appendEnd(scratch.output.readable)
                scratch.output.removeAll()
            }
        }
        input.discard(length)
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
        sendCopyIfDue(exchange, &scratch)
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
    private static var minSwapped: Int { 16 * 1_024 }

    /// Moves the first `count` bytes of `input` behind what waits here. Swaps the buffers, without a copy, where nothing waits and
    /// these are all of `input`.
    mutating func move(_ count: Int, from input: inout ByteBuffer) {
        if isEmpty, count == input.count, count >= Self.minSwapped { return swap(&self, &input) }
        append(input.readable.extracting(0..<count))
        input.discard(count)
    }
}
