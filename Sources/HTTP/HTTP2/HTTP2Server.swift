package import Wire

/// The role of a server: requests in, answers out, and the drain of a client's connection.
///
/// A decoded `FieldSection` is an HTTP/1.1 head, which `RequestHead` takes: requests have one meaning in both protocols.
extension HTTP2Core {
    // MARK: requests in

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
                if let event = try advance(&input, &section, limits, at: now, into: &out) { return event }
                if let event = try openStream(&section, &head, limits, at: now, into: &out) { return event }
            }
        } catch {
            return failed(error, &input, into: &out)
        }
    }

    /// Reads the request in `section`.
    private mutating func openStream(
        _ section: inout FieldSection, _ head: inout RequestHead, _ limits: HeadLimits, at now: MonotonicTime,
        into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        lastStream = current
        guard !isIgnored(current) else {
            try count(.refusedStream, at: now)
            return nil
        }
        guard streams.count < bounds.streams else {
            out.appendReset(.refusedStream, stream: current)
            resets.note(current)
            try count(.refusedStream, at: now)
            return nil
        }
        guard !dependsOnItself else { return try failStream(current, .connection, at: now, into: &out) }
        if let fault = section.fault {
            guard fault.isOverLimit else { return try malformed(fault.reason, at: now, into: &out) }
            head.takeFields(of: &section)
            return unreadable(HTTPFault(.headTooLarge))
        }
        switch head.take(&section, limits: limits) {
        case .complete: break
        case .incomplete: return try malformed(.requestLine, at: now, into: &out)
        // 400 means malformed; anything else is a valid request that is not served.
        case .invalid(let fault) where fault.status == 400: return try malformed(fault.reason, at: now, into: &out)
        case .invalid(let fault): return unreadable(fault)
        }
        var stream = HTTP2Stream(current, sendWindow: sending.initialWindow, peerEnded: endsStream)
        if case .length(let length) = head.framing {
            guard !endsStream || length == 0 else { return try malformed(.contentLength, at: now, into: &out) }
            stream.contentLeft = length
            head.awaitsEnd = !endsStream && length == 0
        }
        guard !(head.method == .trace && !endsStream) else { return try malformed(.contentInTrace, at: now, into: &out) }
        streams.add(stream)
        return .head(StreamID(number: current))
    }

    /// Resets the stream of a malformed request (RFC 9113 §8.1.1).
    private mutating func malformed(
        _ reason: HTTPFault.Reason, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event {
        _ = try failStream(current, reason, at: now, into: &out)
        return .malformed(HTTPFault(400, reason))
    }

    private mutating func unreadable(_ fault: HTTPFault) -> HTTP2Event {
        streams.add(HTTP2Stream(current, sendWindow: sending.initialWindow, peerEnded: endsStream))
        return .unreadable(StreamID(number: current), fault)
    }

    package mutating func setOwner(_ owner: UInt32, of stream: StreamID) {
        guard let index = streams.find(stream.number) else { return }
        streams[index].owner = owner
    }

    /// Whether the client still sends the stream's request.
    package func isRequestOpen(_ stream: StreamID) -> Bool {
        guard let index = streams.index(of: stream.number) else { return false }
        return !streams[index].peerEnded && !streams[index].isReset
    }

    // MARK: the beginning

    /// Reads the client's first bytes; false if not all of them are there.
    mutating func readPreface(_ input: inout ByteBuffer, into out: inout ByteBuffer) throws(HTTP2Fault) -> Bool {
        let wanted = Self.preface.rawBytes
        let count = min(input.count, wanted.byteCount)
        guard input.readable.extracting(first: count).equals(wanted.extracting(first: count)) else {
            throw HTTP2Fault(.protocolError)
        }
        guard count == wanted.byteCount else { return false }
        input.discard(count)
        HTTP2FrameHeader(length: 24, type: .settings).write(into: &out)
        out.append(setting: HTTP2Setting.maxConcurrentStreams, UInt32(bounds.streams))
        out.append(setting: HTTP2Setting.maxHeaderListSize, 32_768)
        out.append(setting: HTTP2Setting.enableConnectProtocol, 1)
        out.append(setting: HTTP2Setting.noRFC7540Priorities, 1)
        out.appendWindowUpdate(bounds.connectionWindow - 65_535, stream: 0)
        reading = .firstFrame
        return true
    }

    // MARK: answers out

    /// Writes a head, interim or final, whose fields are the block `fields` of HPACK.
    package mutating func sendHead(_ status: Int, _ fields: RawSpan, on stream: StreamID, into out: inout ByteBuffer) {
        guard let index = streams.find(stream.number), !streams[index].isReset else { return }
        let start = sending.beginSection(of: stream.number, into: &out)
        sending.encoder.status(status, into: &out)
        out.append(fields)
        sending.endSection(from: start, of: &streams[index], ends: false, into: &out)
    }

    /// Writes the head, interim or final, with which `bytes` begin: a whole one of HTTP/1.1.
    ///
    /// - Returns: the head's length, and whether it is the final one.
    package mutating func sendHead(_ bytes: RawSpan, on stream: StreamID, into out: inout ByteBuffer) -> (length: Int, isFinal: Bool) {
        guard let status = bytes.extracting(9..<12).decimal, let lineEnd = bytes.firstIndex(of: ByteClass.lineFeed) else {
            preconditionFailure("an answer without a status line")
        }
        let start = sending.beginSection(of: stream.number, into: &out)
        sending.encoder.status(Int(status), into: &out)
        let length = sending.encoder.lines(bytes, from: lineEnd + 1, into: &out) + 2
        if let index = streams.find(stream.number), !streams[index].isReset {
            sending.endSection(from: start, of: &streams[index], ends: false, into: &out)
        } else {
            out.truncate(to: start)
        }
        return (length, status >= 200)
    }

    // MARK: drain

    /// Begins a drain: the first GOAWAY says that no more streams should be opened, and still accepts those under way from the
    /// client (RFC 9113 §6.8). The answer to its PING, or `finishDraining`, brings the second.
    package mutating func drain(into out: inout ByteBuffer) {
        guard !isDraining, reading != .closed else { return }
        isDraining = true
        guard reading != .preface else { return }
        out.appendGoAway(last: 0x7FFF_FFFF, .noError)
        ping(into: &out)
    }

    /// Says which streams are the last. Later ones are ignored.
    package mutating func finishDraining(into out: inout ByteBuffer) {
        guard isDraining, lastAccepted == nil, reading != .closed else { return }
        lastAccepted = lastStream
        out.appendGoAway(last: lastStream, .noError)
    }

    /// Whether a drain has come to its end but for the streams under way.
    package var acceptsNoMore: Bool { lastAccepted != nil || reading == .closed }

    /// Whether the stream came after the last GOAWAY of a drain, which told the client that it is not served (RFC 9113 §6.8).
    func isIgnored(_ number: UInt32) -> Bool { lastAccepted.map { number > $0 } ?? false }
}
