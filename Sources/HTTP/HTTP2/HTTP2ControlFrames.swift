import Wire

/// PRIORITY, RST_STREAM, SETTINGS, PING and WINDOW_UPDATE (RFC 9113 §6.3 to 6.9).
extension HTTP2ServerConnection {
    /// Priorities are parsed and ignored, but for a stream that depends on itself.
    mutating func readPriority(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard frame.stream != 0 else { throw HTTP2Fault(.protocolError) }
        try count(.priority, at: now)
        guard payload.byteCount == 5 else { return try failStream(frame.stream, .frameSizeError, at: now, into: &out) }
        guard payload.bigEndian32(0) & 0x7FFF_FFFF != frame.stream else {
            return try failStream(frame.stream, .protocolError, at: now, into: &out)
        }
        return nil
    }

    mutating func readReset(_ frame: HTTP2FrameHeader, _ payload: RawSpan, at now: MonotonicTime) throws(HTTP2Fault) -> HTTP2Event? {
        guard frame.stream != 0 else { throw HTTP2Fault(.protocolError) }
        guard payload.byteCount == 4 else { throw HTTP2Fault(.frameSizeError) }
        guard frame.stream <= lastStream else { throw HTTP2Fault(.protocolError) }
        guard let index = streams.find(frame.stream) else {
            if !resets.forget(frame.stream) { try count(.closedStream, at: now) }
            return nil
        }
        // Behind the answer's end it says that the client ends its request, too.
        if !streams[index].gatewayEnded { try count(.reset, at: now) }
        guard !streams[index].isReset else { return nil }
        streams[index].isReset = true
        return .reset(StreamID(number: frame.stream))
    }

    mutating func readPing(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard frame.stream == 0 else { throw HTTP2Fault(.protocolError) }
        guard payload.byteCount == 8 else { throw HTTP2Fault(.frameSizeError) }
        try count(.ping, at: now)
        if frame.has(HTTP2Flag.ack) {
            if payload.equals(Self.drainPing) { finishDraining(into: &out) }
            return nil
        }
        HTTP2FrameHeader(length: 8, type: .ping, flags: HTTP2Flag.ack).write(into: &out)
        out.append(payload)
        return nil
    }

    mutating func readSettings(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard frame.stream == 0 else { throw HTTP2Fault(.protocolError) }
        try count(.settings, at: now)
        if frame.has(HTTP2Flag.ack) {
            guard payload.isEmpty else { throw HTTP2Fault(.frameSizeError) }
            return nil
        }
        guard payload.byteCount % 6 == 0 else { throw HTTP2Fault(.frameSizeError) }
        let formerWindow = sending.initialWindow
        for offset in stride(from: 0, to: payload.byteCount, by: 6) {
            try sending.apply(setting: payload.bigEndian16(offset), payload.bigEndian32(offset + 2), to: &streams)
        }
        HTTP2FrameHeader(length: 0, type: .settings, flags: HTTP2Flag.ack).write(into: &out)
        let isFirst = reading == .firstFrame
        reading = .frame
        // A drain that began before the connection did.
        if isFirst, isDraining {
            isDraining = false
            drain(into: &out)
        }
        return sending.initialWindow > formerWindow && !streams.isEmpty ? .roomGrew(StreamID(number: 0)) : nil
    }

    mutating func readWindowUpdate(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard payload.byteCount == 4 else { throw HTTP2Fault(.frameSizeError) }
        guard frame.stream <= lastStream else { throw HTTP2Fault(.protocolError) }
        if !sending.excuses() { try count(.windowUpdate, at: now) }
        let increment = Int(payload.bigEndian32(0) & 0x7FFF_FFFF)
        guard frame.stream != 0 else {
            return try sending.widen(by: increment) && !streams.isEmpty ? .roomGrew(StreamID(number: 0)) : nil
        }
        guard let index = streams.find(frame.stream), !streams[index].isReset else { return nil }
        guard increment > 0 else { return try failStream(frame.stream, .protocolError, at: now, into: &out) }
        let hadRoom = streams[index].sendWindow > 0
        streams[index].sendWindow += increment
        guard streams[index].sendWindow <= HTTP2Sending.largestWindow else {
            return try failStream(frame.stream, .flowControlError, at: now, into: &out)
        }
        return hadRoom || sending.window <= 0 ? nil : .roomGrew(StreamID(number: frame.stream))
    }
}
