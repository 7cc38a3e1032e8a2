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
            if !forgetReset(frame.stream) { try count(.closedStream, at: now) }
            return nil
        }
        try count(.reset, at: now)
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
        let formerWindow = initialSendWindow
        for offset in stride(from: 0, to: payload.byteCount, by: 6) {
            try apply(setting: payload.bigEndian16(offset), payload.bigEndian32(offset + 2))
        }
        HTTP2FrameHeader(length: 0, type: .settings, flags: HTTP2Flag.ack).write(into: &out)
        let isFirst = reading == .firstFrame
        reading = .frame
        // A drain that began before the connection did.
        if isFirst, isDraining {
            isDraining = false
            drain(into: &out)
        }
        return initialSendWindow > formerWindow && !streams.isEmpty ? .roomGrew(StreamID(number: 0)) : nil
    }

    private mutating func apply(setting: UInt16, _ value: UInt32) throws(HTTP2Fault) {
        switch setting {
        case HTTP2Setting.enablePush:
            guard value <= 1 else { throw HTTP2Fault(.protocolError) }
        case HTTP2Setting.initialWindowSize:
            guard value <= UInt32(Self.largestWindow) else { throw HTTP2Fault(.flowControlError) }
            let change = Int(value) - initialSendWindow
            initialSendWindow = Int(value)
            guard streams.widen(by: change) else { throw HTTP2Fault(.flowControlError) }
        case HTTP2Setting.maxFrameSize:
            guard (16_384...16_777_215).contains(value) else { throw HTTP2Fault(.protocolError) }
        // The answers' field sections use no table and are not bounded by the client, the server has no streams of its own, and
        // frames of 16 KiB are what is sent in any case.
        default: break
        }
    }

    mutating func readWindowUpdate(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard payload.byteCount == 4 else { throw HTTP2Fault(.frameSizeError) }
        guard frame.stream <= lastStream else { throw HTTP2Fault(.protocolError) }
        if updatesExcused > 0 { updatesExcused -= 1 } else { try count(.windowUpdate, at: now) }
        let increment = Int(payload.bigEndian32(0) & 0x7FFF_FFFF)
        guard frame.stream != 0 else {
            guard increment > 0 else { throw HTTP2Fault(.protocolError) }
            let hadRoom = sendWindow > 0
            sendWindow += increment
            guard sendWindow <= Self.largestWindow else { throw HTTP2Fault(.flowControlError) }
            return hadRoom || streams.isEmpty ? nil : .roomGrew(StreamID(number: 0))
        }
        guard let index = streams.find(frame.stream), !streams[index].isReset else { return nil }
        guard increment > 0 else { return try failStream(frame.stream, .protocolError, at: now, into: &out) }
        let hadRoom = streams[index].sendWindow > 0
        streams[index].sendWindow += increment
        guard streams[index].sendWindow <= Self.largestWindow else {
            return try failStream(frame.stream, .flowControlError, at: now, into: &out)
        }
        return hadRoom || sendWindow <= 0 ? nil : .roomGrew(StreamID(number: frame.stream))
    }
}
