import Gate
import HTTP
import Transport
import Wire

/// How far the bytes at hand have brought an answer.
enum AnswerProgress {
    case more, ended
    /// The exchange ended while they were sent.
    case gone
}

/// Why an answer goes no further.
enum AnswerFailure: Error {
    /// The upstream's bytes are no answer, or none any more.
    case broken(HTTPFault)
    /// The filter stops it.
    case refused(FilterFailure)
}

/// Carries an upstream's answer to its client: the head rewritten, the body as it comes, held back by the slower side.
extension Worker {
    /// Up to this much content is copied behind the head so that both go out together; more is sent from where it is.
    private static var mostGathered: Int { 32 * 1_024 }

    // MARK: receiving

    mutating func receiveAnswer(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        if spliceAnswer(upstream, &scratch) { return }
        let handle = upstreams.connections.handle(upstream)
        repeat {
            var input = scratch.takeInput()
            if !upstreams.connections[upstream].input.isEmpty {
                input.append(upstreams.connections[upstream].input.readable)
                upstreams.connections[upstream].input = ByteBuffer()
            }
            let exchange = upstreams.connections[upstream].exchange.index
            let room = exchanges[exchange].answerReadSize.bytes
            let outcome = upstreams.connections[upstream].connection.receive(into: &input, upTo: room)
            if case .done = outcome {
                upstreams.timers.set(upstream.id, deadline: now.monotonic.advanced(milliseconds: exchanges[exchange].timeout))
                relayAnswer(exchange, upstream, &input, &scratch)
            }
            if !input.isEmpty, upstreams.connections.isCurrent(handle) { upstreams.connections[upstream].input.append(input.readable) }
            scratch.putBack(input)
            guard upstreams.connections.isCurrent(handle), upstreams.connections[upstream].phase == .busy else { return }
            switch outcome {
            case .done(let count):
                let isKept = downstream.clients[exchanges[exchange].client.index].hasUnsent
                exchanges[exchange].answerReadSize.received(count, wasKept: isKept)
            case .wouldBlock: return
            case .closed: return answerInputClosed(upstream, &scratch)
            case .failed: return lostWhileReading(upstream, &scratch)
            }
        } while upstreams.connections[upstream].connection.interest.contains(.read) && upstreams.connections[upstream].connection.hasPending
    }

    mutating func lostWhileReading(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let isUnanswered = !upstreams.connections[upstream].http.hasBegunAnswer && upstreams.connections[upstream].input.isEmpty
        lost(upstream, isUnanswered ? .closedUnanswered : .brokenAnswer, &scratch)
    }

    mutating func answerInputClosed(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let exchange = upstreams.connections[upstream].exchange
        guard upstreams.connections[upstream].http.hasAnswered else { return lostWhileReading(upstream, &scratch) }
        guard case .end = upstreams.connections[upstream].http.inputClosed() else { return lost(upstream, .brokenAnswer, &scratch) }
        var end = ByteBuffer()
        do throws(AnswerFailure) {
            try endContent(exchange.index, &end)
        } catch {
            return answerFailed(exchange.index, upstream, error, &scratch)
        }
        upstreams.directory[exchanges[exchange.index].endpoint].health.answerEnded()
        sendToClient(exchanges[exchange.index].client.index, end.readable, &scratch)
        if exchanges.isCurrent(exchange) { finishAnswer(exchange.index, reusable: false, &scratch) }
    }

    // MARK: the pump

    /// Passes on all that `input` holds of the answer, as far as the client takes it.
    mutating func relayAnswer(
        _ exchange: ExchangeIndex, _ upstream: UpstreamIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch
    ) {
        var out = ByteBuffer()
        swap(&out, &scratch.output)
        out.removeAll()
        let handle = exchanges.handle(exchange)
        var progress = AnswerProgress.more
        var failure: AnswerFailure?
        do throws(AnswerFailure) {
            progress = try pumpAnswer(exchange, upstream, &input, &out, &scratch)
        } catch {
            failure = error
        }
        if !out.isEmpty, exchanges.isCurrent(handle) {
            sendToClient(exchanges[exchange].client.index, out.readable, &scratch)
        }
        out.removeAll()
        swap(&out, &scratch.output)
        guard exchanges.isCurrent(handle) else { return }
        if let failure {
            input.removeAll()
            return answerFailed(exchange, upstream, failure, &scratch)
        }
        switch progress {
        case .gone: break
        case .more: refreshUpstreamInterest(upstream)
        case .ended:
            let isReusable =
                upstreams.connections[upstream].http.isReusable && input.isEmpty && !upstreams.connections[upstream].connection.hasPending
                && exchanges[exchange].state.hasWholeRequest && exchanges[exchange].isFlushed
                && !exchanges[exchange].state.upstreamStoppedReading
            input.removeAll()
            upstreams.directory[exchanges[exchange].endpoint].health.answerEnded()
            finishAnswer(exchange, reusable: isReusable, &scratch)
        }
    }

