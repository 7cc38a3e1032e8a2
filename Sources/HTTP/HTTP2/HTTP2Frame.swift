package import Wire

/// Frame types (RFC 9113 §6). A frame of any other type is read and ignored.
package enum HTTP2FrameType: UInt8, Sendable {
    case data = 0, headers, priority, resetStream, settings, pushPromise, ping, goAway, windowUpdate, continuation
}

/// Flags of frames. One bit means different things in different types.
enum HTTP2Flag {
    static let endStream: UInt8 = 0x1
    static let ack: UInt8 = 0x1
    static let endHeaders: UInt8 = 0x4
    static let padded: UInt8 = 0x8
    static let priority: UInt8 = 0x20
}

/// Error codes of RST_STREAM and GOAWAY (RFC 9113 §7).
package enum HTTP2ErrorCode: UInt32, Sendable, CaseIterable {
    case noError = 0, protocolError, internalError, flowControlError, settingsTimeout, streamClosed, frameSizeError
    case refusedStream, cancel, compressionError, connectError, enhanceYourCalm, inadequateSecurity, http11Required

    /// Stable, snake_case, for logs and metrics.
    package var text: StaticString {
        switch self {
        case .noError: "no_error"
        case .protocolError: "protocol_error"
        case .internalError: "internal_error"
        case .flowControlError: "flow_control_error"
        case .settingsTimeout: "settings_timeout"
        case .streamClosed: "stream_closed"
        case .frameSizeError: "frame_size_error"
        case .refusedStream: "refused_stream"
        case .cancel: "cancel"
        case .compressionError: "compression_error"
        case .connectError: "connect_error"
        case .enhanceYourCalm: "enhance_your_calm"
        case .inadequateSecurity: "inadequate_security"
        case .http11Required: "http_1_1_required"
        }
    }
}

/// The settings that mean something here (RFC 9113 §6.5.2, RFC 8441 §3, RFC 9218 §2.1), by their identifiers.
enum HTTP2Setting {
    static let enablePush: UInt16 = 2
    static let maxConcurrentStreams: UInt16 = 3
    static let initialWindowSize: UInt16 = 4
    static let maxFrameSize: UInt16 = 5
    static let maxHeaderListSize: UInt16 = 6
    static let enableConnectProtocol: UInt16 = 8
    static let noRFC7540Priorities: UInt16 = 9
}

/// The nine bytes before each frame's payload (RFC 9113 §4.1).
package struct HTTP2FrameHeader: Equatable, Sendable {
    package static let size = 9
    /// The longest payload that is accepted, the default of SETTINGS_MAX_FRAME_SIZE.
    package static let maxPayload = 16_384

    package var length: Int
    package var type: UInt8
    package var flags: UInt8
    package var stream: UInt32

    package init(length: Int, type: HTTP2FrameType, flags: UInt8 = 0, stream: UInt32 = 0) {
        self.length = length
        self.type = type.rawValue
        self.flags = flags
        self.stream = stream
    }

    /// Reads the first nine of `bytes`, which must be there. The reserved bit is ignored.
    package init(_ bytes: RawSpan) {
        length = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
        type = bytes[3]
        flags = bytes[4]
        stream = bytes.bigEndian32(5) & 0x7FFF_FFFF
    }

    func has(_ flag: UInt8) -> Bool { flags & flag != 0 }

    package func write(into out: inout ByteBuffer) {
        out.append(highBytes: UInt64(length) << 40 | UInt64(type) << 32 | UInt64(flags) << 24, count: 5)
        out.append(bigEndian: stream)
    }
}

extension ByteBuffer {
    package mutating func append(bigEndian value: UInt32) { append(highBytes: UInt64(value) << 32, count: 4) }

    /// One entry of a SETTINGS frame.
    mutating func append(setting: UInt16, _ value: UInt32) {
        append(highBytes: UInt64(setting) << 48 | UInt64(value) << 16, count: 6)
    }

    mutating func appendWindowUpdate(_ increment: Int, stream: UInt32) {
        HTTP2FrameHeader(length: 4, type: .windowUpdate, stream: stream).write(into: &self)
        append(bigEndian: UInt32(increment))
    }

    mutating func appendReset(_ code: HTTP2ErrorCode, stream: UInt32) {
        HTTP2FrameHeader(length: 4, type: .resetStream, stream: stream).write(into: &self)
        append(bigEndian: code.rawValue)
    }

    mutating func appendGoAway(last: UInt32, _ code: HTTP2ErrorCode) {
        HTTP2FrameHeader(length: 8, type: .goAway).write(into: &self)
        append(bigEndian: last)
        append(bigEndian: code.rawValue)
    }
}

extension RawSpan {
    package func bigEndian32(_ offset: Int) -> UInt32 { load32(offset).byteSwapped }
    func bigEndian16(_ offset: Int) -> UInt16 { load16(offset).byteSwapped }
}
