package import Wire

/// HEADERS, CONTINUATION and DATA in (RFC 9113 §6.1, 6.2 and 6.10): answers, their content and trailers.
extension HTTP2ClientConnection {
    mutating func readHeaders(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, _ section: inout FieldSection, _ head: inout ResponseHead,
        _ limits: HeadLimits, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2ClientEvent? {
        try checkStream(frame.stream)
        let part = payload.extracting(try frame.fragment(of: payload).range)
        current = frame.stream
        endsStream = frame.has(HTTP2Flag.endStream)
        if frame.has(HTTP2Flag.endHeaders) { return try endSection(part, &section, &head, limits, at: now, into: &out) }
        reading = .continuation
        block.begin(part)
        return nil
    }

    mutating func readContinuation(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, _ section: inout FieldSection, _ head: inout ResponseHead,
        _ limits: HeadLimits, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2ClientEvent? {
        guard reading == .continuation else { throw HTTP2Fault(.protocolError) }
        try block.add(payload)
        if payload.isEmpty { try count(.continuation, at: now) }
        guard frame.has(HTTP2Flag.endHeaders) else { return nil }
        reading = .frame
        let whole = block.take()
        return try endSection(whole.readable, &section, &head, limits, at: now, into: &out)
    }

    /// The field section of `current` is complete. It is decoded in any case: the table of HPACK is the connection's.
    private mutating func endSection(
        _ bytes: RawSpan, _ section: inout FieldSection, _ head: inout ResponseHead, _ limits: HeadLimits,
        at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2ClientEvent? {
        let index = streams.find(current)
        let isAnswer = index.map { !streams[$0].hasAnswered } ?? false
        do throws(HPACKFault) {
            try decoder.decode(
                bytes, as: isAnswer ? .response(hasContent: !endsStream) : .trailers,
                limits: FieldSectionLimits(fields: limits.fields, bytes: limits.headBytes), into: &section)
        } catch {
            throw HTTP2Fault(.compressionError)
        }
        guard let index, !streams[index].isReset, !streams[index].peerEnded else {
            try countStray(current, ends: endsStream, at: now)
            return nil
        }
        return isAnswer ? readAnswer(section, &head, limits, of: index, into: &out) : readTrailers(section, of: index, into: &out)
    }

    private mutating func readAnswer(
        _ section: borrowing FieldSection, _ head: inout ResponseHead, _ limits: HeadLimits, of index: Int, into out: inout ByteBuffer
    ) -> HTTP2ClientEvent {
        if let fault = section.fault {
            return failStream(at: index, fault.ofAnswer, fault.isOverLimit ? .cancel : .protocolError, into: &out)
        }
        switch head.parse(section.head, requestMethod: streams[index].method, limits: limits) {
        case .complete: break
        case .incomplete: return failStream(at: index, .statusLine, into: &out)
        case .invalid(let fault): return failStream(at: index, fault.reason, into: &out)
        }
        guard !head.isInterim else {
            guard !endsStream else { return failStream(at: index, .truncated, into: &out) }
            guard streams[index].interimCount < ClientConnection.mostInterim else { return failStream(at: index, .statusLine, into: &out) }
            streams[index].interimCount += 1
            return .interim(StreamID(number: current))
        }
        switch head.framing {
        case .none: streams[index].contentLeft = 0
        case .length(let length):
            guard !endsStream || length == 0 else { return failStream(at: index, .truncated, into: &out) }
            streams[index].contentLeft = length
        case .chunked, .untilClose: break
        }
        streams[index].hasAnswered = true
        if endsStream { answerEnded(at: index) }
        return .head(StreamID(number: current))
    }

    private mutating func readTrailers(
        _ section: borrowing FieldSection, of index: Int, into out: inout ByteBuffer
    ) -> HTTP2ClientEvent? {
        if let fault = section.fault {
            return failStream(at: index, fault.isOverLimit ? .trailerTooLarge : .trailer, into: &out)
        }
        guard endsStream else { return failStream(at: index, .trailer, into: &out) }
        guard streams[index].announces(0, isLast: true) else { return failStream(at: index, .truncated, into: &out) }
        answerEnded(at: index)
        return section.head.byteCount <= 2 ? nil : .trailers(StreamID(number: current))
    }

    private mutating func answerEnded(at index: Int) {
        streams[index].peerEnded = true
        pendingEnd = current
    }

    /// Counts a frame of a stream that is over, unless it was in flight when the gateway reset the stream, or that is abandoned.
    private mutating func countStray(_ number: UInt32, ends: Bool, at now: MonotonicTime) throws(HTTP2Fault) {
        guard !resets.contains(number) else { return }
        let isOver = ends && abandoned.contains { $0.number == number && $0.gatewayEnded }
        if !isAbandoned(number, isOver: isOver) { try count(.closedStream, at: now) }
    }

    // MARK: content

    /// Reads the start of a DATA frame; its content is passed on as it arrives.
    mutating func beginData(
        _ frame: HTTP2FrameHeader, _ input: inout ByteBuffer, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2ClientEvent? {
        try checkStream(frame.stream)
        guard try data.begin(frame, &input) else { return .needMore }
        guard receiving.received(frame.length) else { throw HTTP2Fault(.flowControlError) }
        current = frame.stream
        endsStream = frame.has(HTTP2Flag.endStream)
        reading = .data
        isDropped = true
        if data.left == 0, !endsStream { try count(.emptyData, at: now) }
        guard let index = streams.find(frame.stream), !streams[index].isReset, !streams[index].peerEnded else {
            dropped(frame.length, into: &out)
            try countStray(frame.stream, ends: endsStream, at: now)
            return nil
        }
        if let event = refuseData(frame, at: index, into: &out) {
            dropped(frame.length, into: &out)
            return event
        }
        isDropped = false
        if endsStream { streams[index].peerEnded = true }
        if data.overhead > 0 { consume(data.overhead, at: index, into: &out) }
        receiving.announce(into: &out)
        return nil
    }

    /// Resets the stream if the frame may not come on it.
    private mutating func refuseData(_ frame: HTTP2FrameHeader, at index: Int, into out: inout ByteBuffer) -> HTTP2ClientEvent? {
        guard streams[index].hasAnswered else { return failStream(at: index, .statusLine, into: &out) }
        // Content that a reset stream holds is given back when it is released; this frame is dropped at once.
        guard frame.length <= streams[index].receiving.open else { return failStream(at: index, .contentTooLarge, .flowControlError, into: &out) }
        let left = streams[index].contentLeft ?? .max
        guard streams[index].announces(UInt64(data.left), isLast: endsStream) else {
            return failStream(at: index, UInt64(data.left) > left ? .contentLength : .truncated, into: &out)
        }
        _ = streams[index].receiving.received(frame.length)
        return nil
    }

    /// Bytes that are dropped count as consumed.
    private mutating func dropped(_ count: Int, into out: inout ByteBuffer) {
        receiving.consumed(count)
        receiving.announce(into: &out)
    }

    private mutating func consume(_ count: Int, at index: Int, into out: inout ByteBuffer) {
        receiving.consumed(count)
        let size = streams[index].receiving.size
        let increment = streams[index].receiving.consumed(count, most: min(Self.streamWindow, size + growthLeft))
        growthLeft -= streams[index].receiving.size - size
        guard increment > 0, !streams[index].peerEnded, !streams[index].isReset else { return }
        out.appendWindowUpdate(increment, stream: streams[index].number)
    }

    /// `count` bytes of content of the stream have been taken: the upstream may send as many again.
    package mutating func consumed(_ count: Int, of stream: StreamID, into out: inout ByteBuffer) {
        guard count > 0, reading != .closed, let index = streams.find(stream.number) else { return }
        consume(count, at: index, into: &out)
    }

    /// Reads on in the DATA frame; nil when it is over, or its content was dropped.
    mutating func readData(_ input: inout ByteBuffer) -> HTTP2ClientEvent? {
        if data.left > 0 {
            guard !input.isEmpty else { return .needMore }
            let count = min(data.left, input.count)
            data.left -= count
            // The stream may have been released since the frame began.
            guard !isDropped, let index = streams.find(current), !streams[index].isReset else {
                input.discard(count)
                return nil
            }
            return .content(StreamID(number: current), count)
        }
        guard data.skipPadding(&input) else { return .needMore }
        reading = .frame
        if endsStream, !isDropped { pendingEnd = current }
        return nil
    }
}

extension FieldSectionFault {
    /// The fault of an answer with such a field section.
    fileprivate var ofAnswer: HTTPFault.Reason {
        switch self {
        case .tooManyFields, .tooManyCrumbs: .tooManyFields
        case .tooLarge: .headTooLarge
        case .fieldName, .upperCaseName: .fieldName
        case .fieldValue, .te: .fieldValue
        case .connectionSpecificField: .connection
        case .latePseudoField, .repeatedPseudoField, .unknownPseudoField, .missingPseudoField, .method, .scheme, .authority, .path, .status,
            .hostMismatch:
            .statusLine
        }
    }
}
