import Credentials
import Gate
import HTTP
import Telemetry
import Transport
import Wire

/// Ends streams: between two frames, so that the client can tell why, or by a cut, so that it can tell that content is missing.
extension Worker {
    /// Milliseconds that a stream in the middle of a frame has for its rest.
    private static var gapPatience: UInt64 { 500 }

    /// Ends a stream. The exchange is over afterwards, or as soon as the frame under way is.
    mutating func endStream(_ exchange: ExchangeIndex, _ reason: StreamEndReason, _ scratch: inout Scratch) {
        guard let live = exchanges[exchange].rare?.live, live.end == nil else { return }
        live.end = reason
        exchanges[exchange].record.error = reason.word
        switch live.kind {
        case .websocket: endTunnel(exchange, reason, &scratch)
        case .sse, .grpc, .http:
            guard exchanges[exchange].state.answer != .none else {
                releaseUpstream(exchange, reusable: false)
                return answer(exchange, with: reason.refusal, &scratch)
            }
            if exchanges[exchange].answer.frames.isInGap { return finishStream(exchange, &scratch) }
            guard !exchanges[exchange].answer.frames.isNone else { return cutStream(exchange, &scratch) }
            let deadline = now.monotonic.advanced(milliseconds: Self.gapPatience)
            live.cutAt = deadline
            streams.timers.set(exchange.id, deadline: deadline)
        }
    }

    /// Ends a stream that is between two frames: an event stream with a comment, a gRPC call with its status.
    mutating func finishStream(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        guard let reason = exchanges[exchange].rare?.live?.end else { return }
        let client = exchanges[exchange].client.index
        switch exchanges[exchange].answer.frames {
        case .none: return cutStream(exchange, &scratch)
        case .events:
            write(exchange, &scratch) { out in
                out.append(": ")
                out.append(reason.word)
                out.append("\n\n")
            }
            if exchanges[exchange].answer.course == .changed {
                exchanges[exchange].answer.stages?.endInserted()
                exchanges[exchange].writeChanged(to: &downstream, into: &scratch.output)
            }
            downstream.clients[client].http.sendEnd(into: &scratch.output)
        case .messages: reason.writeGRPCTrailers(into: &downstream.clients[client].trailers)
        }
        endAnswer(exchange, &scratch)
    }

    /// Ends a stream so that it looks incomplete.
    mutating func cutStream(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        guard sendGathered(exchanges.handle(exchange), &scratch) else { return }
        let client = exchanges[exchange].client
        cutAnswer(exchange, &scratch)
        if downstream.clients.isCurrent(client) { refreshInterest(client.index) }
    }

    /// The gateway drains: ends what would last, and whose clients come again.
    mutating func endStreamsForDrain(_ scratch: inout Scratch) {
        for exchange in exchanges.indices where exchanges[exchange].rare?.live?.kind.endsWithDrain == true {
            resumingClient(of: exchange, &scratch) { $0.endStream(exchange, .drain, &$1) }
        }
        for exchange in exchanges.indices where exchanges[exchange].isFromHandler {
            resumingClient(of: exchange, &scratch) { $0.send(.end, of: $0.exchanges.handle(exchange), &$1) }
        }
    }

    /// The exchange ends: its stream, if it is one, is counted and its log line names the reason.
    mutating func closeStream(_ exchange: ExchangeIndex, isComplete: Bool) {
        guard let live = exchanges[exchange].rare?.live else { return }
        if let moved = streams.remove(exchanges.handle(exchange), at: live.place) { exchanges.move(moved, to: live.place) }
        let isFaulty = exchanges[exchange].record.error.utf8CodeUnitCount > 0
        telemetry.streamEnded(
            &exchanges[exchange].record, live.kind,
            live.end ?? exchanges[exchange].rare?.tunnel?.leftBy ?? (isComplete ? .upstream : isFaulty ? .error : .client))
    }

    // MARK: writing between frames

    /// Tells the client of an event stream that it ends in so many seconds, now or in the next gap.
    mutating func warn(_ exchange: ExchangeIndex, _ seconds: Int64, _ scratch: inout Scratch) {
        exchanges[exchange].rare?.live?.warning = seconds
        guard exchanges[exchange].answer.frames.isInGap else { return }
        writeWarning(exchange, &scratch)
        _ = sendGathered(exchanges.handle(exchange), &scratch)
    }

