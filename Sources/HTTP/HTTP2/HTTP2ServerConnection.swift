package import Wire

/// An event that `HTTP2ServerConnection` found in the bytes of a client.
package enum HTTP2Event: Equatable, Sendable {
    /// Call again with more bytes.
    case needMore
    /// A request: the head that was passed in, parsed from the field section that was passed in.
    case head(StreamID)
    /// A request that is answered with this error. Its fields are not to be used.
    case unreadable(StreamID, HTTPFault)
    /// A request was malformed, and its stream is reset: there is none to release (RFC 9113 §8.1.1).
    case malformed(HTTPFault)
    /// The first so many bytes of the input are content. The caller consumes them before it calls again.
    case content(StreamID, Int)
    /// The field section that was passed in holds trailers. `end` follows.
    case trailers(StreamID)
    /// The request is complete.
    case end(StreamID)
    /// The stream was reset, by the client or because of its fault: end its exchange and `release` it.
    case reset(StreamID)
    /// More may be sent to this stream, or to all streams if its number is 0.
    case roomGrew(StreamID)
    /// The connection cannot go on: GOAWAY has been written. End all exchanges and close when it has gone out.
    case fault(HTTP2Fault)
}

extension HTTP2Event {
    /// Whether it costs what a request costs, however it ends.
    package var beginsRequest: Bool {
        switch self {
        case .head, .unreadable, .malformed: true
        case .needMore, .content, .trailers, .end, .reset, .roomGrew, .fault: false
        }
    }
}

/// Why a connection ended: the code of GOAWAY, and the glitch that there was too much of, if that was it.
package struct HTTP2Fault: Error, Equatable, Sendable {
    package let code: HTTP2ErrorCode
    package let glitch: HTTP2Glitch?

    init(_ code: HTTP2ErrorCode, _ glitch: HTTP2Glitch? = nil) {
        self.code = code
        self.glitch = glitch
    }

    /// For logs and metrics.
    package var text: StaticString { glitch?.text ?? code.text }
}

