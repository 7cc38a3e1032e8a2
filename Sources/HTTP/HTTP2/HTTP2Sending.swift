import Wire

/// The sending side of a connection, the same for both ends: the windows that the peer has opened, and the frames of heads, content
/// and trailers (RFC 9113 §5.2, §8.1). It takes no more content than the windows allow; the rest is the driver's to keep.
struct HTTP2Sending {
    static let largestWindow = 0x7FFF_FFFF
    /// Content of one DATA frame, so that streams take short turns.
    static let turn = HTTP2FrameHeader.maxPayload
    /// A frame that a window cuts shorter than this excuses no WINDOW_UPDATE.
    private static let minExcusing = 256
    /// Frames of the peer that are excused at most.
    private static let maxExcused = 1_000

    /// Content that may be sent on all streams together.
    var window = 65_535
    /// The peer's SETTINGS_INITIAL_WINDOW_SIZE.
    private(set) var initialWindow = 65_535
    var encoder = HPACKEncoder()
    /// Frames with little use, such as WINDOW_UPDATE, that the frames sent so far excuse.
    private var excused = 0
    /// Changes whenever bytes of the output may have left.
    private var epoch: UInt32 = 0

    // MARK: the peer's frames

    /// Applies a setting of the peer (RFC 9113 §6.5.2). Those of its field sections do not bound what is sent: HPACK uses no table, and
    /// frames of 16 KiB are sent in any case.
    mutating func apply(setting: UInt16, _ value: UInt32, to streams: inout HTTP2StreamTable) throws(HTTP2Fault) {
        switch setting {
        case HTTP2Setting.enablePush:
            guard value <= 1 else { throw HTTP2Fault(.protocolError) }
        case HTTP2Setting.initialWindowSize:
            guard value <= UInt32(Self.largestWindow) else { throw HTTP2Fault(.flowControlError) }
            let change = Int(value) - initialWindow
            initialWindow = Int(value)
            guard streams.widen(by: change) else { throw HTTP2Fault(.flowControlError) }
        case HTTP2Setting.maxFrameSize:
            guard (16_384...16_777_215).contains(value) else { throw HTTP2Fault(.protocolError) }
        // Settings that are not known are ignored (RFC 9113 §6.5.2).
        default: break
        }
    }

    /// Adds an increment to the connection's window; returns whether it was closed.
    mutating func widen(by increment: Int) throws(HTTP2Fault) -> Bool {
        guard increment > 0 else { throw HTTP2Fault(.protocolError) }
        let wasClosed = window <= 0
        window += increment
        guard window <= Self.largestWindow else { throw HTTP2Fault(.flowControlError) }
        return wasClosed
    }

    /// Whether one more frame is excused by what was sent.
    mutating func excuses() -> Bool {
        guard excused > 0 else { return false }
        excused -= 1
        return true
    }

    /// Something was sent that the peer may answer with such frames.
    mutating func excuseMore() { excused = min(excused + 4, Self.maxExcused) }

    // MARK: content

    /// Bytes of content that may be sent to the stream now.
    func room(of stream: HTTP2Stream) -> Int { max(0, min(window, stream.sendWindow)) }

    /// Bytes of the output have left, or may have: frames that were written before cannot be changed any more.
    mutating func outputLeaves() { epoch &+= 1 }

    /// Writes as much of the content as the windows allow, at most one frame; returns how many bytes. `isLast`: the stream's message
    /// ends with it if all of it is taken.
    @inline(__always)
    mutating func content(_ content: RawSpan, isLast: Bool, of stream: inout HTTP2Stream, into out: inout ByteBuffer) -> Int {
        let count = min(content.byteCount, Self.turn, window, stream.sendWindow)
        guard count > 0 else { return 0 }
        let ends = isLast && count == content.byteCount
        stream.lastFlags = out.count + 4
        stream.lastEpoch = epoch
        HTTP2FrameHeader(
            length: count, type: .data, flags: ends ? HTTP2Flag.endStream : 0, stream: stream.number
        ).write(into: &out)
        out.append(content.extracting(first: count))
        window -= count
        stream.sendWindow -= count
        // A peer that opens its windows by a few bytes makes frames of a few bytes.
        if count >= Self.minExcusing || count == content.byteCount { excuseMore() }
        if ends { stream.gatewayEnded = true }
        return count
    }

