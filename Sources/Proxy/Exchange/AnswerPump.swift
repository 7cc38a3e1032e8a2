import Gate
import HTTP
import Transport
import Wire

/// How far the bytes at hand have brought an answer.
enum AnswerProgress {
    case more, ended
    /// The exchange ended while they were sent.
    case gone
    /// The upstream's bytes are no answer, or break off.
    case broken(HTTPFault)
}

/// Carries an upstream's answer to its client: the head rewritten, the body as it arrives, with backpressure.
extension Worker {
    /// Up to this many bytes are gathered behind the head and sent with it; more are sent from where they were received.
    private static var mostGathered: Int { 32 * 1_024 }

    // MARK: receiving

    mutating func receiveAnswer(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let exchange = upstreams.connections[upstream].exchange.index
        if splice(.answer, exchange, &scratch) { return }
        let handle = upstreams.connections.handle(upstream)
        repeat {
            var input = scratch.takeInput(behind: &upstreams.connections[upstream].input)
            let outcome = upstreams.connections[upstream].connection.receive(into: &input, upTo: exchanges[exchange].answerReadSize.bytes)
            if case .done = outcome {
                startAnswerClock(exchange, upstream)
                relayAnswer(exchange, upstream, &input, &scratch)
            }
            keepAnswer(handle, input, &scratch)
            guard upstreams.connections.isCurrent(handle), upstreams.connections[upstream].phase == .busy else { return }
            switch outcome {
            case .done(let count): exchanges[exchange].answerReadSize.received(count, wasKept: !clientHasRoom(exchange))
            case .wouldBlock: return
            case .closed: return answerInputClosed(upstream, &scratch)
            case .failed: return lostWhileReading(upstream, &scratch)
            }
        } while upstreams.connections[upstream].connection.interest.contains(.read) && upstreams.connections[upstream].connection.hasPending
    }

    /// Puts the receive buffer back; what was not consumed is kept if the connection still exists.
    private mutating func keepAnswer(_ upstream: Handle<UpstreamConnection>, _ input: consuming ByteBuffer, _ scratch: inout Scratch) {
        if !input.isEmpty, upstreams.connections.isCurrent(upstream) {
            upstreams.connections[upstream.index].input.append(input.readable)
        }
        scratch.putBack(input)
    }

    mutating func lostWhileReading(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let isUnanswered = !upstreams.connections[upstream].http.hasBegunAnswer && upstreams.connections[upstream].input.isEmpty
        lost(upstream, isUnanswered ? .closedUnanswered : .brokenAnswer, &scratch)
    }

    /// The upstream will send no more: the end of an answer that lasts until then, a loss otherwise.
    mutating func answerInputClosed(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        guard upstreams.connections[upstream].http.hasAnswered else { return lostWhileReading(upstream, &scratch) }
        relayKept(upstream, inputEnded: true, &scratch)
    }

    /// Passes on what was received and kept.
    private mutating func relayKept(_ upstream: UpstreamIndex, inputEnded: Bool = false, _ scratch: inout Scratch) {
        let handle = upstreams.connections.handle(upstream)
        var input = scratch.takeInput(behind: &upstreams.connections[upstream].input)
        relayAnswer(upstreams.connections[upstream].exchange.index, upstream, &input, inputEnded: inputEnded, &scratch)
        keepAnswer(handle, input, &scratch)
    }

    /// The upstream's time to send more of its answer begins anew.
    mutating func startAnswerClock(_ exchange: ExchangeIndex, _ upstream: UpstreamIndex) {
        upstreams.timers.set(upstream.id, deadline: now.monotonic.advanced(milliseconds: exchanges[exchange].timeout))
    }

    /// Backpressure: whether the client takes more content of the answer. Without room, the upstream is not read.
    func clientHasRoom(_ exchange: ExchangeIndex) -> Bool {
        downstream.clients[exchanges[exchange].client.index].room(on: exchanges[exchange].stream) > 0
    }

