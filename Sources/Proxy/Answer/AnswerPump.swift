import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Moves an answer from its source to the client: its content, as the pipe leads it, its trailers and its end. The source is driven by
/// `AnswerDriver`, or is a handler of the gateway (`LocalStreaming`).
extension Worker {
    /// Up to this many bytes are gathered behind the head of an answer and sent with it; more are sent from where they were received.
    private static var maxGathered: Int { 32 * 1_024 }
    /// Content from the stages is gathered up to so many bytes before it is sent.
    private static var maxChanged: Int { 64 * 1_024 }

    // MARK: content

    /// Passes on the first `count` bytes of `input`, which are content of the answer. The exchange may be over afterwards.
    mutating func pumpAnswer(_ exchange: ExchangeIndex, _ count: Int, of input: inout ByteBuffer, _ scratch: inout Scratch) {
        let course = exchanges[exchange].answer.course
        if course != .changed { exchanges[exchange].passed(count, .answer) }
        var count = count
        if course == .changed, !exchanges[exchange].answer.frames.isNone {
            guard let left = followFrames(exchange, count, of: &input, &scratch), left > 0 else { return }
            count = left
        }
        if course != .direct {
            guard give(exchange, count, of: input, &scratch) else { return }
            guard course == .watched else { return input.discard(count) }
            if !exchanges[exchange].answer.frames.isNone {
                guard let left = followFrames(exchange, count, of: &input, &scratch), left > 0 else { return }
                count = left
            }
        }
        let client = exchanges[exchange].client.index
        if downstream.clients[client].http.framesContent || scratch.output.count + count <= Self.maxGathered {
            downstream.clients[client].http.sendContent(input.readable.extracting(0..<count), into: &scratch.output)
            return input.discard(count)
        }
        if sendGathered(exchanges.handle(exchange), &scratch) { sendToClient(client, count, of: &input, &scratch) }
    }

    /// Gives content to the stages; returns whether they let the answer go on.
    @inline(never)
    private mutating func give(_ exchange: ExchangeIndex, _ count: Int, of input: borrowing ByteBuffer, _ scratch: inout Scratch) -> Bool {
        do throws(FilterFault) {
            try exchanges[exchange].answer.content(input.readable.extracting(0..<count))
            noteLapse(exchange)
            return true
        } catch {
            refuseAnswer(exchange, error, &scratch)
            return false
        }
    }

    /// Goes on with what waits in the stages, as long as the client has room; returns whether the exchange still exists.
    mutating func changeWaiting(_ exchange: Handle<Exchange>, _ scratch: inout Scratch) throws(FilterFault) -> Bool {
        let index = exchange.index
        while exchanges[index].answer.isWaiting, hasRoom(.answer, index) {
            try exchanges[index].answer.content(RawSpan())
            exchanges[index].writeChanged(to: &downstream, into: &scratch.output)
            guard scratch.output.count < Self.maxChanged || sendGathered(exchange, &scratch) else { return false }
        }
        return true
    }

