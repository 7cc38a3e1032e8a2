package import Wire

/// An event that `HTTP2ClientConnection` found in the bytes of an upstream.
package enum HTTP2ClientEvent: Equatable, Sendable {
    /// Call again with more bytes.
    case needMore
    /// An interim answer (1xx): the head that was passed in, parsed from the field section that was passed in.
    case interim(StreamID)
    /// Likewise, the final answer. Its framing is `untilClose` if it has no content and does not say so, and `chunked` if it has content
    /// of unknown length, in which there are no chunks.
    case head(StreamID)
    /// The first so many bytes of the input are content. The caller consumes them before it calls again.
    case content(StreamID, Int)
    /// The field section that was passed in holds trailers. `end` follows.
    case trailers(StreamID)
    /// The answer is complete: `release` the stream. A reset behind it is not reported.
    case end(StreamID)
    /// The upstream has reset the stream, or its GOAWAY left it out: `release` it. With REFUSED_STREAM the request was not processed, so
    /// that any may be retried (RFC 9113 §8.7).
    case reset(StreamID, HTTP2ErrorCode)
    /// The answer is malformed or too large, which may show behind its head too: the stream was reset. `release` it.
    case badAnswer(StreamID, HTTPFault)
    /// More may be sent to this stream, or to all streams if its number is 0.
    case roomGrew(StreamID)
    /// The upstream's SETTINGS were read: `mostStreams` may have changed.
    case settings
    /// GOAWAY: no more requests are taken. `reset` follows for each stream that it leaves out; the others are answered. May come again.
    case wentAway(HTTP2ErrorCode)
    /// The connection cannot go on: GOAWAY has been written, and all streams are lost.
    case fault(HTTP2Fault)
}

