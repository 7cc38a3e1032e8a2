import Wire

/// PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY and WINDOW_UPDATE in (RFC 9113 §6.3 to 6.9).
extension HTTP2Core {
    /// Priorities are parsed and ignored, but for a client's stream that depends on itself.
    mutating func readPriority(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard frame.stream != 0 else { throw HTTP2Fault(.protocolError) }
        try count(.priority, at: now)
        guard role == .server else {
            guard payload.byteCount == 5 else { throw HTTP2Fault(.frameSizeError) }
            return nil
        }
        guard payload.byteCount == 5 else { return try failStream(frame.stream, .connection, .frameSizeError, at: now, into: &out) }
        guard payload.bigEndian32(0) & 0x7FFF_FFFF != frame.stream else {
            return try failStream(frame.stream, .connection, at: now, into: &out)
        }
        return nil
    }

    mutating func readReset(_ frame: HTTP2FrameHeader, _ payload: RawSpan, at now: MonotonicTime) throws(HTTP2Fault) -> HTTP2Event? {
        guard frame.stream != 0 else { throw HTTP2Fault(.protocolError) }
        guard payload.byteCount == 4 else { throw HTTP2Fault(.frameSizeError) }
        try checkStream(frame.stream)
        guard let index = streams.find(frame.stream), role == .server || !streams[index].isReset else {
            if !isAbandoned(frame.stream, isOver: true), !resets.forget(frame.stream) { try count(.closedStream, at: now) }
            return nil
        }
        // Behind the answer's end it says that the client ends its request, too.
        if role == .server, !streams[index].gatewayEnded { try count(.reset, at: now) }
        guard !streams[index].isReset else { return nil }
        streams[index].isReset = true
        // Behind a complete answer it says that the rest of the request is not needed (RFC 9113 §8.1).
        guard role == .server || !streams[index].peerEnded else { return nil }
        return .reset(StreamID(number: frame.stream), HTTP2ErrorCode(rawValue: payload.bigEndian32(0)) ?? .internalError)
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
        isRoomPending = sending.initialWindow > formerWindow && !streams.isEmpty
        return role == .client ? .settings : nil
    }

    private mutating func apply(setting: UInt16, _ value: UInt32) throws(HTTP2Fault) {
        if role == .client {
            if setting == HTTP2Setting.maxConcurrentStreams { peerStreams = value }
            // A server must not switch push on (RFC 9113 §6.5.2).
            guard setting != HTTP2Setting.enablePush || value == 0 else { throw HTTP2Fault(.protocolError) }
        }
        try sending.apply(setting: setting, value, to: &streams)
    }

    mutating func readPing(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard frame.stream == 0 else { throw HTTP2Fault(.protocolError) }
        guard payload.byteCount == 8 else { throw HTTP2Fault(.frameSizeError) }
        if frame.has(HTTP2Flag.ack), awaitsPong, payload.equals(Self.pingText) {
            awaitsPong = false
            finishDraining(into: &out)
            return nil
        }
        try count(.ping, at: now)
        guard !frame.has(HTTP2Flag.ack) else { return nil }
        HTTP2FrameHeader(length: 8, type: .ping, flags: HTTP2Flag.ack).write(into: &out)
        out.append(payload)
        return nil
    }

    mutating func readGoAway(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard frame.stream == 0 else { throw HTTP2Fault(.protocolError) }
        guard payload.byteCount >= 8 else { throw HTTP2Fault(.frameSizeError) }
        switch role {
        case .server:
            try count(.settings, at: now)
            // The client leaves: requests under way are answered, and then the connection ends.
            isDraining = true
            finishDraining(into: &out)
            return nil
        case .client:
            // A later one must not take more streams (RFC 9113 §6.8).
            lastTaken = min(lastTaken, payload.bigEndian32(0) & 0x7FFF_FFFF)
            areResetsPending = true
            abandoned.removeAll { $0.number > lastTaken }
            return .wentAway(HTTP2ErrorCode(rawValue: payload.bigEndian32(4)) ?? .internalError)
        }
    }

    mutating func readWindowUpdate(
        _ frame: HTTP2FrameHeader, _ payload: RawSpan, at now: MonotonicTime, into out: inout ByteBuffer
    ) throws(HTTP2Fault) -> HTTP2Event? {
        guard payload.byteCount == 4 else { throw HTTP2Fault(.frameSizeError) }
        if frame.stream != 0 { try checkStream(frame.stream) }
        try count(.windowUpdate, at: now)
        let increment = Int(payload.bigEndian32(0) & 0x7FFF_FFFF)
        guard frame.stream != 0 else {
            return try sending.widen(by: increment) && !streams.isEmpty ? .roomGrew(StreamID(number: 0)) : nil
        }
        guard let index = streams.find(frame.stream), !streams[index].isReset else { return nil }
        // A request that has ended, or whose answer has, needs no window.
        guard role == .server || !streams[index].gatewayEnded && !streams[index].peerEnded else { return nil }
        guard increment > 0 else { return try failStream(frame.stream, .connection, at: now, into: &out) }
        let hadRoom = streams[index].sendWindow > 0
        streams[index].sendWindow += increment
        guard streams[index].sendWindow <= HTTP2Sending.largestWindow else {
            return try failStream(frame.stream, .connection, .flowControlError, at: now, into: &out)
        }
        return hadRoom || sending.window <= 0 ? nil : .roomGrew(StreamID(number: frame.stream))
    }
}
