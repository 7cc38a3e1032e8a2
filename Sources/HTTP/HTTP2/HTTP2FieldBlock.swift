import Wire

/// A field block that comes in several frames, HEADERS and CONTINUATION (RFC 9113 §4.3), as far as it has arrived.
struct HTTP2FieldBlock: ~Copyable {
    /// CONTINUATION frames of one field section; 32 KiB of fields need two.
    static let mostContinuations = 8
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
        guard continuations <= Self.mostContinuations, bytes.count + fragment.byteCount <= Self.longest else {
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

/// The rest of a DATA frame, which is passed on as it arrives.
struct HTTP2DataFrame {
    /// Bytes of content still to come.
    var left = 0
    private var padding = 0
    /// Bytes of the frame that are no content.
    private(set) var overhead = 0

    /// Consumes the start of a DATA frame; false if the length of its padding has not arrived.
    mutating func begin(_ frame: HTTP2FrameHeader, _ input: inout ByteBuffer) throws(HTTP2Fault) -> Bool {
        let isPadded = frame.has(HTTP2Flag.padded)
        padding = 0
        if isPadded {
            guard frame.length > 0 else { throw HTTP2Fault(.frameSizeError) }
            guard input.count > HTTP2FrameHeader.size else { return false }
            padding = Int(input.readable[HTTP2FrameHeader.size])
            guard padding < frame.length else { throw HTTP2Fault(.protocolError) }
        }
        input.discard(HTTP2FrameHeader.size + (isPadded ? 1 : 0))
        overhead = isPadded ? padding + 1 : 0
        left = frame.length - overhead
        return true
    }

    /// Drops padding; false if more of it is to come.
    mutating func skipPadding(_ input: inout ByteBuffer) -> Bool {
        guard padding > 0 else { return true }
        let count = min(padding, input.count)
        padding -= count
        input.discard(count)
        return padding == 0
    }
}

/// The streams that this end has reset last, as many as may be under way: what the peer sent on them before it knew is dropped.
struct HTTP2Resets {
    private var numbers = InlineArray<100, UInt32>(repeating: 0)
    private var next = 0

    mutating func note(_ number: UInt32) {
        numbers[next] = number
        next = (next + 1) % numbers.count
    }

    func contains(_ number: UInt32) -> Bool {
        for index in numbers.indices where numbers[index] == number { return true }
        return false
    }
}
