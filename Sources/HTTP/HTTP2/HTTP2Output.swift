package import Wire

/// Frames out: content, trailers and ends of messages. The driver keeps content that they do not take.
extension HTTP2Core {
    /// Bytes of content that may be sent to the stream now.
    package func room(of stream: StreamID) -> Int {
        guard let index = streams.index(of: stream.number) else { return 0 }
        return sending.room(of: streams[index])
    }

    /// Bytes of the output have left, or may have: frames that were written before cannot be changed any more.
    package mutating func outputLeaves() { sending.outputLeaves() }

    /// Writes as much of the content as the windows allow, at most one frame; returns how many bytes. `isLast`: the message ends with it if
    /// all of it is taken. Content of a stream that was reset is dropped.
    package mutating func sendContent(
        _ content: RawSpan, isLast: Bool, on stream: StreamID, into out: inout ByteBuffer
    ) -> Int {
        guard let index = streams.find(stream.number), !streams[index].isReset else { return content.byteCount }
        return sending.content(content, isLast: isLast, of: &streams[index], into: &out)
    }

    /// Writes content that is not the last, by frames, until the windows end it or the output holds `most` bytes; returns how many bytes.
    /// `isTurn`: one frame at most.
    package mutating func sendContent(
        _ content: RawSpan, on stream: StreamID, isTurn: Bool = false, upTo most: Int, into out: inout ByteBuffer
    ) -> Int {
        var written = 0
        while written < content.byteCount, out.count < most {
            let sent = sendContent(content.dropping(written), isLast: false, on: stream, into: &out)
            written += sent
            if sent == 0 || isTurn { break }
        }
        return written
    }

    /// Ends the message by these trailer fields, lines without an empty one, or by its last frame if there are none.
    package mutating func sendEnd(_ trailers: RawSpan, on stream: StreamID, into out: inout ByteBuffer) {
        if trailers.isEmpty { sendEnd(on: stream, into: &out) } else { sendTrailers(trailers, on: stream, into: &out) }
    }

    /// Ends the message, all of whose content was written: in its last frame if that has not left, otherwise in an empty one.
    package mutating func sendEnd(on stream: StreamID, into out: inout ByteBuffer) {
        guard let index = unended(stream) else { return }
        sending.end(&streams[index], into: &out)
    }

    /// Writes trailer fields, lines without an empty one, which end the message.
    package mutating func sendTrailers(_ lines: RawSpan, on stream: StreamID, into out: inout ByteBuffer) {
        guard let index = unended(stream) else { return }
        sending.trailers(lines, of: &streams[index], into: &out)
    }

    /// The stream's index, if the gateway may still send on it.
    private mutating func unended(_ stream: StreamID) -> Int? {
        guard let index = streams.find(stream.number), !streams[index].isReset, !streams[index].gatewayEnded else { return nil }
        return index
    }

    /// The exchange of the stream has been let go: it does not count any more. A stream that is not over is reset, so that a message that
    /// breaks off does not look complete; without an error if only a client's request is not over, as nothing needs the rest of it
    /// (RFC 9113 §8.1). One to an upstream is abandoned if not `mayReset` or the budget of resets is used up: then its answer is dropped,
    /// within the window that it has, until it ends or is reset.
    @discardableResult
    package mutating func release(
        _ stream: StreamID, _ code: HTTP2ErrorCode = .cancel, mayReset: Bool = true, into out: inout ByteBuffer
    ) -> HTTP2Release {
        guard let index = streams.find(stream.number) else { return .over }
        let isOver = streams[index].peerEnded && streams[index].gatewayEnded || streams[index].isReset || reading == .closed
        let gatewayEnded = streams[index].gatewayEnded
        receiving.consumed(streams[index].receiving.held)
        growthLeft += streams[index].receiving.size - HTTP2ReceiveWindow.initial
        streams.remove(at: index)
        var release = HTTP2Release.over
        if !isOver {
            switch role {
            case .server: release = reset(stream, gatewayEnded ? .noError : .internalError, into: &out)
            case .client where mayReset && resetBudget.take(): release = reset(stream, code, into: &out)
            case .client:
                abandoned.append(HTTP2AbandonedStream(number: stream.number, gatewayEnded: gatewayEnded))
                release = .abandoned
            }
        }
        if reading != .closed { receiving.announce(into: &out) }
        return release
    }

    private mutating func reset(_ stream: StreamID, _ code: HTTP2ErrorCode, into out: inout ByteBuffer) -> HTTP2Release {
        out.appendReset(code, stream: stream.number)
        resets.note(stream.number)
        return .reset
    }
}