    private mutating func answerFailed(
        _ exchange: ExchangeIndex, _ upstream: UpstreamIndex, _ failure: AnswerFailure, _ scratch: inout Scratch
    ) {
        switch failure {
        case .broken(let fault):
            let hasBegun = exchanges[exchange].state.answer != .none
            lost(upstream, hasBegun ? .brokenAnswer : .badAnswer(fault), &scratch)
        case .refused(let failure): refuseAnswer(exchange, failure, &scratch)
        }
    }

    /// Moves what `input` holds into `out`; large pieces go straight to the client.
    private mutating func pumpAnswer(
        _ exchange: ExchangeIndex, _ upstream: UpstreamIndex, _ input: inout ByteBuffer, _ out: inout ByteBuffer,
        _ scratch: inout Scratch
    ) throws(AnswerFailure) -> AnswerProgress {
        let handle = exchanges.handle(exchange)
        var hasTrailers = false
        while true {
            if exchanges[exchange].filter.isWaiting {
                guard try unpackWaiting(exchange, &out, &scratch) else { return .gone }
                if exchanges[exchange].filter.isWaiting { return .more }
            }
            switch upstreams.connections[upstream].http.next(&input, &scratch.response, &scratch.trailers, settings.headLimits) {
            case .content(_, let count):
                switch BodyRoute(answer: exchanges[exchange].filter) {
                case .copy: copyContent(count, of: &input, exchange, &out, &scratch)
                case .filter: try filterContent(count, of: &input, exchange)
                case .splice, .collect, .discard: preconditionFailure("an answer goes on, or is cut")
                }
                guard exchanges.isCurrent(handle) else { return .gone }
            case .needMore:
                if exchanges[exchange].filter.isFiltering { handOn(exchange, &out) }
                return .more
            case .interim:
                passInterim(exchange, input.readable, &scratch)
                guard exchanges.isCurrent(handle) else { return .gone }
                input.discard(scratch.response.length)
            case .head:
                try startAnswer(exchange, input.readable, &out, &scratch)
                input.discard(scratch.response.length)
            case .trailers(_, let length):
                hasTrailers = passTrailers(exchange, input.readable, &out, &scratch)
                input.discard(length)
            case .end:
                if !hasTrailers { try endContent(exchange, &out) }
                return .ended
            case .fault(let fault): throw .broken(fault)
            }
        }
    }

    /// Writes trailers, which end the content; answers whether. Those of a filtered answer speak of the upstream's content,
    /// not of what the client gets.
    private mutating func passTrailers(
        _ exchange: ExchangeIndex, _ bytes: RawSpan, _ out: inout ByteBuffer, _ scratch: inout Scratch
    ) -> Bool {
        let client = exchanges[exchange].client.index
        guard !exchanges[exchange].filter.isFiltering, downstream.clients[client].http.framesContent else { return false }
        Trailers.writeEnd(scratch.trailers, bytes, into: &out)
        return true
    }

    /// Moves the first `count` bytes of `input`, which are content, behind what is in `out`, or with it to the client.
    private mutating func copyContent(
        _ count: Int, of input: inout ByteBuffer, _ exchange: ExchangeIndex, _ out: inout ByteBuffer, _ scratch: inout Scratch
    ) {
        let client = exchanges[exchange].client.index
        exchanges[exchange].record.bytesOut += UInt64(count)
        if exchanges[exchange].filter.isJudging { watch(exchange, input.readable.extracting(0..<count)) }
        if downstream.clients[client].http.framesContent || out.count + count <= Self.mostGathered {
            downstream.clients[client].http.sendContent(
                input.readable.extracting(0..<count), on: exchanges[exchange].stream, into: &out)
            return input.discard(count)
        }
        let handle = exchanges.handle(exchange)
        if !out.isEmpty { sendToClient(client, out.readable, &scratch) }
        out.removeAll()
        if exchanges.isCurrent(handle) { sendToClient(client, count, of: &input, &scratch) }
    }

    /// Writes what ends the content of the answer.
    private mutating func endContent(_ exchange: ExchangeIndex, _ out: inout ByteBuffer) throws(AnswerFailure) {
        if exchanges[exchange].filter.isFiltering { try endFiltered(exchange, &out) }
        let client = exchanges[exchange].client.index
        downstream.clients[client].http.sendEnd(on: exchanges[exchange].stream, into: &out)
    }

