package import Wire

/// Frames out: requests, their content, trailers and ends. What they do not take is the driver's to keep.
extension HTTP2ClientConnection {
    /// Opens a stream with the request head with which `bytes` begin: a whole one of HTTP/1.1 in origin or asterisk form, as the gateway
    /// writes it. Fields that mean framing or a connection in HTTP/1.1 are dropped (RFC 9113 §8.2.2), `Host` becomes `:authority`, and
    /// of `TE` only `trailers` passes, for gRPC.
    ///
    /// - Parameters:
    ///   - isSecure: whether `:scheme` is `https`.
    ///   - endsStream: the request has neither content nor trailers.
    ///   - owner: the driver's name for the end of the stream.
    /// - Returns: the stream, and the head's length; nil if the connection does not accept more.
    package mutating func sendRequest(
        _ bytes: RawSpan, isSecure: Bool, endsStream: Bool, owner: UInt32, into out: inout ByteBuffer
    ) -> (stream: StreamID, length: Int)? {
        guard acceptsMore else { return nil }
        var stream = HTTP2Stream(nextStream, sendWindow: sending.initialWindow, peerEnded: false)
        stream.owner = owner
        nextStream += 2
        let start = sending.beginSection(of: stream.number, into: &out)
        let line = HTTP1RequestLine(bytes)
        stream.method = Method(bytes.extracting(line.method))
        sending.encoder.request(
            method: bytes.extracting(line.method), isSecure: isSecure, authority: bytes.extracting(Self.host(bytes, from: line.next)),
            path: bytes.extracting(line.target), into: &out)
        let length = encodeFields(bytes, from: line.next, into: &out) + 2
        sending.endSection(from: start, of: &stream, ends: endsStream, into: &out)
        // A request whose client sent its head and its end apart keeps them apart: servers of gRPC refuse or hang on HEADERS that end it.
        stream.lastFlags = 0
        sending.excuseMore()
        streams.add(stream)
        return (StreamID(number: stream.number), length)
    }

    /// The value of `Host`, which the gateway writes first.
    private static func host(_ bytes: RawSpan, from start: Int) -> Range<Int> {
        var start = start
        while start < bytes.byteCount, bytes[start] != ByteClass.carriageReturn {
            let line = HTTP1Line(bytes, from: start)
            if bytes.extracting(start..<line.colon).equalsIgnoringCase("host") { return line.first..<line.end }
            start = line.next
        }
        return 0..<0
    }

    /// Encodes the field lines from `start` on that have a meaning in HTTP/2; returns the offset of the empty line.
    private func encodeFields(_ bytes: RawSpan, from start: Int, into out: inout ByteBuffer) -> Int {
        var start = start
        while start < bytes.byteCount, bytes[start] != ByteClass.carriageReturn {
            let line = HTTP1Line(bytes, from: start)
            let name = bytes.extracting(start..<line.colon)
            let value = bytes.extracting(line.first..<line.end)
            let known = FieldName.recognise(name)
            if known == .te ? value.equalsIgnoringCase("trailers") : !known.isOfHTTP1Alone {
                sending.encoder.field(name, value, known: known, into: &out)
            }
            start = line.next
        }
        return start
    }

    /// Bytes of content that may be sent to the stream now.
    package func room(of stream: StreamID) -> Int {
        guard let index = streams.index(of: stream.number) else { return 0 }
        return sending.room(of: streams[index])
    }

    /// Bytes of the output have left, or may have: frames that were written before cannot be changed any more.
    package mutating func outputLeaves() { sending.outputLeaves() }

    /// Writes as much of the content as the windows allow, at most one frame; returns how many bytes. `isLast`: the request ends with
    /// it if all of it is taken. Content of a stream that was reset is dropped.
    package mutating func sendContent(
        _ content: RawSpan, isLast: Bool, on stream: StreamID, into out: inout ByteBuffer
    ) -> Int {
        guard let index = streams.find(stream.number), !streams[index].isReset else { return content.byteCount }
        return sending.content(content, isLast: isLast, of: &streams[index], into: &out)
    }

    /// Ends the request, all of whose content was written: in its last DATA frame if that has not left, otherwise in an empty one.
    package mutating func sendEnd(on stream: StreamID, into out: inout ByteBuffer) {
        guard let index = streams.find(stream.number), !streams[index].isReset, !streams[index].gatewayEnded else { return }
        sending.end(&streams[index], into: &out)
    }

    /// Writes trailer fields, lines without an empty one, which end the request.
    package mutating func sendTrailers(_ lines: RawSpan, on stream: StreamID, into out: inout ByteBuffer) {
        guard let index = streams.find(stream.number), !streams[index].isReset, !streams[index].gatewayEnded else { return }
        sending.trailers(lines, of: &streams[index], into: &out)
    }

    /// The exchange of the stream has been let go: it does not count any more. A stream that is not over is reset, or abandoned if not
    /// `mayReset` or the budget of resets is used up: then its answer is dropped, within the window that it has, until it ends or is reset.
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
        if isOver { return .over }
        guard mayReset, resetBudget.take() else {
            abandoned.append(HTTP2AbandonedStream(number: stream.number, gatewayEnded: gatewayEnded))
            return .abandoned
        }
        out.appendReset(code, stream: stream.number)
        resets.note(stream.number)
        return .reset
    }

    /// A second has passed: more streams may be reset.
    package mutating func refillResets() { resetBudget.refill() }

    /// Resets an abandoned stream; false if it is over, or the budget of resets is used up.
    package mutating func resetAbandoned(_ stream: StreamID, into out: inout ByteBuffer) -> Bool {
        guard reading != .closed, let index = abandoned.firstIndex(where: { $0.number == stream.number }), resetBudget.take() else {
            return false
        }
        out.appendReset(.cancel, stream: stream.number)
        resets.note(stream.number)
        abandoned.remove(at: index)
        return true
    }

    /// Whether the stream was abandoned and is not over.
    package func isAbandoned(_ stream: StreamID) -> Bool { abandoned.contains { $0.number == stream.number } }

    /// Whether the stream was abandoned. `isOver`: the upstream has ended it, so that it does not count any more.
    mutating func isAbandoned(_ number: UInt32, isOver: Bool) -> Bool {
        guard let index = abandoned.firstIndex(where: { $0.number == number }) else { return false }
        if isOver { abandoned.remove(at: index) }
        return true
    }
}

/// The request line of a head that the gateway has written, by its offsets.
private struct HTTP1RequestLine {
    let method: Range<Int>
    let target: Range<Int>
    /// The first field line.
    let next: Int

    init(_ head: RawSpan) {
        let methodEnd = head.firstOffset(of: ByteClass.space, from: 0)
        let targetEnd = head.firstOffset(of: ByteClass.space, from: methodEnd + 1)
        let end = head.firstOffset(of: ByteClass.lineFeed, from: targetEnd)
        precondition(methodEnd < targetEnd && targetEnd < end && end < head.byteCount, "a request without a request line")
        method = 0..<methodEnd
        target = methodEnd + 1..<targetEnd
        next = end + 1
    }
}

extension FieldName {
    /// Whether the field has no place in HTTP/2 (RFC 9113 §8.2.2), or another form: `Host` is `:authority`.
    fileprivate var isOfHTTP1Alone: Bool {
        let connection = Self.connection.bit | Self.keepAlive.bit | Self.proxyConnection.bit
        return bit & (connection | Self.transferEncoding.bit | Self.upgrade.bit | Self.host.bit) != 0
    }
}
