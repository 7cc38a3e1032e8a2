import HTTP
import Transport
import Wire

/// Carries an upstream's answer to its client: the head rewritten, the body as it comes, held back by the slower side.
extension Worker {
    /// Up to this much content is copied behind the head so that both go out together; more is sent from where it is.
    private static var mostGathered: Int { 32 * 1_024 }

    /// Interim answers before the final one; an upstream that says more is not well.
    private static var mostInterim: Int { 16 }

    // MARK: receiving

    mutating func receiveAnswer(_ upstream: Int, _ scratch: inout Scratch) {
        if pipeAnswer(upstream, &scratch) { return }
        let handle = upstreamHandle(upstream)
        repeat {
            var input = scratch.takeInput()
            if !upstreams[upstream].input.isEmpty {
                input.append(upstreams[upstream].input.readable)
                upstreams[upstream].input = ByteBuffer()
            }
            let exchange = upstreams[upstream].exchange
            let room = exchanges[Int(exchange.index)].answerRoom.bytes
            let outcome = upstreams[upstream].channel.receive(into: &input, upTo: room, &workspace)
            if case .done = outcome { answerReceived(upstream, &input, &scratch) }
            if !input.isEmpty, upstreams.isCurrent(handle) { upstreams[upstream].input.append(input.readable) }
            scratch.putBack(input)
            guard upstreams.isCurrent(handle), upstreams[upstream].phase == .busy else { return }
            if case .done(let count) = outcome { noteReceived(count, Int(exchange.index)) }
            switch outcome {
            case .done: break
            case .wouldBlock: return
            case .closed: return answerInputClosed(upstream, &scratch)
            case .failed: return lostWhileReading(upstream, &scratch)
            }
        } while upstreams[upstream].interest.contains(.read) && upstreams[upstream].channel.hasPending
    }

    private mutating func noteReceived(_ count: Int, _ exchange: Int) {
        let isKept = clients[Int(exchanges[exchange].client.index)].hasUnsent
        exchanges[exchange].answerRoom.received(count, wasKept: isKept)
    }

    mutating func lostWhileReading(_ upstream: Int, _ scratch: inout Scratch) {
        let exchange = Int(upstreams[upstream].exchange.index)
        let isUnanswered =
            !exchanges[exchange].answerStarted && exchanges[exchange].interimCount == 0 && upstreams[upstream].input.isEmpty
        lost(upstream, isUnanswered ? .closedUnanswered : .brokenAnswer, &scratch)
    }

    mutating func answerInputClosed(_ upstream: Int, _ scratch: inout Scratch) {
        let exchange = Int(upstreams[upstream].exchange.index)
        guard exchanges[exchange].answerStarted else { return lostWhileReading(upstream, &scratch) }
        switch exchanges[exchange].answerBody.inputClosed() {
        case .end:
            var end = ByteBuffer()
            if isFiltered(exchange) {
                do throws(FilterFailure) {
                    try endFiltered(exchange, &end)
                } catch {
                    return refuseAnswer(exchange, error, &scratch)
                }
            } else if exchanges[exchange].delimiting == .chunked {
                end.append(ChunkWriter.lastChunk)
            }
            noteAnswerEnded(exchange)
            let handle = exchangeHandle(exchange)
            sendToClient(Int(exchanges[exchange].client.index), end.readable, &scratch)
            if exchanges.isCurrent(handle) { finishAnswer(exchange, reusable: false, &scratch) }
        case .data, .needMore, .trailers, .fault: lost(upstream, .brokenAnswer, &scratch)
        }
    }

    private mutating func answerReceived(_ upstream: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        let exchange = Int(upstreams[upstream].exchange.index)
        upstreamTimers.set(upstream, deadline: now.monotonic.advanced(milliseconds: exchanges[exchange].timeout))
        let handle = exchangeHandle(exchange)
        if !exchanges[exchange].answerStarted {
            readAnswerHead(exchange, upstream, &input, &scratch)
            guard exchanges.isCurrent(handle), exchanges[exchange].answerStarted else { return }
        }
        relayAnswer(exchange, upstream, &input, &scratch)
    }

    // MARK: head

    private mutating func readAnswerHead(
        _ exchange: Int, _ upstream: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) {
        while upstreams[upstream].isHeadDue(input.readable, settings.headLimits) {
            switch scratch.response.parse(
                input.readable, requestMethod: exchanges[exchange].method, limits: settings.headLimits)
            {
            case .incomplete: return upstreams[upstream].awaitHead()
            case .invalid(let fault):
                input.removeAll()
                return lost(upstream, .badAnswer(fault), &scratch)
            case .complete where scratch.response.isInterim && exchanges[exchange].interimCount >= Self.mostInterim:
                input.removeAll()
                return lost(upstream, .badAnswer(HTTPFault(.statusLine).ofResponse), &scratch)
            case .complete where scratch.response.isInterim:
                exchanges[exchange].interimCount += 1
                upstreams[upstream].headBegun = false
                let handle = exchangeHandle(exchange)
                passInterim(exchange, input.readable, &scratch)
                guard exchanges.isCurrent(handle) else { return }
                input.discard(scratch.response.length)
            case .complete:
                upstreams[upstream].headBegun = false
                startAnswer(exchange, input.readable, &scratch)
                input.discard(scratch.response.length)
                return
            }
        }
    }