    /// Ends a message, all of whose content was written: in its last frame if that has not left and may end it, otherwise in an empty one.
    @inline(__always)
    func end(_ stream: inout HTTP2Stream, into out: inout ByteBuffer) {
        stream.gatewayEnded = true
        guard stream.lastFlags > 0, stream.lastEpoch == epoch else {
            return HTTP2FrameHeader(length: 0, type: .data, flags: HTTP2Flag.endStream, stream: stream.number).write(into: &out)
        }
        let offset = stream.lastFlags
        out.set(out.readable[offset] | HTTP2Flag.endStream, at: offset)
    }

    // MARK: field sections

    /// Writes trailer fields, lines without an empty one, which end the message.
    mutating func trailers(_ lines: RawSpan, of stream: inout HTTP2Stream, into out: inout ByteBuffer) {
        let start = beginSection(of: stream.number, into: &out)
        encoder.lines(lines, into: &out)
        endSection(from: start, of: &stream, ends: true, into: &out)
    }

    /// Begins HEADERS; returns their offset, for `endSection`.
    mutating func beginSection(of number: UInt32, into out: inout ByteBuffer) -> Int {
        let start = out.count
        HTTP2FrameHeader(length: 0, type: .headers, stream: number).write(into: &out)
        encoder.begin(&out)
        return start
    }

    /// Completes the frame header, or cuts a long section into several frames.
    func endSection(from start: Int, of stream: inout HTTP2Stream, ends: Bool, into out: inout ByteBuffer) {
        let length = out.count - start - HTTP2FrameHeader.size
        let endFlag = ends ? HTTP2Flag.endStream : 0
        stream.lastFlags = start + 4
        stream.lastEpoch = epoch
        if ends { stream.gatewayEnded = true }
        guard length > HTTP2FrameHeader.maxPayload else {
            return out.completeHeader(at: start, length: length, flags: HTTP2Flag.endHeaders | endFlag)
        }
        var section = ByteBuffer(capacity: length)
        section.append(out.readable.dropping(start + HTTP2FrameHeader.size))
        out.truncate(to: start)
        var type = HTTP2FrameType.headers
        while !section.isEmpty {
            let count = min(section.count, HTTP2FrameHeader.maxPayload)
            var flags = type == .headers ? endFlag : 0
            if count == section.count { flags |= HTTP2Flag.endHeaders }
            HTTP2FrameHeader(length: count, type: type, flags: flags, stream: stream.number).write(into: &out)
            out.append(section.readable.extracting(first: count))
            section.discard(count)
            type = .continuation
        }
    }
}

/// A field line `name: value` that the gateway has written, by its offsets.
struct HTTP1Line {
    let start: Int
    let colon: Int
    /// The value's start, behind blanks, and its end.
    let first: Int
    let end: Int
    /// The line behind it.
    var next: Int { end &+ 2 }

    @inline(__always)
    init(_ lines: RawSpan, from start: Int) {
        self.start = start
        colon = lines.firstOffset(of: UInt8(ascii: ":"), from: start)
        precondition(colon < lines.byteCount, "a line without a field")
        first = lines.startOfValue(behind: colon)
        end = lines.firstCarriageReturn(from: first)
    }
}

extension ByteBuffer {
    /// Completes the frame header at `offset`, whose length and flags were not known.
    fileprivate mutating func completeHeader(at offset: Int, length: Int, flags: UInt8) {
        set(UInt8(truncatingIfNeeded: length >> 16), at: offset)
        set(UInt8(truncatingIfNeeded: length >> 8), at: offset + 1)
        set(UInt8(truncatingIfNeeded: length), at: offset + 2)
        set(flags, at: offset + 4)
    }
}