    /// Writes events of the gateway's own behind what was gathered.
    mutating func writeContent(_ exchange: ExchangeIndex, _ content: RawSpan, _ scratch: inout Scratch) {
        scratch.prepareOutput()
        if exchanges[exchange].answer.course == .changed {
            exchanges[exchange].answer.stages?.insert(content)
            return exchanges[exchange].writeChanged(to: &downstream, into: &scratch.output)
        }
        exchanges[exchange].passed(content.byteCount, .answer)
        downstream.clients[exchanges[exchange].client.index].http.sendContent(content, into: &scratch.output)
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

    // MARK: the end

    /// Passes on the trailer fields in `scratch.trailers`, the first `length` bytes of `input`, if the client gets them; returns
    /// whether: then they have ended the content. Content that stages have changed is not what they describe.
    mutating func pumpAnswerTrailers(
        _ exchange: ExchangeIndex, _ length: Int, of input: inout ByteBuffer, _ scratch: inout Scratch
    ) -> Bool {
        let client = exchanges[exchange].client.index
        if exchanges[exchange].request.dialect == .grpc { noteGRPCStatus(exchange, scratch.trailers, input.readable) }
        let passes = downstream.clients[client].http.mayHaveTrailers && exchanges[exchange].answer.course != .changed
        if passes, downstream.clients[client].isStream {
            var lines = ByteBuffer()
            swap(&lines, &downstream.clients[client].trailers)
            Trailers.writeLines(scratch.trailers, input.readable, edits: exchanges[exchange].buffers.answerEdits, into: &lines)
            swap(&lines, &downstream.clients[client].trailers)
        } else if passes {
            Trailers.writeEnd(scratch.trailers, input.readable, edits: exchanges[exchange].buffers.answerEdits, into: &scratch.output)
        }
        input.discard(length)
        return passes
    }

    /// The answer's last byte was received: keeps the connection if nothing is left on it, then sends the answer's end. The first `last`
    /// bytes of `input` are content that was not passed on yet.
    mutating func answerReceived(
        _ exchange: ExchangeIndex, _ upstream: UpstreamIndex, hasTrailers: Bool, last: Int, of input: inout ByteBuffer,
        _ scratch: inout Scratch
    ) throws(FilterFault) {
        let handle = exchanges.handle(exchange)
        let course = exchanges[exchange].answer.course
        try endChanged(exchange, &scratch)
        let isReusable = isReusable(upstream, exchange, left: input.count - last)
        upstreams.directory.answerEnded(exchanges[exchange].attempt.endpoint)
        releaseBeforeLastBytes(exchange, reusable: isReusable)
        if last > 0 {
            pumpAnswer(exchange, last, of: &input, &scratch)
            guard exchanges.isCurrent(handle) else { return }
        }
        if course == .watched {
            try exchanges[exchange].answer.end()
            noteLapse(exchange)
        }
        if !hasTrailers { downstream.clients[exchanges[exchange].client.index].http.sendEnd(into: &scratch.output) }
        guard sendGathered(handle, &scratch) else { return }
        finishAnswer(exchange, reusable: isReusable, &scratch)
    }

    /// Whether a connection whose answer is complete, with so many bytes left behind it, can serve another request.
    @inline(__always)
    func isReusable(_ upstream: UpstreamIndex, _ exchange: ExchangeIndex, left: Int) -> Bool {
        upstreams.connections[upstream].http.isReusable && left == 0 && !upstreams.connections[upstream].connection.hasPending
            && exchanges[exchange].isSent
    }

    /// All content has come: writes what stages that change it still had.
    mutating func endChanged(_ exchange: ExchangeIndex, _ scratch: inout Scratch) throws(FilterFault) {
        guard exchanges[exchange].answer.course == .changed else { return }
        try exchanges[exchange].answer.end()
        exchanges[exchange].writeChanged(to: &downstream, into: &scratch.output)
        exchanges[exchange].releaseHead(to: &downstream, into: &scratch.output)
    }

    /// Sends the last bytes of an answer, which were gathered, and ends the exchange. Its upstream, if it has one, is left.
    mutating func endAnswer(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        releaseBeforeLastBytes(exchange)
        if sendGathered(exchanges.handle(exchange), &scratch) { finishAnswer(exchange, reusable: false, &scratch) }
    }

    // MARK: failing

    /// A stage stops the answer: it is refused, or cut if the client has received some of it.
    mutating func refuseAnswer(_ exchange: ExchangeIndex, _ failure: FilterFault, _ scratch: inout Scratch) {
        guard sendGathered(exchanges.handle(exchange), &scratch) else { return }
        exchanges[exchange].record.error = failure.texts.log
        telemetry.metrics.filterFailed(failure.texts.reason)
        logNotJSON(exchange, failure)
        guard exchanges[exchange].state.answer != .started else { return cutAnswer(exchange, &scratch) }
        let refusal = failure.refusal(status: exchanges[exchange].record.status)
        if case .upstreamError = refusal {
            exchanges[exchange].answer.stages?.filter.addGuidance(to: &exchanges[exchange].buffers.answerEdits)
        }
        answer(exchange, with: refusal, &scratch)
    }

    /// Logs that a stage that only watches has stopped.
    mutating func noteLapse(_ exchange: ExchangeIndex) {
        if let failure = exchanges[exchange].answer.stages?.filter.lapse.take() { logNotJSON(exchange, failure) }
    }
}

extension Exchange {
    /// How content is framed whose length the stages change.
    var changedFraming: BodyFraming { BodyFraming.chunked.relayed(to: request.version) }

    /// Writes the content that the stages have let go, behind the head if that was held back.
    mutating func writeChanged(to downstream: inout Downstream, into out: inout ByteBuffer) {
        guard let stages = answer.stages, !stages.ready.isEmpty else { return }
        releaseHead(to: &downstream, into: &out)
        if case .stored(let reading) = answer.source { reading.contentMade(stages.ready.readable) }
        downstream.clients[client.index].http.sendContent(stages.ready.readable, into: &out)
        passed(stages.ready.count, .answer)
        stages.ready.removeAll()
    }

    /// Completes the head that was held back: the lines of HTTP/1, or the field block of HTTP/2.
    fileprivate mutating func releaseHead(to downstream: inout Downstream, into out: inout ByteBuffer) {
        guard state.answer == .held, let stages = answer.stages else { return }
        let persistence = downstream.clients[client.index].http.sendHead(changedFraming)
        state.answerReleased()
        if downstream.clients[client.index].isStream {
            downstream.sendHead(record.status, stages.heldHead.readable, isFinal: true, to: client.index)
        } else {
            out.append(stages.heldHead.readable)
            out.append(persistence)
            out.append("\r\n")
        }
        stages.heldHead.removeAll()
    }
}
