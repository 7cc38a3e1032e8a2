package import Wire

/// The role of a client, towards an upstream: answers in, requests out, and streams that were abandoned.
///
/// A decoded `FieldSection` is an HTTP/1.1 head, which `ResponseHead` takes: answers have one meaning in both protocols.
extension HTTP2Core {
    /// Writes the preface, SETTINGS, and the connection's receive window. Requests may follow at once (RFC 9113 §3.4).
    package func start(into out: inout ByteBuffer) {
        out.append(Self.preface)
        HTTP2FrameHeader(length: 12, type: .settings).write(into: &out)
        out.append(setting: HTTP2Setting.enablePush, 0)
        out.append(setting: HTTP2Setting.maxHeaderListSize, 32_768)
        out.appendWindowUpdate(bounds.connectionWindow - 65_535, stream: 0)
    }

    // MARK: state

    /// Streams that may be under way at once: the upstream's bound, within the gateway's own. May fall below `streamCount`.
    package var maxStreams: Int { min(bounds.streams, Int(peerStreams)) }

    /// Whether `sendRequest` finds a stream.
    package var acceptsMore: Bool { streams.count + abandoned.count < maxStreams && !isGoingAway }

    /// Streams that nothing waits for and that are still open.
    package var abandonedCount: Int { abandoned.count }

    /// Whether the upstream's GOAWAY, if it came, takes at least one request.
    package var takesSome: Bool { lastTaken > 0 }

    /// Whether requests need another connection: this one ends when its streams have.
    package var isGoingAway: Bool { lastTaken != .max || nextStream > 0x7FFF_FFFF || reading == .closed }

    /// The number of the next request's stream.
    private var nextStream: UInt32 { lastStream == 0 ? 1 : lastStream + 2 }

    // MARK: answers in

    /// The next event in `input`, everything received and not consumed; consumes what it has read. Answers to control frames go to
    /// `out`: while that is long, do not call.
    ///
    /// - Parameters:
    ///   - section: overwritten by the fields of an answer or by trailers.
    ///   - head: overwritten by an answer; its slices refer to `section.head`.
    package mutating func next(
        _ input: inout ByteBuffer, _ section: inout FieldSection, _ head: inout ResponseHead, _ limits: HeadLimits,
        at now: MonotonicTime, into out: inout ByteBuffer
    ) -> HTTP2Event {
        do throws(HTTP2Fault) {
            while true {
                if let event = try advance(&input, &section, limits, at: now, into: &out) { return event }
                guard let index = streams.find(current) else { continue }
                if let event = try readAnswer(&section, &head, limits, of: index, at: now, into: &out) { return event }
            }
        } catch {
            return failed(error, &input, into: &out)
        }
    }

    private mutating func readAnswer(
        _ section: inout FieldSection, _ head: inout ResponseHead, _ limits: HeadLimits, of index: Int, at now: MonotonicTime,
        into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        if let fault = section.fault {
            return try failStream(current, fault.ofAnswer, fault.isOverLimit ? .cancel : .protocolError, at: now, into: &out)
        }
        switch head.take(&section, requestMethod: streams[index].method, limits: limits) {
        case .complete: break
        case .incomplete: return try failStream(current, .statusLine, at: now, into: &out)
        case .invalid(let fault): return try failStream(current, fault.reason, at: now, into: &out)
        }
        guard !head.isInterim else {
            guard !endsStream else { return try failStream(current, .truncated, at: now, into: &out) }
            guard streams[index].interimCount < ClientConnection.maxInterim else {
                return try failStream(current, .statusLine, at: now, into: &out)
            }
            streams[index].interimCount += 1
            return .interim(StreamID(number: current))
        }
        switch head.framing {
        case .none: streams[index].contentLeft = 0
        case .length(let length):
            guard !endsStream || length == 0 else { return try failStream(current, .truncated, at: now, into: &out) }
            streams[index].contentLeft = length
        case .chunked, .untilClose: break
        }
        streams[index].hasAnswered = true
        if endsStream { messageEnded(at: index) }
        return .head(StreamID(number: current))
    }

    /// The next stream that GOAWAY left out, which the upstream has not processed (RFC 9113 §6.8); nil behind the last one.
    mutating func nextLeftOut() -> HTTP2Event? {
        for index in 0..<streams.count
        where streams[index].number > lastTaken && !streams[index].isReset && !streams[index].peerEnded {
            streams[index].isReset = true
            return .reset(StreamID(number: streams[index].number), .refusedStream)
        }
        areResetsPending = false
        return nil
    }

    // MARK: requests out

    /// Opens a stream with the request head with which `bytes` begin: a whole one of HTTP/1.1 in origin or asterisk form, as the gateway
    /// writes it. Fields that mean framing or a connection in HTTP/1.1 are dropped (RFC 9113 §8.2.2), `Host` becomes `:authority`, and
    /// of `TE` only `trailers` passes, for gRPC.
    ///
    /// - Parameters:
    ///   - fields: those of the head that are a block of HPACK behind the request line and `Host`; nil if they are lines.
    ///   - isSecure: whether `:scheme` is `https`.
    ///   - endsStream: the request has neither content nor trailers.
    ///   - owner: the driver's name for the end of the stream.
    /// - Returns: the stream, and the head's length; nil if the connection does not accept more.
    package mutating func sendRequest(
        _ bytes: RawSpan, fields: Range<Int>? = nil, isSecure: Bool, endsStream: Bool, owner: UInt32, into out: inout ByteBuffer
    ) -> (stream: StreamID, length: Int)? {
        guard acceptsMore else { return nil }
        var stream = HTTP2Stream(nextStream, sendWindow: sending.initialWindow, peerEnded: false)
        stream.owner = owner
        lastStream = stream.number
        let start = sending.beginSection(of: stream.number, into: &out)
        let line = HTTP1RequestLine(bytes)
        stream.method = Method(bytes.extracting(line.method))
        let host = fields.map { line.next + 6..<$0.lowerBound - 2 } ?? Self.host(bytes, from: line.next)
        sending.encoder.request(
            method: bytes.extracting(line.method), isSecure: isSecure, authority: bytes.extracting(host),
            path: bytes.extracting(line.target), into: &out)
        let length: Int
        if let fields {
            out.append(bytes.extracting(fields))
            length = fields.upperBound
        } else {
            length = sending.encoder.lines(bytes, from: line.next, dropping: FieldName.ofHTTP1Alone, into: &out) + 2
        }
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

    // MARK: streams that were abandoned

    /// Resets at once that upstreams put up with.
    package static var maxResets: Int { HTTP2ResetBudget.burst }

    /// How many of them are taken.
    package var resetsTaken: Int { resetBudget.taken }

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

    /// Counts a frame of a stream that is over, unless it was in flight when the gateway reset the stream, or that is abandoned.
    mutating func countStray(at now: MonotonicTime) throws(HTTP2Fault) {
        guard !resets.contains(current) else { return }
        let number = current
        let isOver = endsStream && abandoned.contains { $0.number == number && $0.gatewayEnded }
        if !isAbandoned(number, isOver: isOver) { try count(.closedStream, at: now) }
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
    /// Bits of the fields that HTTP/2 forbids (RFC 9113 §8.2.2) or sends in another form: `Host` as `:authority`.
    package static var ofHTTP1Alone: UInt64 {
        connection.bit | keepAlive.bit | proxyConnection.bit | transferEncoding.bit | upgrade.bit | host.bit | te.bit
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