    // MARK: heads

    /// Passes hints on to clients that know them; `100 Continue` was said by this gateway already.
    private mutating func passInterim(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        guard scratch.response.status != 100, exchanges[exchange].minorVersion == 1 else { return }
        var hint = ByteBuffer()
        ForwardedResponse.writeInterim(scratch.response, bytes, into: &hint)
        sendToClient(exchanges[exchange].client.index, hint.readable, &scratch)
    }

    /// Writes the head for the client into `out`, or into the filter, which may hold it back or refuse the answer.
    private mutating func startAnswer(
        _ exchange: ExchangeIndex, _ bytes: RawSpan, _ out: inout ByteBuffer, _ scratch: inout Scratch
    ) throws(AnswerFailure) {
        let client = exchanges[exchange].client.index
        upstreams.directory[exchanges[exchange].endpoint].health.answerBegan()
        exchanges[exchange].record.status = scratch.response.status
        noteAttemptEnded(exchange, status: scratch.response.status)
        if exchanges[exchange].filter.plan == nil {
            exchanges[exchange].state.answerBegan(isHeld: false)
        } else {
            try beginFilter(exchange, bytes, &scratch)
        }
        let fields = filteredFields(exchange, scratch.response, bytes)
        guard exchanges[exchange].state.answer == .started else {
            var head = ByteBuffer()
            swap(&head, &exchanges[exchange].filter.head)
            ForwardedResponse.write(
                scratch.response, bytes, framing: heldFraming(exchange), requestID: exchanges[exchange].ids.requestID.readable,
                edits: exchanges[exchange].answerEdits, persistence: nil, filtered: fields, into: &head)
            return swap(&head, &exchanges[exchange].filter.head)
        }
        let framing = scratch.response.framing.relayed(toMinorVersion: exchanges[exchange].minorVersion)
        let persistence = downstream.clients[client].http.sendHead(framing, on: exchanges[exchange].stream)
        ForwardedResponse.write(
            scratch.response, bytes, framing: framing, requestID: exchanges[exchange].ids.requestID.readable,
            edits: exchanges[exchange].answerEdits, persistence: persistence, filtered: fields, into: &out)
    }

    // MARK: going on

    /// Backpressure ends: the client has taken all that waited, and the upstream may go on.
    mutating func resumeUpstream(_ client: ClientIndex, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone, exchanges[exchange.index].state.phase == .relaying else { return }
        let upstream = exchanges[exchange.index].upstream.index
        upstreams.timers.set(
            upstream.id, deadline: now.monotonic.advanced(milliseconds: exchanges[exchange.index].timeout))
        let handle = upstreams.connections.handle(upstream)
        resumeFiltered(exchange.index, upstream, &scratch)
        guard upstreams.connections.isCurrent(handle), upstreams.connections[upstream].phase == .busy else { return }
        refreshUpstreamInterest(upstream)
        if upstreams.connections[upstream].connection.interest.contains(.read), upstreams.connections[upstream].connection.hasPending {
            receiveAnswer(upstream, &scratch)
        }
    }

    // MARK: end

    /// The answer is out, or waits in the client's output: the connection may turn to the next request.
    mutating func finishAnswer(_ exchange: ExchangeIndex, reusable: Bool, _ scratch: inout Scratch) {
        let client = exchanges[exchange].client.index
        let stream = exchanges[exchange].stream
        releaseUpstream(exchange, reusable: reusable)
        if exchanges[exchange].pending.capacity >= Scratch.leastSpare { scratch.recycle(&exchanges[exchange].pending) }
        closeExchange(exchange)
        let handle = downstream.clients.handle(client)
        apply(downstream.clients[client].http.answerSent(on: stream), client, &scratch)
        if downstream.clients.isCurrent(handle), downstream.clients[client].phase == .open, downstream.clients[client].readsHead {
            downstream.startIdling(client, at: now.monotonic, timeout: settings.idleTimeout)
        }
    }

    /// Ends an exchange without an answer: its client has gone, or its answer was cut.
    mutating func cancel(_ exchange: ExchangeIndex, status: Int) {
        if exchanges[exchange].record.status == 0 { exchanges[exchange].record.status = status }
        releaseUpstream(exchange, reusable: false)
        closeExchange(exchange)
    }

    private mutating func closeExchange(_ exchange: ExchangeIndex) {
        cancelWait(exchange)
        releasePipe(exchange)
        finishRecord(exchange)
        downstream.clients[exchanges[exchange].client.index].exchange = .none
        exchanges[exchange].end()
        exchanges.release(exchange)
    }
}
