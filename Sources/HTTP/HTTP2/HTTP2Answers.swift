package import Wire

/// Frames out: heads, content, trailers and ends of answers. What they do not take is the driver's to keep.
extension HTTP2ServerConnection {
    /// Bytes of content that may be sent to the stream now.
    package func room(of stream: StreamID) -> Int {
        guard let index = streams.index(of: stream.number) else { return 0 }
        return sending.room(of: streams[index])
    }

    /// Bytes of the output have left, or may have: frames that were written before cannot be changed any more.
    package mutating func outputLeaves() { sending.outputLeaves() }

    /// Writes the head, interim or final, with which `bytes` begin: a whole one of HTTP/1.1.
    ///
    /// - Returns: the head's length, and whether it is the final one.
    package mutating func sendHead(_ bytes: RawSpan, on stream: StreamID, into out: inout ByteBuffer) -> (length: Int, isFinal: Bool) {
        guard let status = bytes.extracting(9..<12).decimal, let lineEnd = bytes.firstIndex(of: ByteClass.lineFeed) else {
            preconditionFailure("an answer without a status line")
        }
        let start = sending.beginSection(of: stream.number, into: &out)
        sending.encoder.status(Int(status), into: &out)
        let length = sending.encode(bytes, from: lineEnd + 1, into: &out) + 2
        if let index = streams.find(stream.number), !streams[index].isReset {
            sending.endSection(from: start, of: &streams[index], ends: false, into: &out)
        } else {
            out.truncate(to: start)
        }
        return (length, status >= 200)
    }

    /// Writes trailer fields, lines without an empty one, which end the answer.
    package mutating func sendTrailers(_ lines: RawSpan, on stream: StreamID, into out: inout ByteBuffer) {
        guard let index = streams.find(stream.number), !streams[index].isReset else { return }
        sending.trailers(lines, of: &streams[index], into: &out)
    }

    /// Writes as much of the content as the windows allow, at most one frame; returns how many bytes. `isLast`: the answer ends with
    /// it if all of it is taken.
    package mutating func sendContent(
        _ content: RawSpan, isLast: Bool, on stream: StreamID, into out: inout ByteBuffer
    ) -> Int {
        guard let index = streams.find(stream.number), !streams[index].isReset else { return content.byteCount }
        return sending.content(content, isLast: isLast, of: &streams[index], into: &out)
    }

    /// Ends the answer, all of whose content was written: in its last frame if that has not left, otherwise in an empty one.
    package mutating func sendEnd(on stream: StreamID, into out: inout ByteBuffer) {
        guard let index = streams.find(stream.number), !streams[index].isReset, !streams[index].gatewayEnded else { return }
        sending.end(&streams[index], into: &out)
    }

    /// The exchange of the stream has been let go: it does not count any more. A stream that is not over is reset, so that an answer
    /// that breaks off does not look complete; and without an error if only the request is not over, as nothing needs the rest of it
    /// (RFC 9113 §8.1).
    package mutating func release(_ stream: StreamID, into out: inout ByteBuffer) {
        guard let index = streams.find(stream.number) else { return }
        if !streams[index].isReset, reading != .closed {
            if !streams[index].gatewayEnded {
                out.appendReset(.internalError, stream: stream.number)
                resets.note(stream.number)
            } else if !streams[index].peerEnded {
                out.appendReset(.noError, stream: stream.number)
                resets.note(stream.number)
            }
        }
        receiving.consumed(streams[index].receiving.held)
        streams.remove(at: index)
        if reading != .closed { receiving.announce(into: &out) }
    }
}