    /// Hints go on to clients that know them; `100` was said by this gateway already.
    private mutating func passInterim(_ exchange: Int, _ bytes: RawSpan, _ scratch: inout Scratch) {
        guard scratch.response.status != 100, exchanges[exchange].minorVersion == 1 else { return }
        var hint = ByteBuffer()
        ForwardedResponse.writeInterim(scratch.response, bytes, into: &hint)
        sendToClient(Int(exchanges[exchange].client.index), hint.readable, &scratch)
    }

    /// Writes the head for the client into `scratch.output`, where the first of the body joins it.
    private mutating func startAnswer(_ exchange: Int, _ bytes: RawSpan, _ scratch: inout Scratch) {
        let client = Int(exchanges[exchange].client.index)
        let pool = exchanges[exchange].pool
        directory.pools[pool].endpoints[exchanges[exchange].endpoint].health.answerBegan()
        exchanges[exchange].answerStarted = true
        exchanges[exchange].answerBody = BodyDecoder(scratch.response.framing)
        exchanges[exchange].delimiting = scratch.response.framing.relayed(
            toMinorVersion: exchanges[exchange].minorVersion)
        exchanges[exchange].upstreamKeepsAlive = scratch.response.keepAlive
        exchanges[exchange].record.status = scratch.response.status
        noteAttemptEnded(exchange, status: scratch.response.status)
        scratch.output.removeAll()
        if exchanges[exchange].filter.plan != nil, !beginFilter(exchange, bytes, &scratch) { return }
        let fields = filteredFields(exchange, scratch.response, bytes)
        if isHeld(exchange) {
            var head = ByteBuffer()
            swap(&head, &exchanges[exchange].filter.head)
            ForwardedResponse.write(
                scratch.response, bytes, delimiting: exchanges[exchange].delimiting,
                requestID: exchanges[exchange].marks.requestID.readable, lines: exchanges[exchange].lines.readable,
                saysLimits: exchanges[exchange].saysLimits, persistence: nil, filtered: fields, into: &head)
            swap(&head, &exchanges[exchange].filter.head)
            return
        }
        let persistence = clients[client].messages.answerStarted(
            untilClose: exchanges[exchange].delimiting == .untilClose, unread: clients[client].body.remaining)
        ForwardedResponse.write(
            scratch.response, bytes, delimiting: exchanges[exchange].delimiting,
            requestID: exchanges[exchange].marks.requestID.readable, lines: exchanges[exchange].lines.readable,
            saysLimits: exchanges[exchange].saysLimits, persistence: persistence, filtered: fields, into: &scratch.output)
    }

    /// Whether the content of the answer goes through a filter.
    private func isFiltered(_ exchange: Int) -> Bool {
        exchanges[exchange].filter.isFiltering
    }

    private func isHeld(_ exchange: Int) -> Bool {
        exchanges[exchange].filter.isHeld
    }

    // MARK: body

    /// Sends the head that waits in `scratch.output`, if it does, and all content in `input`.
    mutating func relayAnswer(
        _ exchange: Int, _ upstream: Int, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) {
        var out = ByteBuffer()
        swap(&out, &scratch.output)
        let ending =
            isFiltered(exchange)
            ? gatherFiltered(exchange, &input, &out, &scratch) : gatherAnswer(exchange, &input, &out, &scratch)
        let handle = exchangeHandle(exchange)
        if !out.isEmpty, ending != .gone {
            sendToClient(Int(exchanges[exchange].client.index), out.readable, &scratch)
        }
        out.removeAll()
        swap(&out, &scratch.output)
        guard ending != .gone, exchanges.isCurrent(handle) else { return }
        switch ending {
        case .more: refreshUpstreamInterest(upstream)
        case .ended:
            let reusable =
                exchanges[exchange].upstreamKeepsAlive && exchanges[exchange].requestEnded
                && exchanges[exchange].isFlushed && !exchanges[exchange].isCut && input.isEmpty && !upstreams[upstream].channel.hasPending
            input.removeAll()
            noteAnswerEnded(exchange)
            finishAnswer(exchange, reusable: reusable, &scratch)
        case .broken:
            input.removeAll()
            lost(upstream, .brokenAnswer, &scratch)
        case .refused(let failure):
            input.removeAll()
            refuseAnswer(exchange, failure, &scratch)
        case .gone: break
        }
    }

