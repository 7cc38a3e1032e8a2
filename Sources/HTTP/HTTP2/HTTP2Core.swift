package import Wire

/// One HTTP/2 connection (RFC 9113), of a client or to an upstream: frames in, events of streams out, and the wire form of messages. It
/// does no I/O, has no clock, and never waits: the driver keeps content that no window allows yet.
///
/// `HTTP2Server` has the requests in and answers out of a server, `HTTP2Client` the answers in and requests out of a client; all else is
/// the same for both roles.
package struct HTTP2Core: ~Copyable {
    /// A client's first bytes (RFC 9113 §3.4).
    package static let preface: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    /// Bytes by which the receive windows of all streams to an upstream may grow together. Without growth each holds 64 KiB, so this bounds
    /// the memory of a connection whose clients read slowly; and the connection's own window can stay open for the others.
    static let maxGrowth = 4 << 20

    /// The gateway's end of the connection.
    enum Role {
        case server, client
    }

    enum Reading: Equatable {
        case preface
        /// The peer's SETTINGS must come first.
        case firstFrame
        case frame
        /// Inside a DATA frame.
        case data
        /// Between the frames of a field section.
        case continuation
        case closed
    }

    private let pin = AddressPin()
    let role: Role
    let bounds: HTTP2Bounds
    var reading: Reading
    var streams = HTTP2StreamTable()
    var glitches = HTTP2Glitches()
    var decoder = HPACKDecoder()
    var sending = HTTP2Sending()
    var receiving: HTTP2ConnectionWindow
    /// Bytes by which the receive windows of streams may still grow.
    var growthLeft: Int
    var resets: HTTP2Resets
    /// The highest stream that the client has opened.
    var lastStream: UInt32 = 0
    /// Whether a PING of the gateway has not been answered.
    package internal(set) var awaitsPong = false

    // The frame under way.
    var data = HTTP2DataFrame()
    var current: UInt32 = 0
    var endsStream = false
    var dependsOnItself = false
    var isDropped = false
    /// The field section under way, in several frames.
    var block = HTTP2FieldBlock()
    /// Whether the section that was decoded last is a head that has not been read.
    var isHeadWaiting = false
    // Events that follow the last one without more bytes.
    var pendingEnd: UInt32 = 0
    var isRoomPending = false
    var areResetsPending = false

    // Of a server:

    /// Streams above it are not accepted any more; nil before a drain's second GOAWAY.
    var lastAccepted: UInt32?
    /// Whether the first GOAWAY of a drain was sent.
    package internal(set) var isDraining = false

    // Of a client:

    var resetBudget = HTTP2ResetBudget()
    /// They count against the upstream's bound on streams, by the order in which they were abandoned.
    var abandoned: [HTTP2AbandonedStream] = []
    /// The upstream's SETTINGS_MAX_CONCURRENT_STREAMS.
    var peerStreams = UInt32.max
    /// The last stream that the upstream's GOAWAY takes; larger than any number before GOAWAY.
    var lastTaken = UInt32.max

    private init(_ role: Role, _ bounds: HTTP2Bounds, _ reading: Reading, maxHeld: Int, growth: Int) {
        self.role = role
        self.bounds = bounds
        self.reading = reading
        receiving = HTTP2ConnectionWindow(size: bounds.connectionWindow, maxHeld: maxHeld)
        growthLeft = growth
        // Clients open up to 100 streams before they know the bound.
        resets = HTTP2Resets(most: max(bounds.streams, 100))
    }

    /// The connection of a client, which has not begun.
    package static func server(_ bounds: HTTP2Bounds = HTTP2Bounds()) -> HTTP2Core {
        HTTP2Core(.server, bounds, .preface, maxHeld: bounds.connectionWindow, growth: .max / 2)
    }

    /// The connection to an upstream, which has not begun: `start` follows.
    package static func client() -> HTTP2Core {
        HTTP2Core(.client, HTTP2Bounds(), .firstFrame, maxHeld: .max, growth: maxGrowth)
    }

    // MARK: state

    /// Frees memory that a connection without streams does not need.
    package mutating func rest() {
        if streams.isEmpty { streams = HTTP2StreamTable() }
        if reading != .continuation { block.rest() }
    }

    /// Streams that have not been released.
    package var streamCount: Int { streams.count }

    /// Whether the peer can send no content on any stream, and how often it could again after that.
    package var isWindowUsedUp: Bool { receiving.open == 0 }
    package var windowOpenings: UInt32 { receiving.openings }

    /// The driver's name for the end of the stream at this index, by the order of the requests.
    package func owner(at index: Int) -> UInt32 { streams[index].owner }

    /// The driver's name for the end of the stream.
    package mutating func owner(of stream: StreamID) -> UInt32? { streams.find(stream.number).map { streams[$0].owner } }

    /// Whether part of a frame other than DATA, or of a field section, has arrived, or the peer owes its first bytes.
    package func isInsideFrame(_ input: borrowing ByteBuffer) -> Bool {
        switch reading {
        case .preface, .firstFrame, .continuation: true
        case .frame: !input.isEmpty
        case .data, .closed: false
        }
    }

    // MARK: bytes in

    /// Reads on to the next event; nil if a field section is complete that holds the head of a message on `current`.
    mutating func advance(
        _ input: inout ByteBuffer, _ section: inout FieldSection, _ limits: HeadLimits, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        while true {
            if let event = pendingEvent() { return event }
            switch reading {
            case .preface:
                guard try readPreface(&input, into: &out) else { return .needMore }
            case .data:
                if let event = readData(&input) { return event }
            case .firstFrame, .frame, .continuation:
                if let event = try readFrame(&input, &section, limits, at: now, into: &out) { return event }
                guard !isHeadWaiting else {
                    isHeadWaiting = false
                    return nil
                }
            case .closed:
                input.removeAll()
                return .needMore
            }
        }
    }

    private mutating func pendingEvent() -> HTTP2Event? {
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
        _ input: inout ByteBuffer, _ section: inout FieldSection, _ limits: HeadLimits, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard input.count >= HTTP2FrameHeader.size else { return .needMore }
        let frame = HTTP2FrameHeader(input.readable)
        try check(frame)
        if frame.type == HTTP2FrameType.data.rawValue { return try beginData(frame, &input, at: now, into: &out) }
        guard input.count >= HTTP2FrameHeader.size + frame.length else { return .needMore }
        let event = try handle(
            frame, input.readable.extracting(HTTP2FrameHeader.size..<HTTP2FrameHeader.size + frame.length), &section, limits, at: now,
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
        case .preface, .frame, .data, .closed: break
        }
        guard frame.length <= HTTP2FrameHeader.maxPayload else { throw HTTP2Fault(.frameSizeError) }
    }

    private mutating func handle(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, _ section: inout FieldSection, _ limits: HeadLimits, at now: MonotonicTime,
        into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard let type = HTTP2FrameType(rawValue: frame.type) else {
            try count(.priority, at: now)
            return nil
        }
        switch type {
        case .data: preconditionFailure("DATA is read as it arrives")
        case .headers: return try readHeaders(frame, payload, &section, limits, at: now, into: &out)
        case .continuation: return try readContinuation(frame, payload, &section, limits, at: now, into: &out)
        case .priority: return try readPriority(frame, payload, at: now, into: &out)
        case .resetStream: return try readReset(frame, payload, at: now)
        case .settings: return try readSettings(frame, payload, at: now, into: &out)
        // No client may push, and no upstream may, as its push was switched off (RFC 9113 §8.4).
        case .pushPromise: throw HTTP2Fault(.protocolError)
        case .ping: return try readPing(frame, payload, at: now, into: &out)
        case .goAway: return try readGoAway(frame, payload, at: now, into: &out)
        case .windowUpdate: return try readWindowUpdate(frame, payload, at: now, into: &out)
        }
    }

    // MARK: faults

    /// Counts a glitch; throws when there are too many. Frames that the gateway has sent excuse WINDOW_UPDATE. Upstreams are trusted more
    /// than clients, and any glitch of theirs is excused: servers of gRPC measure the bandwidth by PING as they receive content, others
    /// widen windows or flush by empty frames.
    mutating func count(_ glitch: HTTP2Glitch, at now: MonotonicTime) throws(HTTP2Fault) {
        if role == .client || glitch == .windowUpdate, sending.excuses() { return }
        guard glitches.isWithinBound(glitch, at: now) else { throw HTTP2Fault(.enhanceYourCalm, glitch) }
    }

    /// The peer has broken a rule on one stream: resets it, and counts it. For an upstream, the event has `reason`.
    mutating func failStream(
        _ number: UInt32, _ reason: HTTPFault.Reason, _ code: HTTP2ErrorCode = .protocolError, at now: MonotonicTime,
        into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        out.appendReset(code, stream: number)
        resets.note(number)
        switch role {
        case .server: try count(.provokedReset, at: now)
        case .client: _ = resetBudget.take()
        }
        guard let index = streams.find(number), !streams[index].isReset else { return nil }
        streams[index].isReset = true
        switch role {
        case .server: return .reset(StreamID(number: number), code)
        case .client: return .badAnswer(StreamID(number: number), HTTPFault(502, reason))
        }
    }

    /// Refuses frames of streams that have not been opened.
    func checkStream(_ number: UInt32) throws(HTTP2Fault) {
        guard number != 0, number <= lastStream, role == .server || number & 1 == 1 else { throw HTTP2Fault(.protocolError) }
    }

    /// The connection cannot go on; returns the event for the driver.
    mutating func failed(_ fault: HTTP2Fault, _ input: inout ByteBuffer, into out: inout ByteBuffer) -> HTTP2Event {
        input.removeAll()
        end(fault.code, into: &out)
        return .fault(fault)
    }

    /// Ends the connection by GOAWAY: nothing more is read, and no stream is opened.
    private mutating func end(_ code: HTTP2ErrorCode, into out: inout ByteBuffer) {
        reading = .closed
        switch role {
        // A later GOAWAY must not name a later stream (RFC 9113 §6.8).
        case .server: out.appendGoAway(last: lastAccepted ?? lastStream, code)
        // The upstream has opened no stream.
        case .client: out.appendGoAway(last: 0, code)
        }
    }

    /// The driver ends the connection.
    package mutating func close(_ code: HTTP2ErrorCode, into out: inout ByteBuffer) {
        switch reading {
        case .closed: break
        // It is not known yet that the client speaks HTTP/2.
        case .preface: reading = .closed
        case .firstFrame, .frame, .data, .continuation: end(code, into: &out)
        }
    }

    // MARK: ping

    static let pingText: StaticString = "tollgate"

    /// Writes a PING, unless one is under way.
    package mutating func ping(into out: inout ByteBuffer) {
        guard !awaitsPong, reading != .closed else { return }
        awaitsPong = true
        HTTP2FrameHeader(length: 8, type: .ping).write(into: &out)
        out.append(Self.pingText)
    }
}
