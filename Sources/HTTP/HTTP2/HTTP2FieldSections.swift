import Wire

/// HEADERS and CONTINUATION in (RFC 9113 §6.2 and 6.10): field sections, of which heads are the roles' to read.
extension HTTP2Core {
    mutating func readHeaders(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, _ section: inout FieldSection, _ limits: HeadLimits, at now: MonotonicTime,
        into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        switch role {
        case .server: guard frame.stream & 1 == 1 else { throw HTTP2Fault(.protocolError) }
        case .client: try checkStream(frame.stream)
        }
        let fragment = try frame.fragment(of: payload)
        current = frame.stream
        endsStream = frame.has(HTTP2Flag.endStream)
        dependsOnItself = fragment.dependency == frame.stream
        let part = payload.extracting(fragment.range)
        if frame.has(HTTP2Flag.endHeaders) { return try endSection(part, &section, limits, at: now, into: &out) }
        reading = .continuation
        block.begin(part)
        return nil
    }

    mutating func readContinuation(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, _ section: inout FieldSection, _ limits: HeadLimits, at now: MonotonicTime,
        into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard reading == .continuation else { throw HTTP2Fault(.protocolError) }
        try block.add(payload)
        if payload.isEmpty { try count(.continuation, at: now) }
        guard frame.has(HTTP2Flag.endHeaders) else { return nil }
        reading = .frame
        let whole = block.take()
        return try endSection(whole.readable, &section, limits, at: now, into: &out)
    }

    /// The field section of `current` is complete. It is decoded in any case: the table of HPACK is the connection's.
    private mutating func endSection(
        _ bytes: RawSpan, _ section: inout FieldSection, _ limits: HeadLimits, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        let found = streams.find(current)
        let kind = sectionKind(found)
        var most = limits.headBytes
        if role == .server, kind == .trailers { most = min(most, BodyDecoder.maxTrailers) }
        do throws(HPACKFault) {
            try decoder.decode(bytes, as: kind, limits: FieldSectionLimits(fields: limits.fields, bytes: most), into: &section)
        } catch {
            throw HTTP2Fault(.compressionError)
        }
        if case .request = kind {
            isHeadWaiting = true
            return nil
        }
        guard let index = found, !streams[index].isReset, !streams[index].peerEnded else {
            return try readStray(found, at: now, into: &out)
        }
        guard kind == .trailers else {
            isHeadWaiting = true
            return nil
        }
        return try readTrailers(section, of: index, at: now, into: &out)
    }

    private func sectionKind(_ index: Int?) -> FieldSectionKind {
        switch role {
        case .server: current > lastStream ? .request(hasContent: !endsStream) : .trailers
        case .client: index.map { !streams[$0].hasAnswered } ?? false ? .response(hasContent: !endsStream) : .trailers
        }
    }

    private mutating func readTrailers(
        _ section: borrowing FieldSection, of index: Int, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        if let fault = section.fault {
            return try failStream(current, fault.isOverLimit ? .trailerTooLarge : .trailer, at: now, into: &out)
        }
        guard endsStream, role == .client || !dependsOnItself else { return try failStream(current, .trailer, at: now, into: &out) }
        guard streams[index].announces(0, isLast: true) else { return try failStream(current, .truncated, at: now, into: &out) }
        messageEnded(at: index)
        return section.head.byteCount <= 2 ? nil : .trailers(StreamID(number: current))
    }

    /// The peer's message on `current` is complete.
    mutating func messageEnded(at index: Int) {
        streams[index].peerEnded = true
        pendingEnd = current
    }

    /// Trailers for a stream that is over. What was in flight when the gateway reset it is no fault.
    private mutating func readStray(_ index: Int?, at now: MonotonicTime, into out: inout ByteBuffer) throws(HTTP2Fault) -> HTTP2Event? {
        guard role == .server else {
            try countStray(at: now)
            return nil
        }
        guard let index else {
            // Otherwise the client opens a stream that it has closed.
            guard isIgnored(current) || resets.forget(current) else { throw HTTP2Fault(.streamClosed) }
            return nil
        }
        return streams[index].isReset ? nil : try failStream(current, .connection, .streamClosed, at: now, into: &out)
    }
}