/// The client's side of one HTTP/2 connection (RFC 9113), for upstreams: frames in, events of streams out, and the wire form of
/// requests. It does no I/O, has no clock, and never waits: what a window does not allow yet is the driver's to keep.
///
/// A decoded `FieldSection` is an HTTP/1.1 head, which `ResponseHead` parses: answers have one meaning in both protocols.
package struct HTTP2ClientConnection: ~Copyable {
    private let pin = AddressPin()
    /// Streams under way at once.
    static let streamBound = 100
    /// The connection's receive window, in bytes.
    static let window = 1 << 20
    /// The greatest receive window of one stream, in bytes.
    static let streamWindow = 512 * 1_024
    /// Bytes by which the receive windows of all streams together may grow. Without growth each holds 64 KiB, so this bounds the memory
    /// of a connection whose clients read slowly; and the connection's own window can stay open for the others.
    static let mostGrowth = 4 << 20

    enum Reading: Equatable {
        /// The upstream's SETTINGS must come first.
        case firstFrame
        case frame
        /// Inside a DATA frame.
        case data
        /// Between the frames of a field section.
        case continuation
        case closed
    }

    var reading = Reading.firstFrame
    var streams = HTTP2StreamTable()
    var glitches = HTTP2Glitches()
    var decoder = HPACKDecoder()
    var sending = HTTP2Sending()
    var receiving = HTTP2ConnectionWindow(size: Self.window, mostHeld: .max)
    var growthLeft = Self.mostGrowth
    var resets = HTTP2Resets(most: Self.streamBound)
    var resetBudget = HTTP2ResetBudget()
    /// They count against the upstream's bound on streams, by the order in which they were abandoned.
    var abandoned: [HTTP2AbandonedStream] = []
    /// The number of the next request's stream.
    var nextStream: UInt32 = 1
    /// The upstream's SETTINGS_MAX_CONCURRENT_STREAMS.
    var peerStreams = UInt32.max
    /// The last stream that the upstream's GOAWAY takes; larger than any number before GOAWAY.
    var lastTaken = UInt32.max
    /// Whether a PING of the gateway has not been answered.
    package internal(set) var awaitsPong = false

    // The frame under way.
    var data = HTTP2DataFrame()
    var current: UInt32 = 0
    var endsStream = false
    var isDropped = false
    /// The field section under way, in several frames.
    var block = HTTP2FieldBlock()
    // Events that follow the last one without more bytes.
    var pendingEnd: UInt32 = 0
    var isRoomPending = false
    var areResetsPending = false

    /// A connection that has not begun.
    package init() {}

    /// Writes the preface, SETTINGS, and the connection's receive window. Requests may follow at once (RFC 9113 §3.4).
    package func start(into out: inout ByteBuffer) {
        out.append(HTTP2ServerConnection.preface)
        HTTP2FrameHeader(length: 12, type: .settings).write(into: &out)
        out.append(setting: HTTP2Setting.enablePush, 0)
        out.append(setting: HTTP2Setting.maxHeaderListSize, 32_768)
        out.appendWindowUpdate(Self.window - 65_535, stream: 0)
    }

    // MARK: state

    /// Frees memory that a connection without streams does not need.
    package mutating func rest() {
        if streams.isEmpty { streams = HTTP2StreamTable() }
        if reading != .continuation { block.rest() }
    }

    /// Whether the upstream's first SETTINGS have been read, so that it speaks HTTP/2.
    package var isEstablished: Bool { reading != .firstFrame }

    /// Streams that have not been released.
    package var streamCount: Int { streams.count }

    /// Streams that may be under way at once: the upstream's bound, within the gateway's own. May fall below `streamCount`.
    package var mostStreams: Int { min(Self.streamBound, Int(peerStreams)) }

    /// Whether `sendRequest` finds a stream.
    package var acceptsMore: Bool { streams.count + abandoned.count < mostStreams && !isGoingAway }

    /// Streams that nothing waits for and that are still open.
    package var abandonedCount: Int { abandoned.count }

    /// Resets at once that upstreams put up with.
    package static let mostResets = HTTP2ResetBudget.burst

    /// How many of them are taken.
    package var resetsTaken: Int { resetBudget.taken }

    /// Whether the upstream's GOAWAY, if it came, takes at least one request.
    package var takesSome: Bool { lastTaken > 0 }

    /// Whether requests need another connection: this one ends when its streams have.
    package var isGoingAway: Bool { lastTaken != .max || nextStream > 0x7FFF_FFFF || reading == .closed }

    /// The driver's name for the end of the stream at this index, by the order of the requests.
    package func owner(at index: Int) -> UInt32 { streams[index].owner }

    /// The driver's name for the end of the stream.
    package mutating func owner(of stream: StreamID) -> UInt32? { streams.find(stream.number).map { streams[$0].owner } }

    package mutating func setOwner(_ owner: UInt32, of stream: StreamID) {
        guard let index = streams.find(stream.number) else { return }
        streams[index].owner = owner
    }

    /// Whether any answer has been read, interim ones included.
    package func hasBegunAnswer(_ stream: StreamID) -> Bool {
        guard let index = streams.index(of: stream.number) else { return false }
        return streams[index].hasAnswered || streams[index].interimCount > 0
    }

    /// Whether part of a frame other than DATA, or of a field section, has arrived, or the upstream owes its first SETTINGS.
    package func isInsideFrame(_ input: borrowing ByteBuffer) -> Bool {
        switch reading {
        case .firstFrame, .continuation: true
        case .frame: !input.isEmpty
        case .data, .closed: false
        }
    }

    // MARK: bytes in

    /// The next event in `input`, everything received and not consumed; consumes what it has read. Answers to control frames go to
    /// `out`: while that is long, do not call.
    ///
    /// - Parameters:
    ///   - section: overwritten by the fields of an answer or by trailers.
    ///   - head: overwritten by an answer; its slices refer to `section.head`.
    package mutating func next(
        _ input: inout ByteBuffer, _ section: inout FieldSection, _ head: inout ResponseHead, _ limits: HeadLimits,
        at now: MonotonicTime, into out: inout ByteBuffer
    ) -> HTTP2ClientEvent {
        do throws(HTTP2Fault) {
            while true {
                if let event = pendingEvent() { return event }
                switch reading {
                case .data:
                    if let event = readData(&input) { return event }
                case .firstFrame, .frame, .continuation:
                    if let event = try readFrame(&input, &section, &head, limits, at: now, into: &out) { return event }
                case .closed:
                    input.removeAll()
                    return .needMore
                }
            }
        } catch {
            input.removeAll()
            close(error.code, into: &out)
            return .fault(error)
        }
    }

    private mutating func pendingEvent() -> HTTP2ClientEvent? {
        if pendingEnd != 0 {
            let number = pendingEnd
            pendingEnd = 0
            // The stream may have been released since.
            if let index = streams.find(number), !streams[index].isReset { return .end(StreamID(number: number)) }
        }
        if isRoomPending {
            isRoomPending = false
            return .roomGrew(StreamID(number: 0))
        }
        return areResetsPending ? nextLeftOut() : nil
    }

    /// Reads one frame; returns an event for the driver, nil if there is none, `needMore` if the frame is not complete.
    private mutating func readFrame(
        _ input: inout ByteBuffer, _ section: inout FieldSection, _ head: inout ResponseHead, _ limits: HeadLimits,
        at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2ClientEvent? {
        guard input.count >= HTTP2FrameHeader.size else { return .needMore }
        let frame = HTTP2FrameHeader(input.readable)
        try check(frame)
        if frame.type == HTTP2FrameType.data.rawValue { return try beginData(frame, &input, at: now, into: &out) }
        guard input.count >= HTTP2FrameHeader.size + frame.length else { return .needMore }
        let event = try handle(
            frame, input.readable.extracting(HTTP2FrameHeader.size..<HTTP2FrameHeader.size + frame.length), &section, &head, limits, at: now,
            into: &out)
        input.discard(HTTP2FrameHeader.size + frame.length)
        return event
    }

    /// A frame that may not come here, or is too long.
    private func check(_ frame: HTTP2FrameHeader) throws(HTTP2Fault) {
        switch reading {
        // Before the length: the first bytes of an upstream that speaks HTTP/1.1 are a protocol error, not a long frame.
        case .firstFrame:
            guard frame.type == HTTP2FrameType.settings.rawValue, !frame.has(HTTP2Flag.ack) else { throw HTTP2Fault(.protocolError) }
        case .continuation:
            guard frame.type == HTTP2FrameType.continuation.rawValue, frame.stream == current else {
                throw HTTP2Fault(.protocolError)
            }
        case .frame, .data, .closed: break
        }
        guard frame.length <= HTTP2FrameHeader.longestPayload else { throw HTTP2Fault(.frameSizeError) }
    }

    private mutating func handle(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, _ section: inout FieldSection, _ head: inout ResponseHead, _ limits: HeadLimits,
        at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2ClientEvent? {
        guard let type = HTTP2FrameType(rawValue: frame.type) else {
            try count(.priority, at: now)
            return nil
        }
        switch type {
        case .data: preconditionFailure("DATA is read as it arrives")
        case .headers: return try readHeaders(frame, payload, &section, &head, limits, at: now, into: &out)
        case .continuation: return try readContinuation(frame, payload, &section, &head, limits, at: now, into: &out)
        case .priority: return try readPriority(frame, payload, at: now)
        case .resetStream: return try readReset(frame, payload, at: now)
        case .settings: return try readSettings(frame, payload, at: now, into: &out)
        // Push was switched off (RFC 9113 §8.4).
        case .pushPromise: throw HTTP2Fault(.protocolError)
        case .ping: return try readPing(frame, payload, at: now, into: &out)
        case .goAway: return try readGoAway(frame, payload)
        case .windowUpdate: return try readWindowUpdate(frame, payload, at: now, into: &out)
        }
    }

    // MARK: faults

    /// Counts a glitch that no request or content has excused; throws when there are too many. Upstreams are trusted more than clients:
    /// servers of gRPC measure the bandwidth by PING as they receive content, others widen windows or flush by empty frames.
    mutating func count(_ glitch: HTTP2Glitch, at now: MonotonicTime) throws(HTTP2Fault) {
        guard !sending.excuses() else { return }
        guard glitches.isWithinBound(glitch, at: now) else { throw HTTP2Fault(.enhanceYourCalm, glitch) }
    }

    /// The upstream has broken a rule on one stream: resets it.
    mutating func failStream(
        at index: Int, _ reason: HTTPFault.Reason, _ code: HTTP2ErrorCode = .protocolError, into out: inout ByteBuffer
    ) -> HTTP2ClientEvent {
        let number = streams[index].number
        out.appendReset(code, stream: number)
        _ = resetBudget.take()
        resets.note(number)
        streams[index].isReset = true
        return .badAnswer(StreamID(number: number), HTTPFault(502, reason))
    }

    /// Refuses frames of streams that the gateway cannot have opened.
    func checkStream(_ number: UInt32) throws(HTTP2Fault) {
        guard number & 1 == 1, number < nextStream else { throw HTTP2Fault(.protocolError) }
    }

    // MARK: the end

    /// Writes a PING, unless one is under way.
    package mutating func ping(into out: inout ByteBuffer) {
        guard !awaitsPong, reading != .closed else { return }
        awaitsPong = true
        HTTP2FrameHeader(length: 8, type: .ping).write(into: &out)
        out.append(Self.pingText)
    }

    static let pingText: StaticString = "tollgate"

    /// Ends the connection by GOAWAY: nothing more is read, and no stream is opened.
    package mutating func close(_ code: HTTP2ErrorCode, into out: inout ByteBuffer) {
        guard reading != .closed else { return }
        reading = .closed
        // The upstream has opened no stream.
        out.appendGoAway(last: 0, code)
    }
}
