import Wire

/// HEADERS and CONTINUATION in (RFC 9113 §6.2 and 6.10): requests and trailers.
extension HTTP2ServerConnection {
    mutating func readHeaders(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, _ section: inout FieldSection, _ head: inout RequestHead,
        _ limits: HeadLimits, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard frame.stream & 1 == 1 else { throw HTTP2Fault(.protocolError) }
        let fragment = try frame.fragment(of: payload)
        current = frame.stream
        endsStream = frame.has(HTTP2Flag.endStream)
        dependsOnItself = fragment.dependency == frame.stream
        let part = payload.extracting(fragment.range)
        if frame.has(HTTP2Flag.endHeaders) { return try endSection(part, &section, &head, limits, at: now, into: &out) }
        reading = .continuation
        block.begin(part)
        return nil
    }

    mutating func readContinuation(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, _ section: inout FieldSection, _ head: inout RequestHead,
        _ limits: HeadLimits, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard reading == .continuation else { throw HTTP2Fault(.protocolError) }
        try block.add(payload)
        if payload.isEmpty { try count(.continuation, at: now) }
        guard frame.has(HTTP2Flag.endHeaders) else { return nil }
        reading = .frame
        let whole = block.take()
        return try endSection(whole.readable, &section, &head, limits, at: now, into: &out)
    }

    /// The field section of `current` is complete. It is decoded in any case: the table of HPACK is the connection's.
    private mutating func endSection(
        _ bytes: RawSpan, _ section: inout FieldSection, _ head: inout RequestHead, _ limits: HeadLimits,
        at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        let isNew = current > lastStream
        do throws(HPACKFault) {
            try decoder.decode(
                bytes, as: isNew ? .request(hasContent: !endsStream) : .trailers,
                limits: FieldSectionLimits(
                    fields: limits.fields, bytes: isNew ? limits.headBytes : min(limits.headBytes, BodyDecoder.longestTrailers)),
                into: &section)
        } catch {
            throw HTTP2Fault(.compressionError)
        }
        return isNew
            ? try openStream(&section, &head, limits, at: now, into: &out) : try endStream(section, at: now, into: &out)
    }

    // MARK: requests

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
        guard !dependsOnItself else { return try failStream(current, .protocolError, at: now, into: &out) }
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
        _ = try failStream(current, .protocolError, at: now, into: &out)
        return .malformed(HTTPFault(400, reason))
    }

    private mutating func unreadable(_ fault: HTTPFault) -> HTTP2Event {
        streams.add(HTTP2Stream(current, sendWindow: sending.initialWindow, peerEnded: endsStream))
        return .unreadable(StreamID(number: current), fault)
    }

    // MARK: trailers

    private mutating func endStream(
        _ section: borrowing FieldSection, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard let index = streams.find(current) else {
            // In flight when the gateway reset the stream. Otherwise the client opens a stream that it has closed.
            guard isIgnored(current) || resets.forget(current) else { throw HTTP2Fault(.streamClosed) }
            return nil
        }
        guard !streams[index].isReset else { return nil }
        guard !streams[index].peerEnded else { return try failStream(current, .streamClosed, at: now, into: &out) }
        guard endsStream, section.fault == nil, !dependsOnItself, streams[index].announces(0, isLast: true) else {
            return try failStream(current, .protocolError, at: now, into: &out)
        }
        streams[index].peerEnded = true
        pendingEnd = current
        return section.head.byteCount <= 2 ? nil : .trailers(StreamID(number: current))
    }
}
