import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Receives an upstream's answer: its head is rewritten for the client, its body goes through the pump.
extension Worker {
    // MARK: receiving

    mutating func receiveAnswer(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let exchange = upstreams.connections[upstream].exchange.index
        if splice(.answer, exchange, &scratch) { return }
        let handle = upstreams.connections.handle(upstream)
        repeat {
            var input = scratch.takeInput(behind: &upstreams.connections[upstream].input)
            let outcome = upstreams.connections[upstream].connection.receive(into: &input, upTo: exchanges[exchange].answer.readSize.bytes)
            if case .done = outcome { relayAnswer(exchange, upstream, &input, &scratch) }
            upstreams.keepInput(input, of: handle)
            scratch.putBack(input)
            guard upstreams.connections.isCurrent(handle) else { return }
            guard upstreams.connections[upstream].phase == .busy else {
                if upstreams.connections[upstream].phase == .tunnel { continueTunnel(handle, &scratch) }
                return
            }
            switch outcome {
            case .done(let count):
                startAnswerClock(exchange, upstream)
                exchanges[exchange].answer.readSize.received(count, wasKept: !hasRoom(.answer, exchange))
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
        upstreams.keepInput(input, of: handle)
        scratch.putBack(input)
    }

    /// The upstream's time to send more of its answer begins anew.
    mutating func startAnswerClock(_ exchange: ExchangeIndex, _ upstream: UpstreamIndex) {
        upstreams.timers.set(upstream.id, deadline: now.monotonic.advanced(milliseconds: exchanges[exchange].attempt.timeout))
    }

    /// Passes on all that `input` holds of the answer, as far as the client takes it. `inputEnded`: no more will come.
    mutating func relayAnswer(
        _ exchange: ExchangeIndex, _ upstream: UpstreamIndex, _ input: inout ByteBuffer, inputEnded: Bool = false,
        _ scratch: inout Scratch
    ) {
        if let rare = exchanges[exchange].rare {
            if let flight = rare.fetch {
                return relayFetch(flight, exchange, upstream, &input, inputEnded: inputEnded, &scratch)
            }
            if rare.copiedRoute != nil { return dropAnswer(exchange, upstream, &input, inputEnded: inputEnded, &scratch) }
        }
        let handle = exchanges.handle(exchange)
        let isStream = upstreams.connections[upstream].isStream
        var hasTrailers = false
        var last = 0
        scratch.prepareOutput()
        do throws(FilterFault) {
            while exchanges.isCurrent(handle) {
                if exchanges[exchange].answer.isWaiting {
                    guard try changeWaiting(handle, &scratch) else { return }
                    if exchanges[exchange].answer.isWaiting { return answerPaused(handle, upstream, &scratch) }
                }
                var event = upstreams.connections[upstream].http.next(&input, &scratch.response, &scratch.trailers, settings.headLimits)
                if inputEnded, case .needMore = event { event = upstreams.connections[upstream].http.inputClosed() }
                switch event {
                case .content(let count) where isWholeForClient(exchange, upstream):
                    // It stays in `input` until the end, which comes next, has given back what the request held.
                    last = count
                case .content(let count):
                    pumpAnswer(exchange, count, of: &input, &scratch)
                    // All streams of the connection are read, so what the client does not take is held here.
                    if isStream, exchanges.isCurrent(handle), !hasRoom(.answer, exchange) {
                        return answerPaused(handle, upstream, &scratch)
                    }
                case .needMore: return answerPaused(handle, upstream, &scratch)
                case .interim:
                    passInterim(exchange, input.readable, &scratch)
                    input.discard(scratch.response.length)
                case .head:
                    if exchanges[exchange].attempt.asksForTunnel, seemsAccepted(exchange, scratch.response.status) {
                        return lost(upstream, .badAnswer, &scratch)
                    }
                    let form = try startAnswer(exchange, input.readable, &scratch)
                    input.discard(scratch.response.length)
                    if form == .events, exchanges[exchange].rare?.live == nil, !openStream(exchange, .sse, &scratch) { return }
                case .upgraded: return tunnelBegan(exchange, upstream, &input, &scratch)
                case .trailers(let length): hasTrailers = pumpAnswerTrailers(exchange, length, of: &input, &scratch)
                case .end: return try answerReceived(exchange, upstream, hasTrailers: hasTrailers, last: last, of: &input, &scratch)
                case .fault:
                    guard sendGathered(handle, &scratch) else { return }
                    return lost(upstream, exchanges[exchange].state.answer == .none ? .badAnswer : .brokenAnswer, &scratch)
                }
            }
        } catch {
            refuseAnswer(exchange, error, &scratch)
        }
    }

    /// Sends what has come of the answer; the rest waits for the upstream, or for the client to have room.
    private mutating func answerPaused(_ exchange: Handle<Exchange>, _ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        if exchanges[exchange.index].answer.course == .changed {
            do throws(FilterFault) { try flushOrNote(exchange.index) } catch {
                return refuseAnswer(exchange.index, error, &scratch)
            }
            exchanges[exchange.index].writeChanged(to: &downstream, into: &scratch.output)
        }
        if sendGathered(exchange, &scratch) { refreshUpstreamInterest(upstream) }
    }

    // MARK: heads

    /// Whether the client would take this status for the acceptance of its WebSocket: over HTTP/2 any success is (RFC 8441 §5).
    private func seemsAccepted(_ exchange: ExchangeIndex, _ status: Int) -> Bool {
        200..<300 ~= status && downstream.clients[exchanges[exchange].client.index].isStream
    }

    /// Passes interim answers on to clients of HTTP/1.1 and later, but for `100 Continue`, which the gateway sends itself.
    private mutating func passInterim(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        guard scratch.response.status != 100, exchanges[exchange].request.version != .http10 else { return }
        let client = exchanges[exchange].client.index
        guard !downstream.clients[client].isStream else {
            ForwardedResponse.encodeFields(
                scratch.response.fields, bytes, hasLength: false, exchanges[exchange].buffers.answerEdits, lines: &scratch.lines,
                into: &scratch.block)
            scratch.encodeLines()
            return downstream.sendHead(scratch.response.status, scratch.block.readable, isFinal: false, to: client)
        }
        var hint = ByteBuffer()
        ForwardedResponse.writeInterim(scratch.response, bytes, edits: exchanges[exchange].buffers.answerEdits, into: &hint)
        sendToClient(client, hint.count, of: &hint, &scratch)
    }

    /// Counts the head, leads it through the stages, which may refuse the answer, and writes it for the client. Returns the form of the
    /// content, if its frames are followed.
    private mutating func startAnswer(
        _ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch
    ) throws(FilterFault) -> FrameScan.ContentForm? {
        noteHead(exchange, bytes, scratch)
        if let announced = exchanges[exchange].request.announced { noteMergesDone(announced, bytes, scratch) }
        telemetry.attemptEnded(&exchanges[exchange].record, status: scratch.response.status, at: now.monotonic)
        if let target = exchanges[exchange].request.invalidates, 200..<400 ~= scratch.response.status { invalidate(target, &scratch) }
        return try passHead(exchange, bytes, follows: true, &scratch)
    }

    /// Leads a head, the upstream's or a stored one, through the stages, and writes it. Returns the form of the content, if it `follows` its
    /// frames.
    @discardableResult
    mutating func passHead(
        _ exchange: ExchangeIndex, _ bytes: RawSpan, follows: Bool, _ scratch: inout Scratch
    ) throws(FilterFault) -> FrameScan.ContentForm? {
        exchanges[exchange].record.status = scratch.response.status
        guard exchanges[exchange].answer.stages != nil else {
            writeHead(exchange, bytes, &scratch)
            return follows ? followAnswer(exchange, bytes, scratch.response) : nil
        }
        var changed = ByteBuffer()
        swap(&changed, &scratch.changedHead)
        defer { swap(&changed, &scratch.changedHead) }
        if exchanges[exchange].answer.stages?.compression.isAsked == true {
            (encoders.isBusy, encoders.share) = (isBusy, settings.clientShare)
        }
        changed.removeAll()
        changed.append(bytes.extracting(0..<scratch.response.length))
        try exchanges[exchange].answer.head(&scratch.response, &changed, isForHead: exchanges[exchange].request.method == .head)
        noteLapse(exchange)
        if case .stored(let reading) = exchanges[exchange].answer.source { reading.headMade(scratch.response, changed.readable) }
        writeHead(exchange, changed.readable, &scratch)
        return follows ? followAnswer(exchange, changed.readable, scratch.response) : nil
    }

    /// Whether this turn has worked so long that others wait, or memory is short.
    private var isBusy: Bool {
        load.isShortOfMemory || turnBegan.map { EventLoop.now().monotonic.nanoseconds(since: $0) > Self.longestTurn } ?? false
    }

    /// Nanoseconds of a turn in which answers are still compressed.
    private static var longestTurn: UInt64 { 10_000_000 }

    /// Writes the head for the client, or for the time when it is no longer held back.
    private mutating func writeHead(_ exchange: ExchangeIndex, _ bytes: RawSpan, _ scratch: inout Scratch) {
        let isHeld = exchanges[exchange].answer.holdsHead
        exchanges[exchange].state.answerBegan(isHeld: isHeld)
        let isChanged = exchanges[exchange].answer.course == .changed
        let framing =
            isChanged ? exchanges[exchange].changedFraming : scratch.response.framing.relayed(to: exchanges[exchange].request.version)
        let client = exchanges[exchange].client.index
        let persistence = isHeld ? nil : downstream.clients[client].http.sendHead(framing)
        guard downstream.clients[client].isStream else {
            ForwardedResponse.write(
                scratch.response, bytes, framing: framing, requestID: exchanges[exchange].buffers.requestID.readable,
                edits: exchanges[exchange].buffers.answerEdits, persistence: persistence, into: &scratch.output)
            if isHeld {
                exchanges[exchange].answer.stages?.heldHead.append(scratch.output.readable)
                scratch.output.removeAll()
            }
            return
        }
        ForwardedResponse.writeBlock(
            scratch.response, bytes, framing: framing, requestID: exchanges[exchange].buffers.requestID.readable,
            edits: exchanges[exchange].buffers.answerEdits, lines: &scratch.lines, into: &scratch.block)
        scratch.encodeLines()
        if isHeld {
            exchanges[exchange].answer.stages?.heldHead.append(scratch.block.readable)
        } else {
            downstream.sendHead(scratch.response.status, scratch.block.readable, isFinal: true, to: client)
            downstream.sendOnStream(client, 0, of: &scratch.output, at: now.monotonic, timeout: settings.sendTimeout)
        }
    }

    /// The upstream may say that it has moved what was a merged account's. Ids that it was not told of for this user count for nothing.
    private mutating func noteMergesDone(_ announced: LimitKey, _ bytes: RawSpan, _ scratch: borrowing Scratch) {
        for index in 0..<scratch.response.fields.count {
            let field = scratch.response.fields[index]
            guard field.known == .other, IdentityHeaders.confirmsMerge(bytes[field.name]) else { continue }
            var ids = ListElements(bytes[field.value])
            while let id = ids.next() {
                guard let from = UUID(parsing: id), let account = admission.account(announced, with: from) else { continue }
                services.mergeDone(from, account)
            }
        }
    }

    // MARK: backpressure

    /// The client has taken all that waited: the source of its answer, if it has one, goes on.
    mutating func resumeSource(_ client: ClientIndex, _ scratch: inout Scratch) {
        let exchange = downstream.clients[client].exchange
        guard !exchange.isNone else { return }
        if case .handler(let stream) = exchanges[exchange.index].answer.source {
            if downstream.hasRoom(client) { stream.taken() }
            return
        }
        if case .stored = exchanges[exchange.index].answer.source { return pumpStored(exchange, &scratch) }
        readOn(exchange.index, &scratch)
    }

    /// There is room for more of an upstream's answer: it is read on.
    mutating func readOn(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        guard exchanges[exchange].state.phase == .relaying else { return }
        let upstream = exchanges[exchange].attempt.upstream.index
        startAnswerClock(exchange, upstream)
        if upstreams.connections[upstream].isStream { return relayStream(upstream, &scratch) }
        let handle = upstreams.connections.handle(upstream)
        if exchanges[exchange].answer.isWaiting { relayKept(upstream, &scratch) }
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
        releaseUpstream(exchange, reusable: reusable)
        if exchanges[exchange].attempt.pending.capacity >= Scratch.minSpare { scratch.recycle(&exchanges[exchange].attempt.pending) }
        closeExchange(exchange, isComplete: true)
        let handle = downstream.clients.handle(client)
        apply(downstream.clients[client].http.answerSent(), client, &scratch)
        if downstream.clients.isCurrent(handle), downstream.clients[client].phase == .open, downstream.clients[client].readsHead {
            downstream.startIdling(client, at: now.monotonic, timeout: settings.idleTimeout)
        }
    }

    /// Whether the client knows that its answer is whole once it has the content that was just found: nothing is to follow it.
    private func isWholeForClient(_ exchange: ExchangeIndex, _ upstream: UpstreamIndex) -> Bool {
        upstreams.connections[upstream].http.isBodyAtEnd && exchanges[exchange].answer.course != .changed
            && downstream.clients[exchanges[exchange].client.index].http.sendsKnownLength
    }

    /// Gives back the connection to the upstream, and all bounds that the exchange counts for. Called before the last bytes of the answer
    /// go out: the client that has them may send its next request at once, to any worker, and finds its place free.
    mutating func releaseBeforeLastBytes(_ exchange: ExchangeIndex, reusable: Bool = false) {
        releaseUpstream(exchange, reusable: reusable)
        releaseCounts(exchange)
    }

    @inline(__always)
    private mutating func releaseCounts(_ exchange: ExchangeIndex) {
        if !exchanges[exchange].counts.holdings.isEmpty { release(.all, exchange) }
        if exchanges[exchange].counts.holdsSlot { releaseSlot(exchange) }
        if let socket = exchanges[exchange].counts.socket.take() { admission.closeSocket(socket) }
    }

    /// Ends an exchange without a complete answer: its client has gone, or the answer was cut.
    mutating func cancel(_ exchange: ExchangeIndex, status: Int, cause: CutCause = .client) {
        if exchanges[exchange].record.status == 0 { exchanges[exchange].record.status = status }
        if cause != .client, exchanges[exchange].record.error.utf8CodeUnitCount == 0 {
            exchanges[exchange].record.error = cause.text
            // For a stream this is no error: its client took nothing for too long, as good as gone.
            exchanges[exchange].rare?.live?.ends(.client)
        }
        releaseUpstream(exchange, reusable: false)
        closeExchange(exchange, isComplete: false)
    }

    mutating func closeExchange(_ exchange: ExchangeIndex, isComplete: Bool) {
        if exchanges[exchange].readsStored { leaveFetch(exchange) }
        cancelWait(exchange)
        releaseCounts(exchange)
        leaveClient(exchange)
        releasePipe(exchange)
        let rare = exchanges[exchange].rare
        if rare?.live != nil { closeStream(exchange, isComplete: isComplete) }
        if exchanges[exchange].request.deadline != nil { deadlines.clear(exchange) }
        finishRecord(exchange)
        if rare?.copy != nil { dropCopy(exchange) }
        if !exchanges[exchange].client.isNone { downstream.clients[exchanges[exchange].client.index].exchange = .none }
        exchanges[exchange].end()
        exchanges.release(exchange)
        if let flight = rare?.fetch { fetchEnded(flight) }
    }
}
