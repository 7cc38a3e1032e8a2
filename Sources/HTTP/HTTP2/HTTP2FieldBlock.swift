import Wire

/// A field block that comes in several frames, HEADERS and CONTINUATION (RFC 9113 §4.3), as far as it has arrived.
struct HTTP2FieldBlock: ~Copyable {
    /// CONTINUATION frames of one field section; 32 KiB of fields need two.
    static let maxContinuations = 8
    /// Bytes of one field section as sent.
    static let longest = 64 * 1_024

    private var bytes = ByteBuffer()
    private var continuations = 0

    /// Begins with the fragment of a HEADERS frame.
    mutating func begin(_ fragment: RawSpan) {
        continuations = 0
        bytes.removeAll()
        bytes.append(fragment)
    }

    /// Adds a CONTINUATION frame's fragment.
    mutating func add(_ fragment: RawSpan) throws(HTTP2Fault) {
        continuations += 1
        guard continuations <= Self.maxContinuations, bytes.count + fragment.byteCount <= Self.longest else {
            throw HTTP2Fault(.enhanceYourCalm, .continuation)
        }
        bytes.append(fragment)
    }

    /// The whole block; it is not kept.
    mutating func take() -> ByteBuffer {
        var whole = ByteBuffer()
        swap(&whole, &bytes)
        return whole
    }

    /// Frees the memory.
    mutating func rest() { bytes = ByteBuffer() }
}

extension HTTP2FrameHeader {
    /// The field block fragment in the payload of HEADERS, and the stream that it depends on.
    func fragment(of payload: RawSpan) throws(HTTP2Fault) -> (range: Range<Int>, dependency: UInt32?) {
        var start = 0
        var end = payload.byteCount
        if has(HTTP2Flag.padded) {
            guard end > 0 else { throw HTTP2Fault(.frameSizeError) }
            start = 1
            end -= Int(payload[0])
        }
        var dependency: UInt32?
        if has(HTTP2Flag.priority) {
            guard payload.byteCount >= start + 5 else { throw HTTP2Fault(.frameSizeError) }
            dependency = payload.bigEndian32(start) & 0x7FFF_FFFF
            start += 5
        }
        guard start <= end else { throw HTTP2Fault(.protocolError) }
        return (start..<end, dependency)
    }
}
