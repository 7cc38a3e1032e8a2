package import Wire

/// One side of a WebSocket.
package enum WebSocketSide: CaseIterable, Sendable {
    case client, server
}

/// A frame's header (RFC 6455 §5.2).
package struct WebSocketFrameHeader: Equatable, Sendable {
    package static let longest = 14

    package let isFinal: Bool
    /// The three reserved bits, for extensions.
    package let reserved: UInt8
    package let opcode: UInt8
    package let isMasked: Bool
    /// The length field of the first two bytes: a length, or 126 or 127 for a longer field behind it.
    package let shortLength: UInt8
    /// Bytes of payload; its top bit is a fault.
    package let payload: UInt64
    /// Bytes of the header itself.
    package let length: Int

    /// Reads the header at `start`; nil if not all of it is there.
    @inline(__always)
    package init?(_ bytes: RawSpan, at start: Int) {
        let count = bytes.byteCount &- start
        guard count >= 2 else { return nil }
        let first = bytes[start]
        let second = bytes[start &+ 1]
        isFinal = first & 0x80 != 0
        reserved = first >> 4 & 7
        opcode = first & 0xF
        isMasked = second & 0x80 != 0
        shortLength = second & 0x7F
        let extended = shortLength < 126 ? 0 : shortLength == 126 ? 2 : 8
        length = 2 &+ extended &+ (isMasked ? 4 : 0)
        guard count >= length else { return nil }
        switch extended {
        case 0: payload = UInt64(shortLength)
        case 2: payload = UInt64(bytes[start &+ 2]) << 8 | UInt64(bytes[start &+ 3])
        default: payload = bytes.load64(start &+ 2).byteSwapped
        }
    }

    package var isControl: Bool { opcode & 8 != 0 }
    package var isClose: Bool { opcode == 8 }

    /// Whether a proxy may pass the frame on. What follows from the order of frames and from their payload is between the two ends.
    @inline(__always)
    func isValid(from side: WebSocketSide, hasExtensions: Bool) -> Bool {
        guard isMasked == (side == .client), payload >> 63 == 0 else { return false }
        if isControl, !isFinal || shortLength > 125 { return false }
        return hasExtensions || reserved == 0 && (opcode <= 2 || (8...10).contains(opcode))
    }
}

/// A close frame of the gateway's own (RFC 6455 §5.5.1, §7.4).
package struct WebSocketClose: Sendable {
    package let code: UInt16
    /// ASCII, at most 123 bytes.
    package let reason: StaticString

    package init(_ code: UInt16, _ reason: StaticString) {
        self.code = code
        self.reason = reason
    }

    /// Writes the frame. Towards a server it is masked, with a mask of zeros: masking guards against scripts that choose the bytes on the
    /// wire (RFC 6455 §10.3), and these bytes are fixed.
    package func write(to side: WebSocketSide, into out: inout ByteBuffer) {
        out.append(0x88 as UInt8)
        let count = UInt8(2 + reason.utf8CodeUnitCount)
        switch side {
        case .client: out.append(count)
        case .server:
            out.append(0x80 | count)
            out.append(bigEndian: 0)
        }
        out.append(UInt8(code >> 8))
        out.append(UInt8(code & 0xFF))
        out.append(reason.rawBytes)
    }
}