/// The server's side of one HTTP/2 connection (RFC 9113): frames in, events of streams out, and the wire form of answers. It does no
/// I/O, has no clock, and never waits: what a window does not allow yet is the driver's to keep.
///
/// A decoded `FieldSection` is an HTTP/1.1 head, which `RequestHead` parses: requests have one meaning in both protocols.
package struct HTTP2ServerConnection: ~Copyable {
    /// The client's first bytes (RFC 9113 §3.4).
    package static let preface: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    enum Reading: Equatable {
        case preface
        /// The client's SETTINGS must come first.
        case firstFrame
        case frame
        /// Inside a DATA frame.
        case data
        /// Between the frames of a field section.
        case continuation
        case closed
    }

    private let pin = AddressPin()
    let bounds: HTTP2Bounds
    var reading = Reading.preface
    var streams = HTTP2StreamTable()
    var glitches = HTTP2Glitches()
    var decoder = HPACKDecoder()
    var sending = HTTP2Sending()
    var receiving: HTTP2ConnectionWindow
    /// The highest stream that the client has opened.
    var lastStream: UInt32 = 0
    /// Streams above it are not accepted any more; nil before a drain's second GOAWAY.
    var lastAccepted: UInt32?
    /// Whether the first GOAWAY of a drain was sent.
    package internal(set) var isDraining = false
    var resets: HTTP2Resets

    // The frame under way.
    var data = HTTP2DataFrame()
    var current: UInt32 = 0
    var endsStream = false
    var dependsOnItself = false
    var isDropped = false
    /// An event that follows the last one without more bytes.
    var pendingEnd: UInt32 = 0
    /// The field section under way, in several frames.
    var block = HTTP2FieldBlock()

    package init(_ bounds: HTTP2Bounds = HTTP2Bounds()) {
        self.bounds = bounds
        receiving = HTTP2ConnectionWindow(size: bounds.connectionWindow, mostHeld: bounds.connectionWindow)
        // Clients open up to 100 streams before they know the bound.
        resets = HTTP2Resets(most: max(bounds.streams, 100))
    }

    // MARK: state

    /// Frees memory that a connection without streams does not need.
    package mutating func rest() {
        if streams.isEmpty { streams = HTTP2StreamTable() }
        if reading != .continuation { block.rest() }
    }

    /// Requests under way.
    package var streamCount: Int { streams.count }

    /// Whether the client can send no content on any stream, and how often it could again after that.
    package var isWindowUsedUp: Bool { receiving.open == 0 }
    package var windowOpenings: UInt32 { receiving.openings }

    /// The driver's name for the end of the stream at this index, by the order of the requests.
    package func owner(at index: Int) -> UInt32 { streams[index].owner }

    /// The driver's name for the end of the stream.
    package mutating func owner(of stream: StreamID) -> UInt32? { streams.find(stream.number).map { streams[$0].owner } }

    /// Whether the client still sends the stream's request.
    package func isRequestOpen(_ stream: StreamID) -> Bool {
        guard let index = streams.index(of: stream.number) else { return false }
        return !streams[index].peerEnded && !streams[index].isReset
    }

    package mutating func setOwner(_ owner: UInt32, of stream: StreamID) {
        guard let index = streams.find(stream.number) else { return }
        streams[index].owner = owner
    }

    /// Whether part of a frame other than DATA, or of a field section, has arrived: the header timeout runs.
    package func isInsideFrame(_ input: borrowing ByteBuffer) -> Bool {
        switch reading {
        case .preface, .firstFrame, .continuation: true
        case .frame: !input.isEmpty
        case .data, .closed: false
        }
    }

    // MARK: bytes in

    /// The next event in `input`, everything received and not consumed; consumes what it has read. Answers to control frames go to
    /// `out`: while that is long, do not call.
    ///
    /// - Parameters:
    ///   - section: overwritten by the fields of a request or by trailers.
    ///   - head: overwritten by a request; its slices refer to `section.head`.
    package mutating func next(
        _ input: inout ByteBuffer, _ section: inout FieldSection, _ head: inout RequestHead, _ limits: HeadLimits,
        at now: MonotonicTime, into out: inout ByteBuffer
    ) -> HTTP2Event {
        do throws(HTTP2Fault) {
            while true {
                if pendingEnd != 0 {
                    defer { pendingEnd = 0 }
                    return .end(StreamID(number: pendingEnd))
                }
                switch reading {
                case .preface:
                    guard try readPreface(&input, into: &out) else { return .needMore }
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
            fail(error, into: &out)
            return .fault(error)
        }
    }

    /// Ends the connection: nothing more is read.
    private mutating func fail(_ fault: HTTP2Fault, into out: inout ByteBuffer) {
        reading = .closed
        // A later GOAWAY must not name a later stream (RFC 9113 §6.8).
        out.appendGoAway(last: lastAccepted ?? lastStream, fault.code)
    }

    /// The driver ends the connection: it was idle, or a field section was late.
    package mutating func close(_ code: HTTP2ErrorCode, into out: inout ByteBuffer) {
        guard reading != .closed else { return }
        // Before the preface it is not known that the client speaks HTTP/2.
        guard reading != .preface else {
            reading = .closed
            return
        }
        fail(HTTP2Fault(code), into: &out)
    }

    private mutating func readPreface(_ input: inout ByteBuffer, into out: inout ByteBuffer) throws(HTTP2Fault) -> Bool {
        let wanted = Self.preface.rawBytes
        let count = min(input.count, wanted.byteCount)
        guard input.readable.extracting(first: count).equals(wanted.extracting(first: count)) else {
            throw HTTP2Fault(.protocolError)
        }
        guard count == wanted.byteCount else { return false }
        input.discard(count)
        writeSettings(into: &out)
        reading = .firstFrame
        return true
    }

    private func writeSettings(into out: inout ByteBuffer) {
        HTTP2FrameHeader(length: 24, type: .settings).write(into: &out)
        out.append(setting: HTTP2Setting.maxConcurrentStreams, UInt32(bounds.streams))
        out.append(setting: HTTP2Setting.maxHeaderListSize, 32_768)
        out.append(setting: HTTP2Setting.enableConnectProtocol, 1)
        out.append(setting: HTTP2Setting.noRFC7540Priorities, 1)
        out.appendWindowUpdate(bounds.connectionWindow - 65_535, stream: 0)
    }

    /// Reads one frame; returns an event for the driver, nil if there is none, `needMore` if the frame is not complete.
    private mutating func readFrame(
        _ input: inout ByteBuffer, _ section: inout FieldSection, _ head: inout RequestHead, _ limits: HeadLimits,
        at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
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
        guard frame.length <= HTTP2FrameHeader.longestPayload else { throw HTTP2Fault(.frameSizeError) }
        switch reading {
        case .firstFrame:
            guard frame.type == HTTP2FrameType.settings.rawValue, !frame.has(HTTP2Flag.ack) else { throw HTTP2Fault(.protocolError) }
        case .continuation:
            guard frame.type == HTTP2FrameType.continuation.rawValue, frame.stream == current else {
                throw HTTP2Fault(.protocolError)
            }
        case .preface, .frame, .data, .closed: break
        }
    }

    private mutating func handle(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, _ section: inout FieldSection, _ head: inout RequestHead, _ limits: HeadLimits,
        at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard let type = HTTP2FrameType(rawValue: frame.type) else {
            try count(.priority, at: now)
            return nil
        }
        switch type {
        case .data: preconditionFailure("DATA is read as it arrives")
        case .headers: return try readHeaders(frame, payload, &section, &head, limits, at: now, into: &out)
        case .continuation: return try readContinuation(frame, payload, &section, &head, limits, at: now, into: &out)
        case .priority: return try readPriority(frame, payload, at: now, into: &out)
        case .resetStream: return try readReset(frame, payload, at: now)
        case .settings: return try readSettings(frame, payload, at: now, into: &out)
        case .pushPromise: throw HTTP2Fault(.protocolError)
        case .ping: return try readPing(frame, payload, at: now, into: &out)
        case .goAway:
            guard frame.stream == 0 else { throw HTTP2Fault(.protocolError) }
            guard payload.byteCount >= 8 else { throw HTTP2Fault(.frameSizeError) }
            try count(.settings, at: now)
            // The client leaves: requests under way are answered, and then the connection ends.
            isDraining = true
            finishDraining(into: &out)
            return nil
        case .windowUpdate: return try readWindowUpdate(frame, payload, at: now, into: &out)
        }
    }

    // MARK: faults

    /// Counts a glitch; throws when there are too many.
    mutating func count(_ glitch: HTTP2Glitch, at now: MonotonicTime) throws(HTTP2Fault) {
        guard glitches.isWithinBound(glitch, at: now) else { throw HTTP2Fault(.enhanceYourCalm, glitch) }
    }

    /// The client has broken a rule on one stream: resets it, and counts it.
    mutating func failStream(
        _ number: UInt32, _ code: HTTP2ErrorCode, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        out.appendReset(code, stream: number)
        resets.note(number)
        try count(.provokedReset, at: now)
        guard let index = streams.find(number), !streams[index].isReset else { return nil }
        streams[index].isReset = true
        return .reset(StreamID(number: number))
    }

    /// Whether the stream came after the last GOAWAY of a drain, which told the client that it is not served (RFC 9113 §6.8).
    func isIgnored(_ number: UInt32) -> Bool { lastAccepted.map { number > $0 } ?? false }

    // MARK: drain

    /// Begins a drain: the first GOAWAY says that no more streams should be opened, and still accepts those under way from the
    /// client (RFC 9113 §6.8). The answer to its PING, or `finishDraining`, brings the second.
    package mutating func drain(into out: inout ByteBuffer) {
        guard !isDraining, reading != .closed else { return }
        isDraining = true
        guard reading != .preface else { return }
        out.appendGoAway(last: 0x7FFF_FFFF, .noError)
        HTTP2FrameHeader(length: 8, type: .ping).write(into: &out)
        out.append(Self.drainPing)
    }

    static let drainPing: StaticString = "tollgate"

    /// Says which streams are the last. Later ones are ignored.
    package mutating func finishDraining(into out: inout ByteBuffer) {
        guard isDraining, lastAccepted == nil, reading != .closed else { return }
        lastAccepted = lastStream
        out.appendGoAway(last: lastStream, .noError)
    }

    /// Whether a drain has come to its end but for the streams under way.
    package var acceptsNoMore: Bool { lastAccepted != nil || reading == .closed }
}