    /// Moves content from `input` into `out`; large pieces go straight to the client.
    private mutating func gatherAnswer(
        _ exchange: Int, _ input: inout ByteBuffer, _ out: inout ByteBuffer, _ scratch: inout Scratch
    ) -> AnswerEnding {
        let handle = exchangeHandle(exchange)
        let isChunked = exchanges[exchange].delimiting == .chunked
        while true {
            switch exchanges[exchange].answerBody.next(input.readable) {
            case .data(let skip, let count):
                exchanges[exchange].record.bytesOut += UInt64(count)
                input.discard(skip)
                if exchanges[exchange].filter.isJudging { watch(exchange, input.readable.extracting(0..<count)) }
                if isChunked || out.count + count <= Self.mostGathered {
                    out.appendContent(input.readable.extracting(0..<count), chunked: isChunked)
                    input.discard(count)
                } else {
                    let client = Int(exchanges[exchange].client.index)
                    if !out.isEmpty { sendToClient(client, out.readable, &scratch) }
                    out.removeAll()
                    guard exchanges.isCurrent(handle) else { return .gone }
                    sendToClient(client, count, of: &input, &scratch)
                    guard exchanges.isCurrent(handle) else { return .gone }
                }
            case .needMore(let consumed):
                input.discard(consumed)
                return .more
            case .trailers(let slice, let consumed):
                guard parseTrailers(input.readable, slice, into: &scratch.trailers) == nil else { return .broken }
                if isChunked { Trailers.writeEnd(scratch.trailers, input.readable, into: &out) }
                input.discard(consumed)
                return .ended
            case .end(let consumed):
                if isChunked { out.append(ChunkWriter.lastChunk) }
                input.discard(consumed)
                return .ended
            case .fault: return .broken
            }
        }
    }

    /// The client has taken all that waited: the upstream may go on.
    mutating func resumeAnswer(_ client: Int, _ scratch: inout Scratch) {
        let exchange = clients[client].exchange
        guard !exchange.isNone, exchanges[Int(exchange.index)].isConnected else { return }
        let upstream = Int(exchanges[Int(exchange.index)].upstream.index)
        upstreamTimers.set(
            upstream, deadline: now.monotonic.advanced(milliseconds: exchanges[Int(exchange.index)].timeout))
        let handle = upstreamHandle(upstream)
        resumeFiltered(Int(exchange.index), upstream, &scratch)
        guard upstreams.isCurrent(handle), upstreams[upstream].phase == .busy else { return }
        refreshUpstreamInterest(upstream)
        if upstreams[upstream].interest.contains(.read), upstreams[upstream].channel.hasPending {
            receiveAnswer(upstream, &scratch)
        }
    }

    // MARK: end

    /// The upstream has answered well, from the first byte to the last.
    private mutating func noteAnswerEnded(_ exchange: Int) {
        directory.pools[exchanges[exchange].pool].endpoints[exchanges[exchange].endpoint].health.answerEnded()
    }

    /// The answer is out, or waits in the client's output: the connection may turn to the next request.
    mutating func finishAnswer(_ exchange: Int, reusable: Bool, _ scratch: inout Scratch) {
        let client = Int(exchanges[exchange].client.index)
        releaseUpstream(exchange, reusable: reusable)
        if exchanges[exchange].pending.capacity >= Scratch.leastSpare { scratch.recycle(&exchanges[exchange].pending) }
        closeExchange(exchange)
        conclude(client, &scratch)
    }

    /// The connection's machine says what comes after an answer.
    mutating func conclude(_ client: Int, _ scratch: inout Scratch) {
        let handle = clientHandle(client)
        apply(clients[client].messages.answerFinished(), client, &scratch)
        if clients.isCurrent(handle), clients[client].phase == .open, clients[client].reading == .head {
            startIdling(client)
        }
    }

    /// Ends an exchange without an answer: its client has gone, or is answered otherwise.
    mutating func cancel(_ exchange: Int, status: Int) {
        if exchanges[exchange].record.status == 0 { exchanges[exchange].record.status = status }
        releaseUpstream(exchange, reusable: false)
        closeExchange(exchange)
    }

    private mutating func closeExchange(_ exchange: Int) {
        cancelLimits(exchange)
        releasePipe(exchange)
        exchanges[exchange].life = nil
        let client = Int(exchanges[exchange].client.index)
        exchanges[exchange].record.bytesIn = exchanges[exchange].bodyCount
        noteFiltered(exchange)
        exchanges[exchange].filter.reset()
        finishRecord(exchange)
        clients[client].exchange = .none
        exchanges.release(exchange)
    }
}

/// What the bytes at hand have brought an answer to.
enum AnswerEnding: Equatable {
    case more, ended, broken
    /// The filter lets it go no further.
    case refused(FilterFailure)
    /// The exchange ended while they were sent.
    case gone
}
