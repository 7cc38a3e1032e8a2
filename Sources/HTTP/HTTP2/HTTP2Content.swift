package import Wire

/// DATA frames in (RFC 9113 §6.1), and the windows that the peer may fill (§5.2).
extension HTTP2Core {
    /// Reads the start of a DATA frame; its content is passed on as it arrives.
    mutating func beginData(
        _ frame: HTTP2FrameHeader, _ input: inout ByteBuffer, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        try checkStream(frame.stream)
        guard try data.begin(frame, &input) else { return .needMore }
        guard receiving.received(frame.length) else { throw HTTP2Fault(.flowControlError) }
        current = frame.stream
        endsStream = frame.has(HTTP2Flag.endStream)
        reading = .data
        isDropped = true
        if data.left == 0, !endsStream { try count(.emptyData, at: now) }
        let found = streams.find(frame.stream)
        guard let index = found, !streams[index].isReset, !streams[index].peerEnded else {
            dropped(frame.length, into: &out)
            return try readStrayData(found, at: now, into: &out)
        }
        if let (reason, code) = fault(of: frame, at: index) {
            // Content that a reset stream holds is given back when it is released; this frame is dropped at once.
            dropped(frame.length, into: &out)
            return try failStream(frame.stream, reason, code, at: now, into: &out)
        }
        _ = streams[index].receiving.received(frame.length)
        isDropped = false
        if endsStream { streams[index].peerEnded = true }
        if data.overhead > 0 { consume(data.overhead, at: index, into: &out) }
        receiving.announce(into: &out)
        return nil
    }

    /// Why the frame may not come on its stream.
    private mutating func fault(of frame: HTTP2FrameHeader, at index: Int) -> (HTTPFault.Reason, HTTP2ErrorCode)? {
        guard role == .server || streams[index].hasAnswered else { return (.statusLine, .protocolError) }
        guard frame.length <= streams[index].receiving.open else { return (.contentTooLarge, .flowControlError) }
        let left = streams[index].contentLeft ?? .max
        guard streams[index].announces(UInt64(data.left), isLast: endsStream) else {
            return (UInt64(data.left) > left ? .contentLength : .truncated, .protocolError)
        }
        return nil
    }

    /// DATA for a stream that is over. What was in flight when the gateway reset it is no fault.
    private mutating func readStrayData(
        _ index: Int?, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard role == .server else {
            try countStray(at: now)
            return nil
        }
        if let index {
            if streams[index].isReset { return nil }
        } else {
            guard !isIgnored(current), !resets.contains(current) else { return nil }
            try count(.closedStream, at: now)
        }
        return try failStream(current, .connection, .streamClosed, at: now, into: &out)
    }

    /// Bytes that are dropped count as consumed.
    private mutating func dropped(_ count: Int, into out: inout ByteBuffer) {
        receiving.consumed(count)
        receiving.announce(into: &out)
    }

    private mutating func consume(_ count: Int, at index: Int, into out: inout ByteBuffer) {
        receiving.consumed(count)
        let size = streams[index].receiving.size
        let increment = streams[index].receiving.consumed(count, most: min(bounds.streamWindow, size + growthLeft))
        growthLeft -= streams[index].receiving.size - size
        guard increment > 0, !streams[index].peerEnded, !streams[index].isReset else { return }
        out.appendWindowUpdate(increment, stream: streams[index].number)
    }

    /// `count` bytes of content of the stream have been taken: the peer may send as many again.
    package mutating func consumed(_ count: Int, of stream: StreamID, into out: inout ByteBuffer) {
        guard count > 0, reading != .closed, let index = streams.find(stream.number) else { return }
        consume(count, at: index, into: &out)
        receiving.announce(into: &out)
    }

    /// Reads on in the DATA frame; nil when it is over, or its content was dropped.
    mutating func readData(_ input: inout ByteBuffer) -> HTTP2Event? {
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

extension HTTP2Stream {
    /// Counts content against `Content-Length` (RFC 9113 §8.1.1); false if they do not agree.
    mutating func announces(_ count: UInt64, isLast: Bool) -> Bool {
        guard let left = contentLeft else { return true }
        guard count <= left else { return false }
        contentLeft = left - count
        return !isLast || count == left
    }
}
