import Gate
import HTTP
import Transport
import Wire

/// Sends the client the content of an answer and its end. `AnswerDriver` receives it.
extension Worker {
    /// Up to this many bytes are gathered behind the head of an answer and sent with it; more are sent from where they were received.
    private static var mostGathered: Int { 32 * 1_024 }

    // MARK: content

    /// Passes on the first `count` bytes of `input`, which are content of the answer. The exchange may be over afterwards.
    mutating func pumpAnswer(_ exchange: ExchangeIndex, _ count: Int, of input: inout ByteBuffer, _ scratch: inout Scratch) {
        guard exchanges[exchange].filter.isFiltering else {
            exchanges[exchange].passed(count, .answer)
            return copyAnswer(exchange, count, of: &input, &scratch)
        }
        // The client gets the filter's output, which is counted there.
        do throws(FilterFailure) {
            try exchanges[exchange].filter.feed(input.readable.extracting(0..<count))
        } catch {
            return refuseAnswer(exchange, error, &scratch)
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

    // MARK: the end

    /// Passes on the trailer fields in `scratch.trailers`, the first `length` bytes of `input`, if the client gets them; returns
    /// whether: then they have ended the content. Those of a filtered answer describe the upstream's content, not the client's.
    mutating func pumpAnswerTrailers(
        _ exchange: ExchangeIndex, _ length: Int, of input: inout ByteBuffer, _ scratch: inout Scratch
    ) -> Bool {
        let client = exchanges[exchange].client.index
        if exchanges[exchange].request.dialect == .grpc { noteGRPCStatus(exchange, scratch.trailers, input.readable) }
        let passes = downstream.clients[client].http.mayHaveTrailers && !exchanges[exchange].filter.isFiltering
        if passes, downstream.clients[client].isStream {
            Trailers.writeLines(scratch.trailers, input.readable, into: &downstream.clients[client].trailers)
        } else if passes {
            Trailers.writeEnd(scratch.trailers, input.readable, into: &scratch.output)
        }
        input.discard(length)
        return passes
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