    // MARK: the pump

    /// Passes on all that `input` holds of the answer, as far as the client takes it. `inputEnded`: no more will come.
    private mutating func relayAnswer(
        _ exchange: ExchangeIndex, _ upstream: UpstreamIndex, _ input: inout ByteBuffer, inputEnded: Bool = false,
        _ scratch: inout Scratch
    ) {
        var out = scratch.takeOutput()
        let handle = exchanges.handle(exchange)
        var progress = AnswerProgress.more
        var failure: FilterFailure?
        do throws(FilterFailure) {
            progress = try pumpAnswer(exchange, upstream, &input, inputEnded: inputEnded, &out, &scratch)
        } catch {
            failure = error
        }
        if !out.isEmpty, exchanges.isCurrent(handle) { sendToClient(exchanges[exchange].client.index, out.count, of: &out, &scratch) }
        scratch.putBackOutput(out)
        guard exchanges.isCurrent(handle) else { return }
        if let failure {
            input.removeAll()
            return refuseAnswer(exchange, failure, &scratch)
        }
        switch progress {
        case .gone: break
        case .more: refreshUpstreamInterest(upstream)
        case .broken(let fault):
            input.removeAll()
            lost(upstream, exchanges[exchange].state.answer == .none ? .badAnswer(fault) : .brokenAnswer, &scratch)
        case .ended:
            let isReusable =
                upstreams.connections[upstream].http.isReusable && input.isEmpty && !upstreams.connections[upstream].connection.hasPending
                && exchanges[exchange].state.hasWholeRequest && exchanges[exchange].isFlushed
                && !exchanges[exchange].state.upstreamStoppedReading
            input.removeAll()
            upstreams.directory.answerEnded(exchanges[exchange].endpoint)
            finishAnswer(exchange, reusable: isReusable, &scratch)
        }
    }

    /// Moves what `input` holds into `out`; large pieces go straight to the client.
    private mutating func pumpAnswer(
        _ exchange: ExchangeIndex, _ upstream: UpstreamIndex, _ input: inout ByteBuffer, inputEnded: Bool, _ out: inout ByteBuffer,
        _ scratch: inout Scratch
    ) throws(FilterFailure) -> AnswerProgress {
        let handle = exchanges.handle(exchange)
        let client = exchanges[exchange].client.index
        var hasTrailers = false
        while true {
            if exchanges[exchange].filter.isWaiting {
                guard try unpackWaiting(exchange, &out, &scratch) else { return .gone }
                if exchanges[exchange].filter.isWaiting { return .more }
            }
            var event = upstreams.connections[upstream].http.next(&input, &scratch.response, &scratch.trailers, settings.headLimits)
            if inputEnded, case .needMore = event { event = upstreams.connections[upstream].http.inputClosed() }
            switch event {
            case .content(_, let count):
                switch BodyRoute(answer: exchanges[exchange].filter) {
                case .copy: copyAnswer(count, of: &input, exchange, &out, &scratch)
                case .filter:
                    try exchanges[exchange].filter.feed(input.readable.extracting(0..<count))
                    input.discard(count)
                case .splice, .collect, .discard: preconditionFailure("an answer is passed on or cut")
                }
                guard exchanges.isCurrent(handle) else { return .gone }
            case .needMore:
                if exchanges[exchange].filter.isFiltering {
                    exchanges[exchange].writeFiltered(&downstream.clients[client].http, into: &out)
                }
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
                if exchanges[exchange].filter.isFiltering { try exchanges[exchange].endFiltered(&downstream.clients[client].http, into: &out) }
                if !hasTrailers { downstream.clients[client].http.sendEnd(on: exchanges[exchange].stream, into: &out) }
                return .ended
            case .fault(let fault): return .broken(fault)
            }
        }
    }

