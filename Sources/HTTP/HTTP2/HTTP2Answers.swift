package import Wire

/// Frames out: heads, content, trailers and ends of answers. What they do not take is the driver's to keep.
extension HTTP2ServerConnection {
    /// Content of one DATA frame, so that streams take short turns.
    package static let turn = HTTP2FrameHeader.longestPayload
    /// A frame that a window cuts shorter than this excuses no WINDOW_UPDATE.
    private static let leastExcusing = 256

    /// Bytes of content that may be sent to the stream now.
    package func room(of stream: StreamID) -> Int {
        guard let index = streams.index(of: stream.number) else { return 0 }
        return max(0, min(sendWindow, streams[index].sendWindow))
    }

    /// Bytes of the output have left, or may have: frames that were written before cannot be changed any more.
    package mutating func outputLeaves() { epoch &+= 1 }

    /// Writes the head, interim or final, with which `bytes` begin: a whole one of HTTP/1.1.
    ///
    /// - Returns: the head's length, and whether it is the final one.
    package mutating func sendHead(_ bytes: RawSpan, on stream: StreamID, into out: inout ByteBuffer) -> (length: Int, isFinal: Bool) {
        guard let status = bytes.extracting(9..<12).decimal, let lineEnd = bytes.firstIndex(of: ByteClass.lineFeed) else {
            preconditionFailure("an answer without a status line")
        }
        let start = beginSection(on: stream, &out)
        encoder.status(Int(status), into: &out)
        let length = encode(bytes, from: lineEnd + 1, into: &out) + 2
        if let index = streams.find(stream.number), !streams[index].isReset {
            endSection(from: start, of: index, ends: false, into: &out)
        } else {
            out.truncate(to: start)
        }
        return (length, status >= 200)
    }

    /// Writes trailer fields, lines without an empty one, which end the answer.
    package mutating func sendTrailers(_ lines: RawSpan, on stream: StreamID, into out: inout ByteBuffer) {
        guard let index = streams.find(stream.number), !streams[index].isReset else { return }
        let start = beginSection(on: stream, &out)
        _ = encode(lines, from: 0, into: &out)
        endSection(from: start, of: index, ends: true, into: &out)
        streams[index].answerEnded = true
    }

    /// Writes as much of the content as the windows allow, at most one frame; returns how many bytes. `isLast`: the answer ends with
    /// it if all of it is taken.
    package mutating func sendContent(
        _ content: RawSpan, isLast: Bool, on stream: StreamID, into out: inout ByteBuffer
    ) -> Int {
        guard let index = streams.find(stream.number), !streams[index].isReset else { return content.byteCount }
        let count = min(content.byteCount, Self.turn, sendWindow, streams[index].sendWindow)
        guard count > 0 else { return 0 }
        let ends = isLast && count == content.byteCount
        streams[index].lastFlags = out.count + 4
        streams[index].lastEpoch = epoch
        HTTP2FrameHeader(
            length: count, type: .data, flags: ends ? HTTP2Flag.endStream : 0, stream: stream.number
        ).write(into: &out)
        out.append(content.extracting(first: count))
        sendWindow -= count
        streams[index].sendWindow -= count
        // A client that opens its windows by a few bytes makes frames of a few bytes.
        if count >= Self.leastExcusing || count == content.byteCount { updatesExcused = min(updatesExcused + 4, 1_000) }
        if ends { streams[index].answerEnded = true }
        return count
    }

    /// Ends the answer, all of whose content was written: in its last frame if that has not left, otherwise in an empty one.
    package mutating func sendEnd(on stream: StreamID, into out: inout ByteBuffer) {
        guard let index = streams.find(stream.number), !streams[index].isReset, !streams[index].answerEnded else { return }
        streams[index].answerEnded = true
        guard streams[index].lastEpoch == epoch else {
            return HTTP2FrameHeader(length: 0, type: .data, flags: HTTP2Flag.endStream, stream: stream.number).write(into: &out)
        }
        let offset = streams[index].lastFlags
        out.set(out.readable[offset] | HTTP2Flag.endStream, at: offset)
    }

    /// The exchange of the stream has been let go: it does not count any more. A stream that is not over is reset, so that an answer
    /// that breaks off does not look complete; and without an error if only the request is not over, as nothing needs the rest of it
    /// (RFC 9113 §8.1).
    package mutating func release(_ stream: StreamID, into out: inout ByteBuffer) {
        guard let index = streams.find(stream.number) else { return }
        if !streams[index].isReset, reading != .closed {
            if !streams[index].answerEnded {
                out.appendReset(.internalError, stream: stream.number)
                noteReset(stream.number)
            } else if !streams[index].clientEnded {
                out.appendReset(.noError, stream: stream.number)
                noteReset(stream.number)
            }
        }
        receiving.consumed(streams[index].receiving.held)
        streams.remove(at: index)
        if reading != .closed { announce(into: &out) }
    }

    // MARK: field sections

    private mutating func beginSection(on stream: StreamID, _ out: inout ByteBuffer) -> Int {
        let start = out.count
        HTTP2FrameHeader(length: 0, type: .headers, stream: stream.number).write(into: &out)
        encoder.begin(&out)
        return start
    }

    /// Encodes lines `name: value` from `start` on, up to an empty one or the end; returns its offset.
    private func encode(_ lines: RawSpan, from start: Int, into out: inout ByteBuffer) -> Int {
        var start = start
        while start < lines.byteCount, lines[start] != ByteClass.carriageReturn {
            let colon = lines.firstOffset(of: UInt8(ascii: ":"), from: start)
            let end = lines.firstOffset(of: ByteClass.carriageReturn, from: colon)
            precondition(colon < end, "a line without a field")
            var first = colon + 1
            while first < end, ByteClass.isBlank(lines[first]) { first += 1 }
            encoder.field(lines.extracting(start..<colon), lines.extracting(first..<end), into: &out)
            start = end + 2
        }
        return start
    }

    /// Completes the frame header, or cuts a long section into several frames.
    private mutating func endSection(from start: Int, of index: Int, ends: Bool, into out: inout ByteBuffer) {
        let length = out.count - start - HTTP2FrameHeader.size
        let number = streams[index].number
        let endFlag = ends ? HTTP2Flag.endStream : 0
        streams[index].lastFlags = start + 4
        streams[index].lastEpoch = epoch
        guard length > HTTP2FrameHeader.longestPayload else {
            return out.completeHeader(at: start, length: length, flags: HTTP2Flag.endHeaders | endFlag)
        }
        var section = ByteBuffer(capacity: length)
        section.append(out.readable.dropping(start + HTTP2FrameHeader.size))
        out.truncate(to: start)
        var type = HTTP2FrameType.headers
        while !section.isEmpty {
            let count = min(section.count, HTTP2FrameHeader.longestPayload)
            var flags = type == .headers ? endFlag : 0
            if count == section.count { flags |= HTTP2Flag.endHeaders }
            HTTP2FrameHeader(length: count, type: type, flags: flags, stream: number).write(into: &out)
            out.append(section.readable.extracting(first: count))
            section.discard(count)
            type = .continuation
        }
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