    private mutating func writeWarning(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        guard let seconds = exchanges[exchange].rare?.live?.takeWarning() else { return }
        write(exchange, &scratch) { out in
            out.append("event: token-expiring\ndata: {\"expires_in\":")
            out.append(decimal: UInt64(clamping: seconds))
            out.append("}\n\n")
        }
    }

    /// Sends a comment if nothing has gone to the client for long.
    mutating func sendHeartbeatIfDue(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        guard let live = exchanges[exchange].rare?.live, live.end == nil, let heartbeat = live.heartbeat,
            live.movedAt.advanced(milliseconds: heartbeat) <= now.monotonic
        else { return }
        live.movedAt = now.monotonic
        // A client that is late with what it was sent needs no more.
        guard exchanges[exchange].answer.frames.isInGap, hasRoom(.answer, exchange) else { return }
        write(exchange, &scratch) { $0.append(":\n\n") }
        _ = sendGathered(exchanges.handle(exchange), &scratch)
    }

    /// Writes content of the gateway's own behind what was gathered.
    private mutating func write(_ exchange: ExchangeIndex, _ scratch: inout Scratch, _ text: (inout ByteBuffer) -> Void) {
        var content = ByteBuffer(capacity: 64)
        text(&content)
        exchanges[exchange].rare?.live?.movedAt = now.monotonic
        writeContent(exchange, content.readable, &scratch)
    }

    // MARK: content

    /// Scans content of an answer for the boundaries of its frames; the first `count` bytes of `input` are about to be copied. At the
    /// first boundary it writes the warning that is due, or ends the stream.
    ///
    /// - Returns: how many bytes are left to copy; nil if the exchange is over.
    mutating func followFrames(
        _ exchange: ExchangeIndex, _ count: Int, of input: inout ByteBuffer, _ scratch: inout Scratch
    ) -> Int? {
        exchanges[exchange].rare?.live?.movedAt = now.monotonic
        guard exchanges[exchange].rare?.live?.awaitsGap == true else {
            exchanges[exchange].answer.frames.advance(over: input.readable.extracting(0..<count))
            return count
        }
        guard let gap = exchanges[exchange].answer.frames.advanceToGap(in: input.readable.extracting(0..<count)) else { return count }
        let isChanged = exchanges[exchange].answer.course == .changed
        if isChanged {
            exchanges[exchange].answer.stages?.insert(input.readable.extracting(0..<gap))
        } else {
            downstream.clients[exchanges[exchange].client.index].http.sendContent(
                input.readable.extracting(0..<gap), into: &scratch.output)
        }
        input.discard(gap)
        guard exchanges[exchange].rare?.live?.end == nil else {
            if !isChanged { exchanges[exchange].record.bytesOut -= UInt64(count - gap) }
            finishStream(exchange, &scratch)
            return nil
        }
        writeWarning(exchange, &scratch)
        exchanges[exchange].answer.frames.advance(over: input.readable.extracting(0..<count - gap))
        return count - gap
    }
}

extension StreamKind {
    /// Whether a drain ends it at once: its client connects again, to another gateway. Calls and downloads may still be completed.
    var endsWithDrain: Bool {
        switch self {
        case .websocket, .sse: true
        case .grpc, .http: false
        }
    }
}

extension StreamEndReason {
    /// The refusal of a call that ends before its answer has begun; its gRPC status in any case.
    fileprivate var refusal: Refusal {
        switch self {
        case .tokenExpired: .unauthorized(.token(.expired))
        case .sessionEnded: .unauthorized(.revoked)
        case .tier: .premiumRequired
        case .drain, .client, .upstream, .idle, .error: .unavailable(.overload, retryAfterSeconds: 1)
        }
    }

    /// Appends the trailers that end a gRPC call.
    fileprivate func writeGRPCTrailers(into out: inout ByteBuffer) {
        out.append("grpc-status: ")
        out.append(decimal: UInt64(GRPCStatus(refusal).rawValue))
        out.append("\r\ngrpc-message: ")
        out.append(sentence)
        out.append("\r\n")
    }

    private var sentence: StaticString {
        switch self {
        case .tokenExpired: "The token has expired."
        case .sessionEnded: "The session has ended."
        case .tier: "The account's tier has changed."
        case .drain, .client, .upstream, .idle, .error: "The gateway is ending."
        }
    }
}