    /// Writes trailers, which end the content; returns whether. Those of a filtered answer describe the upstream's content, not the
    /// client's, and are dropped.
    private mutating func passTrailers(
        _ exchange: ExchangeIndex, _ bytes: RawSpan, _ out: inout ByteBuffer, _ scratch: inout Scratch
    ) -> Bool {
        let client = exchanges[exchange].client.index
        guard !exchanges[exchange].filter.isFiltering, downstream.clients[client].http.framesContent else { return false }
        Trailers.writeEnd(scratch.trailers, bytes, into: &out)
        return true
    }

    /// Moves the first `count` bytes of `input`, which are content, into `out`; large ones, after that, to the client.
    private mutating func copyAnswer(
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
        if !out.isEmpty { sendToClient(client, out.count, of: &out, &scratch) }
        if exchanges.isCurrent(handle) { sendToClient(client, count, of: &input, &scratch) }
    }

    // MARK: heads

    /// Passes interim answers on to HTTP/1.1 clients, but for `100 Continue`, which the gateway sends itself.
    private mutating func passInterim(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        guard scratch.response.status != 100, exchanges[exchange].minorVersion == 1 else { return }
        var hint = ByteBuffer()
        ForwardedResponse.writeInterim(scratch.response, bytes, into: &hint)
        sendToClient(exchanges[exchange].client.index, hint.count, of: &hint, &scratch)
    }

    /// Writes the head for the client into `out`, or into the filter, which may hold it back or refuse the answer.
    private mutating func startAnswer(
        _ exchange: ExchangeIndex, _ bytes: RawSpan, _ out: inout ByteBuffer, _ scratch: inout Scratch
    ) throws(FilterFailure) {
        let client = exchanges[exchange].client.index
        upstreams.directory.answerBegan(exchanges[exchange].endpoint)
        exchanges[exchange].record.status = scratch.response.status
        noteAttemptEnded(exchange, status: scratch.response.status)
        if exchanges[exchange].filter.plan == nil {
            exchanges[exchange].state.answerBegan(isHeld: false)
        } else {
            try beginFilter(exchange, bytes, &scratch)
        }
        let fields = exchanges[exchange].filteredFields(scratch.response, bytes)
        guard exchanges[exchange].state.answer == .started else {
            var head = ByteBuffer()
            swap(&head, &exchanges[exchange].filter.head)
            ForwardedResponse.write(
                scratch.response, bytes, framing: exchanges[exchange].filteredFraming, requestID: exchanges[exchange].ids.requestID.readable,
                edits: exchanges[exchange].answerEdits, persistence: nil, filtered: fields, into: &head)
            return swap(&head, &exchanges[exchange].filter.head)
        }
        let framing = scratch.response.framing.relayed(toMinorVersion: exchanges[exchange].minorVersion)
        let persistence = downstream.clients[client].http.sendHead(framing, on: exchanges[exchange].stream)
        ForwardedResponse.write(
            scratch.response, bytes, framing: framing, requestID: exchanges[exchange].ids.requestID.readable,
            edits: exchanges[exchange].answerEdits, persistence: persistence, filtered: fields, into: &out)
    }

    // MARK: backpressure

    /// The client has taken all that waited: the upstream is read again.
    mutating func resumeUpstream(_ client: ClientIndex, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone, exchanges[exchange.index].state.phase == .relaying else { return }
        let upstream = exchanges[exchange.index].upstream.index
        startAnswerClock(exchange.index, upstream)
        let handle = upstreams.connections.handle(upstream)
        if exchanges[exchange.index].filter.isWaiting { relayKept(upstream, &scratch) }
        guard upstreams.connections.isCurrent(handle), upstreams.connections[upstream].phase == .busy else { return }
        refreshUpstreamInterest(upstream)
        if upstreams.connections[upstream].connection.interest.contains(.read), upstreams.connections[upstream].connection.hasPending {
            receiveAnswer(upstream, &scratch)
        }
    }

    // MARK: end

    /// The answer was sent, or waits in the client's output: the connection may turn to the next request.
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

    /// Ends an exchange without a complete answer: its client has gone, or the answer was cut.
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
